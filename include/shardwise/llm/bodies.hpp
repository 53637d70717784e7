// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Where a function of shardwise/llm is compiled: as in base/bodies.hpp, but once by the CMake target `shardwise::llm`.
/// A program that links only `shardwise::shardwise` compiles them itself.

#include <shardwise/base/bodies.hpp>

#ifdef SHARDWISE_LLM_COMPILED  // a program that links it
#define SHARDWISE_LLM_COMPILE(...) extern template decltype(__VA_ARGS__) __VA_ARGS__;
#else
#define SHARDWISE_LLM_BODIES
#ifndef SHARDWISE_LLM_COMPILE  // which the target's own unit defines
#define SHARDWISE_LLM_COMPILE(...)
#undef SHARDWISE_INLINE
#define SHARDWISE_INLINE __attribute__((noinline)) inline
#endif
#endif
