// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Adapters (see `Lora`) in the format of Hugging Face's PEFT: a folder with adapter_config.json and
/// adapter_model.safetensors, in which the two weights of "layers.0.attention.wq" are
/// "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" and "….lora_B.weight".
///
/// ```
/// load_llama(model, "llama/");     // what is given
/// load_adapters(model, "mine/", {.name_of = hugging_face_name});
/// save_adapters(model, "mine/", {.name_of = hugging_face_name, .base_model = "llama/"});
/// save_llama(model, "merged/");    // a model without adapters that computes the same
/// ```

#include <charconv>
#include <set>

#include <shardwise/llm/bodies.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/nn/adapter.hpp>
#include <shardwise/weights/load_weights.hpp>
#include <shardwise/weights/save_weights.hpp>

namespace shardwise::llm {

struct AdapterOptions {
  /// Maps a parameter's path to its name in the base model's files; by default they are equal.
  std::function<std::string(std::string_view)> name_of = {};
  /// For saving: the type of the numbers in the file; by default as in memory.
  std::optional<StoredType> type = {};
  /// For saving: the base model and the task that the configuration states.
  std::string base_model = {};
  std::string task_type = "CAUSAL_LM";
};

namespace detail {

/// A layer with an adapter, without its type.
struct AdaptedLayer {
  std::string path;
  int rank, alpha;
  ParameterState *down, *up, *weight;
  const void* layer;
  AnyTensor (*merged)(const void* layer);  ///< calls `Adapter::merged_with`: collective
};

struct CollectAdapted {
  template <class M>
  static constexpr bool wants = requires {
    typename M::AdapterOf::Down;
  };
  std::vector<AdaptedLayer> layers;

  template <class Layer>
  void operator()(const ParameterPath* path, Layer& layer) {
    auto& adapter = layer.adapter;
    layers.push_back({path ? path->text() : "", adapter.size().rank, adapter.size().alpha,
                      &*adapter.down.cell(), &*adapter.up.cell(), &*layer.weight.cell(), &layer,
                      [](const void* at) {
                        const auto& it = *static_cast<const Layer*>(at);
                        return AnyTensor(it.adapter.merged_with(it.weight));
                      }});
  }
};

template <class Module>
std::vector<AdaptedLayer> adapted_layers(Module& module) {
  CollectAdapted visitor;
  detail::walk(module, visitor);
  return std::move(visitor.layers);
}

/// The adapters of a module, which must have the same rank and alpha.
struct AdaptersOf {
  std::vector<std::string> layers;
  std::vector<detail::NamedParameter> parameters;
  int rank = 0, alpha = 0;

