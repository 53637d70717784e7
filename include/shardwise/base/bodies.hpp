// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Where a function is compiled. The body of a function that is neither a template nor constexpr stands at the end
/// of its header, under `#ifdef SHARDWISE_BODIES` and as `SHARDWISE_INLINE`. A program that includes the headers
/// alone compiles the bodies as inline functions. A program that links the CMake target `shardwise::shardwise` does
/// not read them: the target compiles them once.
///
/// A constexpr function must be visible. If it reaches much code, write the expression that it returns:
/// `SHARDWISE_ONCE(int, twice, (int x), (x), 2 * x)` is `constexpr int twice(int x)`, a member or not. At run time it
/// calls a body, `twice_once`; in constant evaluation it does the same itself. It asks
/// `__builtin_is_constant_evaluated()`: g++ drops the other branch before it generates code for what that calls, which
/// it does not after `std::is_constant_evaluated()`.
///
/// The same target instantiates the kernels for the element types of parameters. Write
/// `SHARDWISE_COMPILE(kernel::gemm<float, float>)` after a function template, or
/// `SHARDWISE_COMPILE_EACH(kernel::add)` for all three types; `SHARDWISE_COMPILE_BOTH` is for float and double.

#if defined(SHARDWISE_COMPILES)  // the target's own units
#define SHARDWISE_BODIES
#define SHARDWISE_INLINE
#define SHARDWISE_BODY(function, ...) [[gnu::used]] function __VA_ARGS__
#define SHARDWISE_COMPILE_MEMBER(...) template __VA_ARGS__;
#elif defined(SHARDWISE_COMPILED)  // a program that links it
#define SHARDWISE_BODY(function, ...) function;
#define SHARDWISE_COMPILE_MEMBER(...) extern template __VA_ARGS__;
#else
#define SHARDWISE_BODIES
#define SHARDWISE_INLINE __attribute__((noinline)) inline
#define SHARDWISE_BODY(function, ...) SHARDWISE_INLINE function __VA_ARGS__
#define SHARDWISE_COMPILE_MEMBER(...)
#endif
#define SHARDWISE_COMPILE(...) SHARDWISE_COMPILE_MEMBER(decltype(__VA_ARGS__) __VA_ARGS__)
// NOLINTBEGIN(bugprone-macro-parentheses): a parenthesised name is not one
#define SHARDWISE_ONCE(result, name, parameters, arguments, ...)          \
  SHARDWISE_BODY(result name##_once parameters, { return __VA_ARGS__; })  \
  constexpr result name parameters {                                      \
    if (!__builtin_is_constant_evaluated()) return name##_once arguments; \
    return __VA_ARGS__;                                                   \
  }
#define SHARDWISE_COMPILE_BOTH(function) \
  SHARDWISE_COMPILE(function<float>)     \
  SHARDWISE_COMPILE(function<double>)
#define SHARDWISE_COMPILE_EACH(function) \
  SHARDWISE_COMPILE_BOTH(function)       \
  SHARDWISE_COMPILE(function<Eigen::bfloat16>)
// NOLINTEND(bugprone-macro-parentheses)
