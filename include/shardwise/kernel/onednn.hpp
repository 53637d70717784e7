// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// oneDNN for gemm.hpp, apart from its product of floats: products of bfloat16, accumulated in float, on processors
/// with instructions for them; and a guard against signals. Empty without SHARDWISE_GEMM_ONEDNN.

#if defined(SHARDWISE_GEMM_ONEDNN)

#include <dnnl.h>
#include <signal.h>

#include <array>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

#include <shardwise/base/bodies.hpp>
#include <shardwise/base/index.hpp>

namespace shardwise::kernel::detail {

/// oneDNN's products of float matrices point the stack pointer into their workspace on the heap. A signal that
/// arrives then writes its frame over whatever is below, and the process crashes with a corrupted heap or computes
/// wrong numbers (https://github.com/uxlfoundation/oneDNN/issues/4845, found in 2.6 to 3.11). Products of bfloat16
/// survived thousands of signals (2.6).
///
/// This object blocks signals to its thread, except those raised by the thread's own errors. It takes about 0.25
/// µs. Threads started while it exists, such as OpenMP's, keep signals blocked permanently.
class HeldSignals {
 public:
  HeldSignals() noexcept { pthread_sigmask(SIG_BLOCK, &held(), &before_); }
  HeldSignals& operator=(HeldSignals&&) = delete;
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  static const sigset_t& held() noexcept {
    static const sigset_t all_but_errors = [] {
      sigset_t signals;
      sigfillset(&signals);
      for (const int error : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&signals, error);
      return signals;
    }();
    return all_but_errors;
  }
  sigset_t before_;
};

inline void check_onednn(dnnl_status_t status, const char* call) {
  if (status == dnnl_success) return;
  throw std::runtime_error(std::string("shardwise: oneDNN's ") + call + " failed " +
                           (status == dnnl_out_of_memory
                                ? "for lack of memory"
                                : "with status " + std::to_string(static_cast<int>(status))));
}

/// Whether this processor multiplies bfloat16 (AVX-512 BF16, AMX), as oneDNN reports it; ONEDNN_MAX_CPU_ISA may
/// disable it.
inline bool multiplies_bfloat16() {
  static const bool does = [] {
    const int needed = dnnl_cpu_isa_avx512_core_bf16;
    return (static_cast<int>(dnnl_get_effective_cpu_isa()) & needed) == needed;
  }();
  return does;
}

template <class Object, auto destroy>
class OneDnn {
 public:
  OneDnn() = default;
  OneDnn(OneDnn&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  OneDnn& operator=(OneDnn&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~OneDnn() {
    if (object_) destroy(object_);
  }
  operator Object*() const { return object_; }
  Object** made() { return &object_; }

 private:
  Object* object_ = nullptr;
};

/// A matrix whose stored rows are `ld` apart; if `turned`, the transpose of the stored one.
class OneDnnMatrix {
 public:
  OneDnnMatrix(Index rows, Index cols, Index ld, bool turned, dnnl_data_type_t type) {
    const dnnl_dims_t extents = {rows, cols}, strides = {turned ? 1 : ld, turned ? ld : 1};
#if DNNL_VERSION_MAJOR >= 3
    check_onednn(dnnl_memory_desc_create_with_strides(layout_.made(), 2, extents, type, strides),
                 "memory_desc");
  }
  operator const_dnnl_memory_desc_t() const { return layout_; }

 private:
  OneDnn<dnnl_memory_desc, dnnl_memory_desc_destroy> layout_;
#else
    check_onednn(dnnl_memory_desc_init_by_strides(&layout_, 2, extents, type, strides), "memory_desc");
  }
  operator const dnnl_memory_desc_t*() const { return &layout_; }

 private:
  dnnl_memory_desc_t layout_;
#endif
};

/// C (+)= op(A) · op(B) as in `gemm`, of bfloat16; C is float if `wide`.
struct Bfloat16Product {
  bool turn_a, turn_b;
  Index m, n, k, lda, ldb, ldc;
  bool wide, accumulate;