  /// Throws `std::invalid_argument` if its rank or alpha differs.
  void add(const std::string& layer, int its_rank, int its_alpha) {
    if (!layers.empty() && (its_rank != rank || its_alpha != alpha)) {
      fail({"the adapter of ", layers.front(), " has rank ", rank, " and alpha ", alpha, ", that of ", layer,
            " ", its_rank, " and ", its_alpha, ": files have those of one kind"});
    }
    layers.push_back(layer);
    rank = its_rank;
    alpha = its_alpha;
  }
  void expect_some() const {
    if (layers.empty()) throw std::invalid_argument("no layer of the module has an adapter");
  }
};

/// Throws `std::invalid_argument` if there are no adapters, or if they differ in rank or alpha.
inline AdaptersOf alike(const std::vector<AdaptedLayer>& layers) {
  AdaptersOf all;
  for (const AdaptedLayer& layer : layers) {
    all.add(layer.path, layer.rank, layer.alpha);
    all.parameters.push_back({layer.path + ".lora_A.weight", layer.down});
    all.parameters.push_back({layer.path + ".lora_B.weight", layer.up});
  }
  all.expect_some();
  return all;
}

template <class Module>
AdaptersOf adapters_of(Module& module) {
  return alike(adapted_layers(module));
}

/// The parameters of a module except those of adapters.
template <class Module>
std::vector<detail::NamedParameter> given_parameters_of(Module& module) {
  std::vector<detail::NamedParameter> parameters = named_parameters_of(module);
  for (const AdaptedLayer& layer : adapted_layers(module)) {
    std::erase_if(parameters, [&](const detail::NamedParameter& each) {
      return each.cell == layer.down || each.cell == layer.up;
    });
  }
  return parameters;
}

/// A module's weights merged with their adapters. Collective over the module's mesh.
template <class Module>
std::map<const ParameterState*, AnyTensor> merged_weights_of(Module& module) {
  std::map<const ParameterState*, AnyTensor> merged;
  for (const AdaptedLayer& layer : adapted_layers(module))
    merged.emplace(layer.weight, layer.merged(layer.layer));
  return merged;
}

/// How PEFT finds the adapted modules: by the ends of their names, or their names; and if `layers` is not empty, only
/// in layers of these numbers.
struct TargetModules {
  std::vector<std::string> modules;
  std::set<Index> layers;
};

/// The number of the layer that PEFT reads in the name of a module: the last part that is a number, with two parts
/// before it and one after it. -1 if there is none.
inline Index layer_number(std::string_view name) {
  Index number = -1;
  for (int place = 0; name.find('.') != name.npos; ++place) {
    const std::string_view part = take_part(name, '.');
    Index here = 0;
    const auto [end, error] = std::from_chars(part.begin(), part.end(), here);
    if (place >= 2 && error == std::errc() && end == part.end()) number = here;
  }
  return number;
}

/// The kinds of layers that are adapted, if all of a kind are, or all in the layers of some numbers; otherwise their
/// individual names.
inline TargetModules target_modules(const std::vector<std::string>& adapted,
                                    const std::vector<std::string>& others) {
  const auto kind_of = [](const std::string& layer) { return layer.substr(layer.rfind('.') + 1); };
  std::set<std::string> kinds;
  std::set<Index> layers;
  for (const std::string& layer : adapted) {
    kinds.insert(kind_of(layer));
    layers.insert(layer_number(layer));
  }
  bool in_all = true;
  for (const std::string& layer : others) {
    if (!kinds.contains(kind_of(layer))) continue;
    in_all = false;
    if (layers.contains(layer_number(layer)) || layers.contains(-1)) return {adapted, {}};
  }
  if (in_all) layers.clear();
  return {{kinds.begin(), kinds.end()}, layers};
}

inline constexpr const char *adapter_config_name = "adapter_config.json",
                            *adapter_weights_name = "adapter_model.safetensors";

template <class Name>
std::function<std::string(std::string_view)> adapter_name(const Name& name_of) {
  return [name_of](std::string_view path) { return "base_model.model." + renamed(name_of, path); };
}

/// `given`: the names of the other parameters.
std::string adapter_config_text(const AdaptersOf& adapters, const std::vector<std::string>& given,
                                const AdapterOptions& options);

/// The adapters of all ranks, each of which has some stages; adds the names of all other parameters to `given`.
/// Collective.
AdaptersOf adapters_of_all(const Communicator& ranks, const std::vector<AdaptedLayer>& mine,
                           std::vector<std::string>& given);

template <class Module>
Index save_adapters(const Communicator& ranks, Module& module, const Path& folder,
                    const AdapterOptions& options, Writers writers) {
  const std::vector<AdaptedLayer> own = adapted_layers(module);
  std::vector<std::string> given;
  for (const detail::NamedParameter& parameter : given_parameters_of(module)) given.push_back(parameter.name);
  const AdaptersOf all = writers == Writers::each_its_part ? adapters_of_all(ranks, own, given) : alike(own);
  const auto name_of = adapter_name(options.name_of);
  return write_together(
      ranks, "save_adapters", folder / adapter_weights_name,
      {.type = options.type, .beside = {{adapter_config_name, adapter_config_text(all, given, options)}}},
      [&](auto& list) {
        const auto add = [&](const std::string& name, ParameterState* cell, bool down) {
          add_written(list, name_of(name), {name, cell});
          const Index rank = all.rank, others = elements(cell->stored.shape) / rank;
          list.back().shape = down ? std::vector{rank, others} : std::vector{others, rank};
        };
        for (const AdaptedLayer& layer : own) {
          add(layer.path + ".lora_A.weight", layer.down, true);
          add(layer.path + ".lora_B.weight", layer.up, false);
        }
      },
      writers);
}

/// Throws `std::runtime_error` unless a file's adapters match these and it uses only plain LoRA. PEFT writes all of
/// its keys; an unknown key is accepted if its value is null, false or empty.
void check_adapter_config(const Path& path, const AdaptersOf& adapters);

}  // namespace detail

/// Writes adapter_config.json and adapter_model.safetensors to a folder, which is created if necessary, as
/// `write_tensors` does. Throws `std::invalid_argument` if there are no adapters, or if they differ. Collective
/// over the module's mesh.
template <class Module>
  requires(!DividedModule<Module>)
Index save_adapters(Module& module, const std::filesystem::path& folder, const AdapterOptions& options = {}) {
  const Communicator ranks = detail::ranks_of_parameters(detail::adapters_of(module).parameters);
  return detail::save_adapters(ranks, module, folder, options, detail::Writers::all_alike);
}
/// The same for a pipeline: each rank saves the adapters of its stages. Collective over the job.
template <class Job, DividedModule Stages>
Index save_adapters(const Job& job, Stages& stages, const std::filesystem::path& folder,
                    const AdapterOptions& options = {}) {
  return detail::save_adapters(job.communicator(), stages, folder, options, detail::Writers::each_its_part);
}

/// Loads the adapters of a module from such a folder. Everything is checked first: rank and alpha and, as in
/// `load_weights`, missing tensors, and tensors for layers without an adapter. Other features of PEFT (DoRA, PiSSA,
/// ranks by pattern, modules saved whole) are rejected by the name of their key. Collective over the module's mesh;
/// if any rank fails, all throw `std::runtime_error`.
template <class Module>
  requires(!DividedModule<Module>)
Index load_adapters(Module& module, const std::filesystem::path& folder, const AdapterOptions& options = {}) {
  const detail::AdaptersOf adapters = detail::adapters_of(module);
  const Communicator ranks = detail::ranks_of_parameters(adapters.parameters);
  throw_on_all_ranks(ranks, "load_adapters",
                     [&] { detail::check_adapter_config(folder / detail::adapter_config_name, adapters); });
  return detail::load_parameters(ranks, adapters.parameters, false, folder / detail::adapter_weights_name,
                                 {.name_of = detail::adapter_name(options.name_of)});
}

}  // namespace shardwise::llm

