// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What every program with a model compiles alike: the kernels, what moves blocks between ranks, and a step of training.
/// Linking the CMake target `shardwise::compiled` leaves these functions to one unit of that target (it defines
/// SHARDWISE_COMPILED, its unit SHARDWISE_COMPILES; comm/communicator.hpp leaves the transports out then); without it, each
/// unit of a program compiles those that it uses. They are functions of some size that no loop calls for each element, and
/// through which much is reached: what nothing else calls is not compiled either.
/// What is no template otherwise has a parameter `class = void` for this, and is defined behind its class: in it, g++ would
/// instantiate it in each unit all the same. What is constexpr is `gnu::noinline`, or it would be compiled to be inlined, and
/// stands in its class before what calls it there, for clang's constant expressions.

#if defined(SHARDWISE_COMPILED) || defined(SHARDWISE_COMPILES)
#include <shardwise/comm/environment.hpp>
#include <shardwise/kernel/cross_entropy.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/models/llama/stage_borders.hpp>
#include <shardwise/nn/loss_of_rows.hpp>
#include <shardwise/nn/ring_exchange.hpp>
#include <shardwise/ops/ops.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/check_finite.hpp>
#include <shardwise/train/clip.hpp>
#include <shardwise/train/sgd.hpp>
#include <shardwise/train/unit.hpp>
#include <shardwise/weights/stored_type.hpp>

#ifdef SHARDWISE_COMPILED
#define SHARDWISE_EXTERN extern
#else
#define SHARDWISE_EXTERN
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
SHARDWISE_ONCE(kernel::row_terms<float, std::int32_t, kernel::RowTerms<float, false>>)
SHARDWISE_ONCE(kernel::row_terms<float, std::int32_t, kernel::RowTerms<float, true>>)
SHARDWISE_ONCE(detail::loss_of_rows<kernel::RowTerms<float, false>, std::int32_t, 2>)
SHARDWISE_ONCE(detail::loss_of_rows<kernel::RowTerms<float, true>, std::int32_t, 2>)
SHARDWISE_ONCE(kernel::gemm<float, float>)
SHARDWISE_ONCE(kernel::gemm<double, double>)
SHARDWISE_ONCE(kernel::gemm<Eigen::bfloat16, Eigen::bfloat16>)
SHARDWISE_ONCE(kernel::gemm<Eigen::bfloat16, float>)
SHARDWISE_EXTERN template void EmbeddingOp::forward(View<float, 3>, void*, View<const std::int32_t, 2>,
                                                    View<const float, 2>);
SHARDWISE_ONCE(kernel::embedding_backward<float, std::int32_t>)

// ---- Ranks, blocks, and what is said of them ---------------------------------------------------------------------
SHARDWISE_ONCE(detail::transport_over<void>)
SHARDWISE_EXTERN template Communicator Communicator::subgroup<void>(std::span<const int>) const;
SHARDWISE_EXTERN template void Communicator::run<void>(detail::Call) const;
SHARDWISE_EXTERN template Request Communicator::begin<void>(detail::Call) const;
SHARDWISE_EXTERN template Communicator detail::MeshState::among<void>(const std::vector<int>&);
SHARDWISE_EXTERN template void detail::Exchange::communicate<void>(bool);
SHARDWISE_EXTERN template detail::MeshState::MeshState(const Communicator&, const MeshPlace&,
                                                       RealRanks::NameOf, const Shared<MeshState>&);
