// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What all programs compile alike, told where it stands: `SHARDWISE_ONCE_HERE(read_text<void>)` behind a function, and
/// `SHARDWISE_ONCE_MEMBER(void Weights::open_all<void>())` behind a class. Programs that link `shardwise::compiled` leave
/// these to that target. Of functions that `shardwise.hpp` has, compiled.hpp is the list; it also says how they are chosen. (The
/// target's second unit defines both macros: compiled.hpp's list is `extern` there, and this is not.)

#if defined(SHARDWISE_COMPILES)
#define SHARDWISE_ONCE_MEMBER(...) template __VA_ARGS__;
#elif defined(SHARDWISE_COMPILED)
#define SHARDWISE_ONCE_MEMBER(...) extern template __VA_ARGS__;
#else
#define SHARDWISE_ONCE_MEMBER(...)
#endif
#define SHARDWISE_ONCE_HERE(...) SHARDWISE_ONCE_MEMBER(decltype(__VA_ARGS__) __VA_ARGS__)
