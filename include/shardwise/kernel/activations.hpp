// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Elementwise functions of one number. Each is a struct with `value(x)` and `slope(saved)`, the derivative as a
/// function of a saved number: the output y if `saves_output`, otherwise the input x.
///
///     activate<Gelu>(n, x, y);                  // y = gelu(x)
///     activate_backward<Gelu>(n, x, dy, dx);    // dx = dy · gelu'(x)

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/element.hpp>
#include <shardwise/kernel/elementary.hpp>

namespace shardwise::kernel {

/// max(x, 0); the slope at 0 is 0.
struct Relu {
  static constexpr bool saves_output = true;
  [[gnu::always_inline]] static auto value(auto x) { return x < 0 ? decltype(x){0} : x; }
  [[gnu::always_inline]] static auto slope(auto y) { return y > 0 ? decltype(y){1} : decltype(y){0}; }
};

/// 1 / (1 + e^-x)
struct Sigmoid {
  static constexpr bool saves_output = true;
  [[gnu::always_inline]] static auto value(auto x) { return sigmoid(x); }
  [[gnu::always_inline]] static auto slope(auto y) { return y * (1 - y); }
};

/// ln(1 + e^x)
struct Softplus {
  static constexpr bool saves_output = false;
  [[gnu::always_inline]] static auto value(auto x) { return softplus(x); }
  [[gnu::always_inline]] static auto slope(auto x) { return sigmoid(x); }
};

/// e^x
struct Exp {
  static constexpr bool saves_output = true;
  [[gnu::always_inline]] static auto value(auto x) { return exp(x); }
  [[gnu::always_inline]] static auto slope(auto y) { return y; }
};

/// The natural logarithm.
struct Log {
  static constexpr bool saves_output = false;
  [[gnu::always_inline]] static auto value(auto x) { return log(x); }
  [[gnu::always_inline]] static auto slope(auto x) { return 1 / x; }
};

/// √x
struct Sqrt {
  static constexpr bool saves_output = true;
  [[gnu::always_inline]] static auto value(auto x) { return std::sqrt(x); }
  [[gnu::always_inline]] static auto slope(auto y) { return 1 / (2 * y); }
};

/// The slope at 0 is 0.
struct Abs {
  static constexpr bool saves_output = false;
  [[gnu::always_inline]] static auto value(auto x) { return std::abs(x); }
  [[gnu::always_inline]] static auto slope(auto x) {
    using C = decltype(x);
    return static_cast<C>(x > 0) - static_cast<C>(x < 0);
  }
};

/// 1 / x
struct Reciprocal {
  static constexpr bool saves_output = true;
  [[gnu::always_inline]] static auto value(auto x) { return 1 / x; }
  [[gnu::always_inline]] static auto slope(auto y) { return -y * y; }
};

/// The hyperbolic tangent.
struct Tanh {
  static constexpr bool saves_output = true;
  [[gnu::always_inline]] static auto value(auto x) { return tanh(x); }
  [[gnu::always_inline]] static auto slope(auto y) { return 1 - y * y; }
};

/// x·Φ(x), Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
struct Gelu {
  static constexpr bool saves_output = false;
  [[gnu::always_inline]] static auto value(auto x) { return x * normal_distribution(x).probability; }
  [[gnu::always_inline]] static auto slope(auto x) {
    const auto normal = normal_distribution(x);
    return normal.probability + x * normal.density;
  }
};

/// The same paper's approximation x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³))) = x · sigmoid(2·√(2/π)·(…)).
struct GeluTanh {
  static constexpr bool saves_output = false;
  static constexpr double scale = 1.59576912160573071176, cubic = 0.044715;
  [[gnu::always_inline]] static auto value(auto x) { return x * gate(x); }
  [[gnu::always_inline]] static auto slope(auto x) {
    using C = decltype(x);
    const C s = gate(x);
    return s + x * s * (1 - s) * static_cast<C>(scale) * (1 + static_cast<C>(3 * cubic) * x * x);
  }
  template <class C>
  [[gnu::always_inline]] static C gate(C x) {
    return sigmoid(static_cast<C>(scale) * x * (1 + static_cast<C>(cubic) * x * x));
  }
};

/// x · sigmoid(x), also called swish.
struct Silu {
  static constexpr bool saves_output = false;
  [[gnu::always_inline]] static auto value(auto x) { return x * sigmoid(x); }
  [[gnu::always_inline]] static auto slope(auto x) {
    const auto s = sigmoid(x);
    return s * (1 + x * (1 - s));
  }
};

/// y = F(x), elementwise; y may be x.
template <class F, class T>
void activate(Index n, const T* x, T* y) {
  map(
      n, y, [](compute_t<T> value) { return F::value(value); }, x);
}

/// dx = dy · F'(saved), elementwise; dx may be dy or `saved`.
template <class F, class T>
void activate_backward(Index n, const T* saved, const T* dy, T* dx) {
  map(
      n, dx, [](compute_t<T> value, compute_t<T> gradient) { return gradient * F::slope(value); }, saved, dy);
}

/// x^p, without a call for the usual exponents and those of their derivatives.
template <class C>
[[gnu::always_inline]] inline C raise(C x, C p) {
  return p == 2 ? x * x : p == 1 ? x : std::pow(x, p);
}

/// y = F(gate) · up, the gated activation of Shazeer, "GLU variants improve transformer", 2020. y may be gate or up.
template <class F, class T>
void gated(Index n, const T* gate, const T* up, T* y) {
  map(
      n, y, [](compute_t<T> g, compute_t<T> u) { return F::value(g) * u; }, gate, up);
}

/// dgate = dy · up · F'(gate), dup = dy · F(gate). Either may be null to skip it.
template <class F, class T>
void gated_backward(Index n, const T* gate, const T* up, const T* dy, T* dgate, T* dup) {
  using C = compute_t<T>;
  if (dgate && dup) {
    SHARDWISE_INDEPENDENT
    for (Index i = 0; i < n; ++i) {
      const C g = widen(gate[i]), u = widen(up[i]), d = widen(dy[i]);
      dgate[i] = narrow<T>(d * u * F::slope(g));
      dup[i] = narrow<T>(d * F::value(g));
    }
  } else if (dgate) {
    map(
        n, dgate, [](C g, C u, C d) { return d * u * F::slope(g); }, gate, up, dy);
  } else if (dup) {
    gated<F>(n, gate, dy, dup);
  }
}
SHARDWISE_COMPILE(gated<Silu, float>)
SHARDWISE_COMPILE(gated<Silu, double>)
SHARDWISE_COMPILE(gated<Silu, Eigen::bfloat16>)
SHARDWISE_COMPILE(gated_backward<Silu, float>)
SHARDWISE_COMPILE(gated_backward<Silu, double>)
SHARDWISE_COMPILE(gated_backward<Silu, Eigen::bfloat16>)

}  // namespace shardwise::kernel
