// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What every program with a model compiles alike: the kernels, and what moves blocks between ranks. Linking the CMake target
/// `shardwise::compiled` leaves these functions to one unit of that target (it defines SHARDWISE_COMPILED, its unit
/// SHARDWISE_COMPILES); without it, each unit of a program compiles those that it uses. They are functions of some size that
/// no loop calls for each element; what is no template otherwise has a parameter `class = void` for this.

#if defined(SHARDWISE_COMPILED) || defined(SHARDWISE_COMPILES)
#include <shardwise/mesh/environment.hpp>
#include <shardwise/mesh/same_on_all_ranks.hpp>
#include <shardwise/ops/ops.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/check_finite.hpp>
#include <shardwise/train/sgd.hpp>
#include <shardwise/weights/stored_type.hpp>

#ifdef SHARDWISE_COMPILES
#define SHARDWISE_EXTERN
#else
#define SHARDWISE_EXTERN extern
#endif
#define SHARDWISE_ONCE(...) SHARDWISE_EXTERN template decltype(__VA_ARGS__) __VA_ARGS__;
#define SHARDWISE_ONCE_EACH(name) \
  SHARDWISE_ONCE(name<float>)     \
  SHARDWISE_ONCE(name<double>)    \
  SHARDWISE_ONCE(name<Eigen::bfloat16>)

namespace shardwise {

// ---- Kernels, for the types of elements that parameters have -----------------------------------------------------
SHARDWISE_ONCE_EACH(kernel::swiglu)
SHARDWISE_ONCE_EACH(kernel::swiglu_backward)
SHARDWISE_ONCE_EACH(kernel::add)
SHARDWISE_ONCE_EACH(kernel::accumulate)
SHARDWISE_ONCE_EACH(kernel::subtract)
SHARDWISE_ONCE_EACH(kernel::multiply)
SHARDWISE_ONCE_EACH(kernel::scale)
SHARDWISE_ONCE_EACH(kernel::accumulate_scaled)
SHARDWISE_ONCE_EACH(kernel::add_rows)
SHARDWISE_ONCE_EACH(kernel::attention)
SHARDWISE_ONCE_EACH(kernel::attention_backward)
SHARDWISE_ONCE_EACH(kernel::detail::maximum_and_sum)
SHARDWISE_ONCE_EACH(kernel::detail::gradient_row)
SHARDWISE_ONCE_EACH(kernel::layer_norm)
SHARDWISE_ONCE_EACH(kernel::layer_norm_backward)
SHARDWISE_ONCE_EACH(kernel::rms_norm)
SHARDWISE_ONCE_EACH(kernel::rms_norm_backward)
SHARDWISE_ONCE_EACH(kernel::fill_uniform)
SHARDWISE_ONCE_EACH(kernel::fill_normal)
SHARDWISE_ONCE_EACH(kernel::dropout)
SHARDWISE_ONCE_EACH(kernel::sum_rows)
SHARDWISE_ONCE_EACH(kernel::rope)
SHARDWISE_ONCE_EACH(kernel::softmax)
SHARDWISE_ONCE_EACH(kernel::softmax_backward)
SHARDWISE_ONCE_EACH(kernel::sgd_update)
SHARDWISE_ONCE_EACH(kernel::adamw_update)
SHARDWISE_ONCE_EACH(kernel::sum_of_wide_squares)
SHARDWISE_ONCE_EACH(kernel::largest_magnitude)
SHARDWISE_ONCE_EACH(kernel::count_non_finite)
SHARDWISE_ONCE(kernel::gemm<float, float>)
SHARDWISE_ONCE(kernel::gemm<double, double>)
SHARDWISE_ONCE(kernel::gemm<Eigen::bfloat16, Eigen::bfloat16>)
SHARDWISE_ONCE(kernel::gemm<Eigen::bfloat16, float>)
SHARDWISE_ONCE(kernel::embedding<float, std::int32_t>)
SHARDWISE_ONCE(kernel::embedding_backward<float, std::int32_t>)

// ---- Ranks, blocks, and what is said of them ---------------------------------------------------------------------
SHARDWISE_EXTERN template Communicator Communicator::duplicate<void>(MPI_Comm);
SHARDWISE_EXTERN template Communicator Communicator::subgroup<void>(std::span<const int>) const;
SHARDWISE_EXTERN template void Communicator::run<void>(detail::Call) const;
SHARDWISE_EXTERN template Request Communicator::begin<void>(detail::Call) const;
SHARDWISE_EXTERN template Communicator detail::MeshState::make_group<void>(AxisSet) const;
SHARDWISE_EXTERN template Communicator detail::MeshState::among<void>(const std::vector<int>&);
SHARDWISE_EXTERN template void detail::Exchange::communicate<void>(Index, bool);
SHARDWISE_EXTERN template void require_same<void>(const Communicator&, std::span<const NamedText>,
                                                  std::string_view);
SHARDWISE_ONCE(detail::cached_route<void>)
SHARDWISE_ONCE(detail::copy_part<void>)
SHARDWISE_ONCE(detail::convert_part<void>)
SHARDWISE_ONCE(detail::convert<void>)
SHARDWISE_ONCE(detail::report<void>)
SHARDWISE_ONCE(detail::end_job<void>)
SHARDWISE_ONCE(detail::text<void>)
SHARDWISE_ONCE(detail::position<void>)
SHARDWISE_ONCE(detail::without_controls<void>)

// ---- Gradients ---------------------------------------------------------------------------------------------------
SHARDWISE_EXTERN template const Buffer& GradientSlot::sum<void>();
SHARDWISE_EXTERN template const Buffer& GradientSlot::own<void>(Recorder*);
SHARDWISE_EXTERN template Buffer GradientSlot::take<void>();
SHARDWISE_EXTERN template bool GradientSlot::keep<void>(const detail::TokenRows&, Index);
SHARDWISE_EXTERN template detail::GradientTarget::GradientTarget(const Shared<GradientSlot>&, const Buffer&,
                                                                 Index, Recorder*, bool, bool, OperandKind);
SHARDWISE_EXTERN template void detail::GradientTarget::deliver<void>(const Buffer&, const ElementSum&,
                                                                     Recorder*);
SHARDWISE_EXTERN template void detail::RedistributeNode::send_back<void>();
SHARDWISE_ONCE(detail::new_buffer<void>)
SHARDWISE_ONCE(detail::check_heads<void>)

}  // namespace shardwise

#undef SHARDWISE_ONCE_EACH
#undef SHARDWISE_ONCE
#undef SHARDWISE_EXTERN
#endif
