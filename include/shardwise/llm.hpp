// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Language models: Llama and its kin, caches of keys and values, tokenizers and batches of tokens. Tokenizers need
/// PCRE2 and utf8proc, batches need range-v3: without these libraries, their headers are left out.

#include <shardwise/shardwise.hpp>

#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/nn/ring_attention.hpp>

#include <shardwise/llm/decoding/continuous_batch.hpp>
#include <shardwise/llm/decoding/key_value_cache.hpp>
#include <shardwise/llm/decoding/quantized.hpp>
#include <shardwise/llm/models/adapter_files.hpp>
#include <shardwise/llm/models/llama/files.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/llm/models/policy_losses.hpp>
#include <shardwise/llm/text/byte_tokenizer.hpp>
#include <shardwise/llm/text/chat_template.hpp>
#include <shardwise/llm/text/sampling.hpp>

#if __has_include(<pcre2.h>) && __has_include(<utf8proc.h>)
#include <shardwise/llm/gguf/tokenizer.hpp>
#include <shardwise/llm/text/tokenizer.hpp>
#endif
#if __has_include(<range/v3/view/iota.hpp>)
#include <shardwise/llm/data/dialogues.hpp>
#include <shardwise/llm/data/load_batch.hpp>
#include <shardwise/llm/data/open_token_corpus.hpp>
#endif