SHARDWISE_EXTERN template MeshHandle detail::MeshState::part<void>(const RankGrid&, RealRanks::NameOf);
SHARDWISE_EXTERN template const Communicator& detail::MeshState::communicator<void>(AxisSet);
SHARDWISE_EXTERN template AxisSet MeshPlace::job_axes_of<void>(AxisSet) const;
SHARDWISE_EXTERN template void Recorder::begin<void>(Event);
SHARDWISE_EXTERN template void EventLog::begin<void>(Event);
SHARDWISE_ONCE(detail::require_same_step<void>)
SHARDWISE_ONCE(detail::take_recorder<void>)
SHARDWISE_ONCE(detail::give_back<void>)
SHARDWISE_EXTERN template void detail::RingMessages::put<void>(const detail::Message&);
SHARDWISE_EXTERN template void detail::RingMessages::wait<void>();
SHARDWISE_EXTERN template void detail::RingMessages::land<void>();
SHARDWISE_EXTERN template void Environment::open<void>(int&, char**&, ThreadLevel);
SHARDWISE_ONCE(detail::fitted<void>)
SHARDWISE_ONCE(detail::dry_job<void>)
SHARDWISE_ONCE(detail::gather<void>)
SHARDWISE_ONCE(detail::gather_each<void>)
SHARDWISE_ONCE(detail::ended<void>)
SHARDWISE_ONCE(detail::ranks_of_job<void>)
SHARDWISE_ONCE(detail::mpi_count<void>)
SHARDWISE_ONCE(detail::fail_mpi<void>)
SHARDWISE_ONCE(detail::words_of<kernel::RowTerms<float, false>>)
SHARDWISE_ONCE(detail::words_of<kernel::RowTerms<float, true>>)
SHARDWISE_ONCE(detail::words_of<detail::LossOfRows>)
SHARDWISE_EXTERN template void* MemoryPool::allocate<void>(Index);
SHARDWISE_EXTERN template void MemoryPool::deallocate<void>(void*, Index) noexcept;
SHARDWISE_ONCE(detail::redistributed_to<void>)
SHARDWISE_ONCE(detail::last_step<void>)
SHARDWISE_EXTERN template void detail::end_pooled<detail::MeshState>(detail::MeshState*);
SHARDWISE_EXTERN template void detail::end_pooled<detail::RealRanks>(detail::RealRanks*);
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

// ---- Parameters, and a step of training --------------------------------------------------------------------------
SHARDWISE_EXTERN template detail::ParameterCell::ParameterCell(const AnyTensor&, const ParameterLayouts&,
                                                               const ElementFunctions&, const Init&);
SHARDWISE_EXTERN template void detail::ParameterCell::await<void>();
SHARDWISE_EXTERN template const Buffer& detail::ParameterCell::gathered_value<void>();
SHARDWISE_EXTERN template void detail::CollectParameters::add<void>(const ParameterPath*,
                                                                    ParameterCell&) const;
SHARDWISE_ONCE(detail::initialize_all<void>)
SHARDWISE_EXTERN template void detail::Buckets::finish_next<void>();
SHARDWISE_EXTERN template void detail::UnitState::prefetch<void>();
SHARDWISE_EXTERN template void detail::UnitState::gather<void>();
SHARDWISE_EXTERN template void detail::UnitState::release<void>();
SHARDWISE_EXTERN template void detail::UnitState::reduce<void>(Tape&);
SHARDWISE_EXTERN template void detail::end_pooled<detail::UnitState>(detail::UnitState*);
SHARDWISE_ONCE(detail::reduce_gradients_of<void>)
SHARDWISE_ONCE(detail::backward_and_reduce_of<void>)
SHARDWISE_EXTERN template void GradientReducer::reduce<void>(detail::ParameterCell&);
SHARDWISE_EXTERN template void GradientReducer::end_pass<void>();
SHARDWISE_ONCE(detail::norm_of<void>)
SHARDWISE_ONCE(detail::clip_to<void>)
SHARDWISE_EXTERN template void detail::end_pooled<detail::SharedBuckets>(detail::SharedBuckets*);
#define SHARDWISE_ONCE_OPTIMIZER(Update)                                                             \
  SHARDWISE_EXTERN template bool Optimizer<Update>::learn<void>(const detail::ParameterList&, bool); \
  SHARDWISE_EXTERN template void Optimizer<Update>::choose_groups<void>(                             \
      const std::vector<detail::NamedParameter>&, bool);                                             \
  SHARDWISE_EXTERN template void Optimizer<Update>::step_all<void>(const detail::ParameterList&);
SHARDWISE_ONCE_OPTIMIZER(AdamWUpdate)
SHARDWISE_ONCE_OPTIMIZER(SgdUpdate)
SHARDWISE_EXTERN template const LlamaConfig& LlamaConfig::checked<void>() const;
SHARDWISE_ONCE(detail::halves_before<void>)

// ---- Operations and their gradients ------------------------------------------------------------------------------
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
SHARDWISE_EXTERN template Shape<4> AttentionOp::shape<void>(const Shape<4>&, const Shape<4>&,
                                                            const Shape<4>&);
SHARDWISE_EXTERN template bool EmbeddingOp::leave(const MeshView&, const View<const float, 3>&, const Buffer&,
                                                  const detail::NodeInput<std::int32_t, 2>&,
                                                  const detail::NodeInput<float, 2>&) const;
SHARDWISE_ONCE(detail::check_targets<void>)

}  // namespace shardwise

#undef SHARDWISE_ONCE_OPTIMIZER
#undef SHARDWISE_ONCE_EACH
#undef SHARDWISE_ONCE
#undef SHARDWISE_EXTERN
#endif
