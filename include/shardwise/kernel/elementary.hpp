// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// exp, log, sigmoid, softplus, tanh and the normal distribution function of one number, without branches or calls
/// and always inlined, so that the compiler vectorises loops over them (the standard library's functions prevent
/// that). C is `float` or `double`. Errors: all but the last a few units in the last place; the normal distribution
/// 2e-7 in `float`, 1e-15 in `double`, also under -fassociative-math.

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace shardwise::kernel {

/// Horner's rule, highest coefficient first.
template <class C, class... Rest>
[[gnu::always_inline]] inline C polynomial(C x, double highest, Rest... rest) {
  C sum = static_cast<C>(highest);
  ((sum = sum * x + static_cast<C>(rest)), ...);
  return sum;
}

/// Stops g++ from regrouping terms across a number: combining its bits with an unknown zero makes it a new value.
/// (g++ drops its own __builtin_assoc_barrier in vector loops.) clang obeys the pragma in `exp` and `deviation`.
#if defined(__ASSOCIATIVE_MATH__) && !defined(__clang__)
[[gnu::used]] inline std::int32_t unknown_zero = 0;
/// X: float, double, or a vector of them.
template <class X>
[[gnu::always_inline]] inline void keep_apart(X& sum) {
  using OfOne = std::conditional_t<std::is_same_v<X, float>, std::int32_t, std::int64_t>;
  using Bits = std::conditional_t<std::is_floating_point_v<X>, OfOne, decltype(sum == sum)>;
  sum = std::bit_cast<X>(std::bit_cast<Bits>(sum) ^ unknown_zero);
}
#else
[[gnu::always_inline]] inline void keep_apart(auto&) {}
#endif

/// off = x - mean, then less what the mean lacks, in this order under any flag: close numbers lose nothing.
[[gnu::always_inline]] inline void deviation(auto& off, const auto& x, const auto&... means) {
#ifdef __clang__
#pragma clang fp reassociate(off)
#endif
  off = x;
  ((off = off - means, keep_apart(off)), ...);
}

/// e^x = 2^n · e^r with |r| ≤ ln(2)/2 and the Taylor series of e^r. Results below twice the smallest normal number
/// are flushed to zero, which also keeps slow denormal numbers out of softmax.
template <class C>
[[gnu::always_inline]] inline C exp(C x) {
#ifdef __clang__
#pragma clang fp reassociate(off)
#endif
  constexpr bool single = std::is_same_v<C, float>;
  using Bits = std::conditional_t<single, std::int32_t, std::int64_t>;
  constexpr int mantissa = std::numeric_limits<C>::digits - 1;
  constexpr Bits bias = std::numeric_limits<C>::max_exponent - 1;
  constexpr C round = static_cast<C>(Bits{3} << (mantissa - 1));  // adding it leaves n in the lowest bits
  constexpr C lowest = static_cast<C>(single ? -86.6 : -707.7);
  constexpr C highest = static_cast<C>(single ? 89 : 710);
  constexpr C ln2_high = static_cast<C>(single ? 0.693359375 : 0x1.62e42feep-1);
  constexpr C ln2_low = static_cast<C>(single ? -2.12194440054690583e-4 : 1.90821492927058770002e-10);

  using Unsigned = std::make_unsigned_t<Bits>;
  const auto rounded = [](C sum) __attribute__((always_inline)) {
    keep_apart(sum);
    return sum;
  };

  C clamped = x < lowest ? lowest : x;  // NaN stays NaN
  clamped = clamped > highest ? highest : clamped;
  const C shifted = rounded(clamped * static_cast<C>(1.44269504088896340736) + round);
  const C n = rounded(shifted - round);
  const C r = rounded(clamped - n * ln2_high) - n * ln2_low;
  C series;
  if constexpr (single) {
    series = polynomial(r, 1. / 720, 1. / 120, 1. / 24, 1. / 6, .5, 1., 1.);
  } else {
    series = polynomial(r, 1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880,
                        1. / 40320, 1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, .5, 1., 1.);
  }
  const Unsigned exponent = (std::bit_cast<Unsigned>(shifted) + static_cast<Unsigned>(bias - 1)) << mantissa;
  // 2^(n-1) · 2: n may be one too large for an exponent
  const C result = rounded(series * std::bit_cast<C>(exponent)) * 2;
  return x < lowest ? C{0} : result;
}

[[gnu::always_inline]] inline auto sigmoid(auto x) { return 1 / (1 + exp(-x)); }

/// ln((1 + s) / (1 - s)) by its series, for |s| ≤ 1/3.
template <class C>
[[gnu::always_inline]] inline C log_of_ratio(C s) {
  const C z = s * s;
  C series;
  if constexpr (std::is_same_v<C, float>) {
    series = polynomial(z, 1. / 15, 1. / 13, 1. / 11, 1. / 9, 1. / 7, 1. / 5, 1. / 3);
  } else {
    series = polynomial(z, 1. / 31, 1. / 29, 1. / 27, 1. / 25, 1. / 23, 1. / 21, 1. / 19, 1. / 17, 1. / 15,
                        1. / 13, 1. / 11, 1. / 9, 1. / 7, 1. / 5, 1. / 3);
  }
  return 2 * s + 2 * s * z * series;
}

/// ln x = n · ln 2 + ln m with x = 2^n · m and m in [√½, √2): two to three times as fast as std::log. The result is
/// selected by masks, because g++ makes a branch of `?:` here.
template <class C>
[[gnu::always_inline]] inline C log(C x) {
  using Limits = std::numeric_limits<C>;
  using Bits = std::conditional_t<std::is_same_v<C, float>, std::int32_t, std::int64_t>;
  const auto bits_of = [](C value) __attribute__((always_inline)) { return std::bit_cast<Bits>(value); };
  constexpr int mantissa = Limits::digits - 1;

  const Bits given = bits_of(x);
  const bool denormal = given < bits_of(Limits::min());
  const Bits scaled = bits_of(x * (denormal ? static_cast<C>(Bits{1} << mantissa) : C{1}));
  const Bits exponent = (scaled - bits_of(static_cast<C>(0.70710678118654752440))) >> mantissa;
  const C m = std::bit_cast<C>(scaled - (exponent << mantissa));
  const C n = static_cast<C>(static_cast<std::int32_t>(exponent) - (denormal ? mantissa : 0));
  const C result = n * static_cast<C>(0.69314718055994530942) + log_of_ratio((m - 1) / (m + 1));

  const Bits of_no_positive = given << 1 == 0 ? bits_of(-Limits::infinity()) : bits_of(Limits::quiet_NaN());
  const Bits otherwise = given > 0 ? given : of_no_positive;  // infinity and NaN stay
  const Bits finite = -static_cast<Bits>((given > 0) & (given < bits_of(Limits::infinity())));
  return std::bit_cast<C>((bits_of(result) & finite) | (otherwise & ~finite));
}

/// ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|)
template <class C>
[[gnu::always_inline]] inline C softplus(C x) {
  const C e = exp(x < 0 ? x : -x);
  return (x < 0 ? C{0} : x) + log_of_ratio(e / (2 + e));
}

/// Near zero the rational function of Cephes (Moshier 1989), elsewhere (1 - e^-2|x|) / (1 + e^-2|x|).
template <class C>
[[gnu::always_inline]] inline C tanh(C x) {
  const C magnitude = x < 0 ? -x : x;
  const C e = exp(-2 * magnitude);
  const C far = (1 - e) / (1 + e);
  const C z = x * x;
  const C above =
      polynomial(z, -9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3);
  const C below =
      polynomial(z, 1., 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3);
  const C near = x + x * z * (above / below);
  const C signed_far = x < 0 ? -far : far;
  return magnitude < static_cast<C>(0.625) ? near : signed_far;
}

/// The standard normal distribution: probability Φ(x) and density φ(x), from one exponential.
template <class C>
struct Normal {
  C probability;
  C density;
};

/// For a = |x|, Φ(-a) = e^(-a²/2) · p(t) / (1 + a), where t = (a - 4) / (a + 4) maps [0, ∞) to [-1, 1) and p
/// is the Chebyshev interpolant, after Shepherd and Laframboise, "Chebyshev approximation of
/// (1+2x)exp(x²)erfc x", Math. Comp. 36 (1981).
template <class C>
[[gnu::always_inline]] inline Normal<C> normal_distribution(C x) {
  C a = x < 0 ? -x : x;
  a = a > 40 ? C{40} : a;  // beyond 40 all is 0 or 1; prevents inf / inf
  const C e = exp(static_cast<C>(-0.5) * a * a);
  const C t = (a - 4) / (a + 4);
  C p;
  if constexpr (std::is_same_v<C, float>) {
    p = polynomial(t, -5.996640515e-5, -4.986023737e-5, 6.696953079e-4, -3.261252947e-4, -4.991853786e-3,
                   1.795303938e-2, -3.219967422e-2, 2.859740577e-2, 1.399972575e-2, -9.67033307e-2,
                   4.720532065e-1);
  } else {
    p = polynomial(
        t, -1.59026564960750712e-9, 1.57356099527152733e-9, 1.76879548434332176e-8, -8.1453363109808362e-9,
        -1.10805836055753001e-7, -1.52370513288539043e-8, 5.51555579952671824e-7, 4.19297284708730585e-7,
        -2.61249638277407935e-6, -3.44074584208044835e-6, 1.36266626587069067e-5, 2.12532814915394056e-5,
        -8.78531236830210064e-5, -9.44310397447247592e-5, 6.94897094763782088e-4, -2.85622981019190609e-4,
        -5.00237859023235308e-3, 1.79360974699802582e-2, -3.21978374281112249e-2, 2.86003640539226473e-2,
        1.39996347244254059e-2, -9.67034773265300353e-2, 4.72053206509844683e-1);
  }
  const C tail = e * p / (1 + a);
  const C rest = 1 - tail;
  return {x < 0 ? tail : rest, e * static_cast<C>(0.398942280401432677940)};
}

}  // namespace shardwise::kernel