  friend bool operator==(const Bfloat16Product&, const Bfloat16Product&) = default;
};

/// Computes one product. Each thread caches the primitives of its latest kinds of products.
void multiply(const Bfloat16Product& product, const void* a, const void* b, void* c);

#ifdef SHARDWISE_BODIES

/// oneDNN's primitive for one kind of product, and its arguments. Creating it takes about 100 µs, and some
/// milliseconds if oneDNN has not generated similar code before.
class Bfloat16Primitive {
 public:
  Bfloat16Primitive() = default;
  explicit Bfloat16Primitive(const Bfloat16Product& p) {
    const OneDnnMatrix a(p.m, p.k, p.lda, p.turn_a, dnnl_bf16), b(p.k, p.n, p.ldb, p.turn_b, dnnl_bf16),
        c(p.m, p.n, p.ldc, false, p.wide ? dnnl_f32 : dnnl_bf16);
    OneDnn<dnnl_post_ops, dnnl_post_ops_destroy> sum;
    OneDnn<dnnl_primitive_attr, dnnl_primitive_attr_destroy> attributes;
    OneDnn<dnnl_primitive_desc, dnnl_primitive_desc_destroy> description;
    check_onednn(dnnl_post_ops_create(sum.made()), "post_ops_create");
    check_onednn(dnnl_primitive_attr_create(attributes.made()), "primitive_attr_create");
    const dnnl_engine_t processor = engine();
    check_onednn(dnnl_stream_create(stream_.made(), processor, dnnl_stream_default_flags), "stream_create");
#if DNNL_VERSION_MAJOR >= 3
    if (p.accumulate)
      check_onednn(dnnl_post_ops_append_sum(sum, 1, 0, dnnl_data_type_undef), "post_ops_append_sum");
    check_onednn(dnnl_primitive_attr_set_post_ops(attributes, sum), "primitive_attr_set_post_ops");
    check_onednn(
        dnnl_matmul_primitive_desc_create(description.made(), processor, a, b, nullptr, c, attributes),
        "matmul_primitive_desc_create");
#else
    if (p.accumulate) check_onednn(dnnl_post_ops_append_sum(sum, 1), "post_ops_append_sum");
    check_onednn(dnnl_primitive_attr_set_post_ops(attributes, sum), "primitive_attr_set_post_ops");
    dnnl_matmul_desc_t product;
    check_onednn(dnnl_matmul_desc_init(&product, a, b, nullptr, c), "matmul_desc_init");
    check_onednn(dnnl_primitive_desc_create(description.made(), &product, attributes, processor, nullptr),
                 "primitive_desc_create");
#endif
    check_onednn(dnnl_primitive_create(primitive_.made(), description), "primitive_create");
    const OneDnnMatrix* matrices[] = {&a, &b, &c};
    for (std::size_t i = 0; i < 3; ++i) {
      check_onednn(dnnl_memory_create(arguments_[i].made(), *matrices[i], processor, nullptr),
                   "memory_create");
    }
  }

  void run(const void* a, const void* b, void* c) const {
    const int names[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    void* const blocks[] = {const_cast<void*>(a), const_cast<void*>(b), c};
    dnnl_exec_arg_t given[3];
    for (std::size_t i = 0; i < 3; ++i) {
      given[i] = {names[i], arguments_[i]};
      check_onednn(dnnl_memory_set_data_handle(arguments_[i], blocks[i]), "memory_set_data_handle");
    }
    check_onednn(dnnl_primitive_execute(primitive_, stream_, 3, given), "primitive_execute");
    check_onednn(dnnl_stream_wait(stream_), "stream_wait");
  }

 private:
  static dnnl_engine_t engine() {
    static const auto processor = [] {
      OneDnn<dnnl_engine, dnnl_engine_destroy> made;
      check_onednn(dnnl_engine_create(made.made(), dnnl_cpu, 0), "engine_create");
      return made;
    }();
    return processor;
  }

  OneDnn<dnnl_stream, dnnl_stream_destroy> stream_;
  OneDnn<dnnl_primitive, dnnl_primitive_destroy> primitive_;
  std::array<OneDnn<dnnl_memory, dnnl_memory_destroy>, 3> arguments_;
};

SHARDWISE_INLINE void multiply(const Bfloat16Product& product, const void* a, const void* b, void* c) {
  struct Kept {
    Bfloat16Product product{};
    Bfloat16Primitive primitive;
  };
  struct Cache {
    std::array<Kept, 64> kept;
    std::size_t next = 0;
  };
  thread_local Cache cache;
  for (const Kept& kept : cache.kept) {
    if (kept.product == product) return kept.primitive.run(a, b, c);
  }
  Kept& kept = cache.kept[cache.next++ % cache.kept.size()];
  kept.product = {};
  kept.primitive = Bfloat16Primitive(product);
  kept.product = product;
  kept.primitive.run(a, b, c);
}

#endif

}  // namespace shardwise::kernel::detail

#endif