#ifdef SHARDWISE_LLM_BODIES
namespace shardwise::llm {
namespace detail {

SHARDWISE_INLINE AdaptersOf adapters_of_all(const Communicator& ranks, const std::vector<AdaptedLayer>& mine,
                                            std::vector<std::string>& given) {
  Json layers = Json::array();
  for (const AdaptedLayer& layer : mine) layers.push_back({layer.path, layer.rank, layer.alpha});
  const std::string texts = gather_texts(ranks, Json{layers, given}.dump() + '\n');
  AdaptersOf all;
  std::set<std::string> names;
  for (std::string_view rest = texts; !rest.empty();) {
    const Json line = json_of(take_part(rest, '\n'));
    for (const Json& layer : line[0]) {  // several ranks have the same stages
      if (names.insert(layer[0]).second) all.add(layer[0], layer[1], layer[2]);
    }
    for (const Json& name : line[1]) {
      if (names.insert(name).second) given.push_back(name);
    }
  }
  all.expect_some();
  return all;
}

SHARDWISE_INLINE std::string adapter_config_text(const AdaptersOf& adapters,
                                                 const std::vector<std::string>& given,
                                                 const AdapterOptions& options) {
  constexpr std::string_view weight = ".weight";
  std::vector<std::string> adapted, others;
  for (const std::string& layer : adapters.layers) adapted.push_back(renamed(options.name_of, layer));
  for (const std::string& path : given) {
    std::string name = renamed(options.name_of, path);
    if (!name.ends_with(weight)) continue;
    name.resize(name.size() - weight.size());
    if (std::ranges::find(adapted, name) == adapted.end()) others.push_back(std::move(name));
  }
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  const TargetModules targets = target_modules(adapted, others);
  Json config{{"base_model_name_or_path", or_null(options.base_model)},
              {"bias", "none"},
              {"fan_in_fan_out", false},
              {"inference_mode", true},
              {"init_lora_weights", true},
              {"lora_alpha", adapters.alpha},
              {"lora_dropout", 0.0},
              {"modules_to_save", Json()},
              {"peft_type", "LORA"},
              {"r", adapters.rank},
              {"target_modules", targets.modules},
              {"task_type", or_null(options.task_type)}};
  if (!targets.layers.empty()) config["layers_to_transform"] = targets.layers;
  return config.dump(2) + "\n";
}

SHARDWISE_INLINE void check_adapter_config(const Path& path, const AdaptersOf& adapters) {
  const Json json = read_json(path);
  const JsonPart config(json, path.string() + ": ");
  if (config.get<std::string>("peft_type") != "LORA") config["peft_type"].expected("\"LORA\"");
  for (const auto& [key, here] : {std::pair("r", adapters.rank), std::pair("lora_alpha", adapters.alpha)}) {
    const JsonPart there = config[key];
    if (!there.json().is_number() || there.json() != Json(here))
      there.expected(text({here, ", as the adapters of the model have"}));
  }
  config.must_be("bias", "none");
  const JsonPart start = config["init_lora_weights"];
  if (!start.null() && !start.json().is_boolean() && start.json() != "gaussian" &&
      start.json() != "orthogonal" && start.json() != "eva") {
    start.expected(
        "true, false, \"gaussian\", \"orthogonal\" or \"eva\": else the weights that are adapted were "
        "changed (save with PEFT's path_initial_model_for_weight_conversion)");
  }
  // Keys that are read above, that the tensors' names imply, or that do not matter once adapters are trained.
  constexpr std::string_view harmless =
      " peft_type r lora_alpha bias init_lora_weights auto_mapping task_type target_modules exclude_modules "
      "inference_mode revision eva_config peft_version layers_to_transform layers_pattern lora_dropout "
      "megatron_core runtime_config qalora_group_size ensure_weight_tying base_model_name_or_path ";
  config.for_each_member([&](const std::string& key, const JsonPart& part) {
    if (part.json().empty() || part.json() == false || harmless.find(" " + key + " ") != harmless.npos)
      return;
    config[key].expected("false, null or nothing: only plain LoRA is supported");
  });
}

}  // namespace detail
}  // namespace shardwise::llm
#endif
