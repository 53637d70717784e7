// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Shows the contents of a checkpoint, a folder of checkpoints, a safetensors file or a folder in Hugging Face's
/// format, and verifies them. In one process without MPI.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include <shardwise/checkpoint/reader.hpp>
#include <shardwise/llm/gguf/header.hpp>
#include <shardwise/weights/weights.hpp>

#include "../common/byte_progress.hpp"
#include "../common/command_line.hpp"
#include "../common/model_in.hpp"
#include "../common/step_folders.hpp"

namespace {

using namespace tools;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct Options {
  fs::path path;
  bool tensors = false, verify = false, json = false;
};

// ---- Contents, as JSON --------------------------------------------------------------------------------------
sw::Index elements_of(const Json& tensor) {
  sw::Index elements = 1;
  for (const Json& extent : tensor["shape"]) elements *= extent.get<sw::Index>();
  return elements;
}
template <class Tensors>
Json sums_of(const Tensors& tensors) {
  sw::Index elements = 0, bytes = 0;
  for (const Json& tensor : tensors) {
    elements += elements_of(tensor);
    bytes += tensor["bytes"].template get<sw::Index>();
  }
  return {{"tensors", tensors.size()}, {"elements", elements}, {"bytes", bytes}};
}

/// The first part of a name: "model", "optimizer".
std::string group_of(const Json& tensor) {
  const auto& name = tensor["name"].get_ref<const std::string&>();
  return name.substr(0, name.find('.'));
}

/// "dp Shard<0>, tp Replicate"; the unchanged text if it is not a list with one placement per axis.
std::string layout_text(const sw::CheckpointTensor& tensor, const sw::CheckpointManifest& manifest) {
  std::string text;
  std::string_view rest = tensor.layout;
  for (std::size_t axis = 0; axis < manifest.mesh.size(); ++axis) {
    const bool last = axis + 1 == manifest.mesh.size();
    const auto end = rest.find(", ");
    if (rest.empty() || last != (end == rest.npos)) return tensor.layout;
    text += (axis > 0 ? ", " : "") + manifest.mesh[axis].first + " " + std::string(rest.substr(0, end));
    if (!last) rest.remove_prefix(end + 2);
  }
  return manifest.mesh.empty() ? tensor.layout : text;
}

Json described_file(const std::string& name, sw::Index bytes) { return {{"name", name}, {"bytes", bytes}}; }

Json described_checkpoint(const fs::path& folder) {
  const sw::CheckpointManifest manifest = sw::read_manifest(folder);
  Json described{{"path", folder.string()}, {"kind", "checkpoint"}, {"mesh", Json::array()}};
  for (const auto& [axis, size] : manifest.mesh)
    described["mesh"].push_back({{"axis", axis}, {"size", size}});
  described["numbers"] = manifest.numbers;
  described["notes"] = manifest.notes;
  described["files"] = Json::array();
  for (const sw::CheckpointFile& file : manifest.files)
    described["files"].push_back(described_file(file.name, file.bytes));
  std::map<std::string, std::vector<Json>> groups;
  Json tensors = Json::array();
  for (const sw::CheckpointTensor& tensor : manifest.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"type", sw::name_of(tensor.type)},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes()},
                       {"layout", layout_text(tensor, manifest)},
                       {"pieces", tensor.pieces.size()}});
    groups[group_of(tensors.back())].push_back(tensors.back());
  }
  described["groups"] = Json::object();
  for (const auto& [name, members] : groups) described["groups"][name] = sums_of(members);
  const Json all = sums_of(tensors);
  described["elements"] = all["elements"];
  described["bytes"] = all["bytes"];
  described["tensors"] = std::move(tensors);
  return described;
}

Json described_weights(const fs::path& given) {
  const fs::path path = model_in(given.string());
  const sw::Weights weights(path, &sw::llm::gguf_format);
  Json described{{"path", path.string()},
                 {"kind", fs::is_directory(path)   ? "weights"
                          : sw::llm::is_gguf(path) ? "GGUF"
                                                   : "safetensors"},
                 {"files", Json::array()},
                 {"groups", Json::object()}};
  Json tensors = Json::array();
  for (const sw::SafetensorsFile& file : weights.files()) {
    described["files"].push_back(
        described_file(file.path().filename().string(), static_cast<sw::Index>(fs::file_size(file.path()))));
    for (const sw::StoredTensor& tensor : file.tensors()) {
      tensors.push_back({{"name", tensor.name},
                         {"type", tensor.type_name()},
                         {"shape", tensor.shape},
                         {"bytes", tensor.bytes}});
    }
  }
  std::sort(tensors.begin(), tensors.end(), [](const Json& a, const Json& b) {
    return a["name"].get<std::string>() < b["name"].get<std::string>();
  });
  const Json all = sums_of(tensors);
  described["elements"] = all["elements"];
  described["bytes"] = all["bytes"];
  described["tensors"] = std::move(tensors);
  return described;
}

/// Compares the checksums if requested; returns the problems.
std::vector<std::string> verified(Json& described, const fs::path& path, bool verify) {
  std::vector<std::string> problems;
  if (!verify) return problems;
  if (described["kind"] != "checkpoint") {
    described["verified"] = nullptr;  // there are no checksums
    return problems;
  }
  {
    ByteProgress shown("verified");
    problems = sw::verify_checkpoint(path, [&](sw::Index done, sw::Index all) { shown.show(done, all); });
  }
  described["verified"] = problems.empty();
  return problems;
}

Json described_run(const fs::path& folder, const std::vector<fs::path>& paths, bool verify) {
  Json described{{"path", folder.string()}, {"kind", "checkpoints"}, {"checkpoints", Json::array()}};
  Json problems = Json::array();
  for (const fs::path& path : paths) {
    Json each{{"path", path.string()}};
    if (sw::is_temporary(path)) {
      each["kind"] = "unfinished";
    } else {
      try {
        each = described_checkpoint(path);
        for (const std::string& problem : verified(each, path, verify)) problems.push_back(problem);
      } catch (const std::runtime_error& error) {
        each = {{"path", path.string()}, {"kind", "damaged"}};
        problems.push_back(error.what());
      }
    }
    described["checkpoints"].push_back(std::move(each));
  }
  described["problems"] = std::move(problems);
  return described;
}

Json described(const Options& options) {
  // The folder's name for output, without a trailing slash.
  const fs::path path = options.path.has_filename() ? options.path : options.path.parent_path();
  if (!fs::exists(path)) throw std::runtime_error(path.string() + ": no such file or folder");
  const bool is_checkpoint = fs::exists(path / sw::manifest_name);
  if (fs::is_directory(path) && !is_checkpoint) {
    const auto steps = step_folders(path);
    if (!steps.empty()) return described_run(path, steps, options.verify);
  }
  Json one = is_checkpoint ? described_checkpoint(path) : described_weights(path);
  one["problems"] = verified(one, path, options.verify);
  return one;
}

// ---- Text
// --------------------------------------------------------------------------------------------------------
std::string shown(const Json& text) { return tools::shown(text.get<std::string>()); }
using tools::shown;
std::string size_of(const Json& bytes) { return size_text(bytes.get<sw::Index>()); }

std::string mesh_text(const Json& mesh) {
  std::string text;
  for (const Json& axis : mesh)
    text += (text.empty() ? "" : " x ") + shown(axis["axis"]) + " " + axis["size"].dump();
  return text.empty() ? "no mesh" : text;
}

void print_sums(const std::string& name, const Json& sums, const std::set<std::string>& types) {
  std::string names;
  for (const std::string& type : types) names += (names.empty() ? "" : ", ") + type;
  std::printf("  %-10s %5td tensors %14td elements %12s  %s\n", name.c_str(),
              sums["tensors"].get<sw::Index>(), sums["elements"].get<sw::Index>(),
              size_of(sums["bytes"]).c_str(), names.c_str());
}

void print_groups(const Json& all) {
  std::map<std::string, std::set<std::string>> types;
  std::set<std::string> all_types;
  for (const Json& tensor : all["tensors"]) {
    types[group_of(tensor)].insert(shown(tensor["type"]));
    all_types.insert(shown(tensor["type"]));
  }
  for (const auto& [name, sums] : all["groups"].items()) print_sums(shown(name), sums, types[name]);
  print_sums("all",
             {{"tensors", all["tensors"].size()}, {"elements", all["elements"]}, {"bytes", all["bytes"]}},
             all_types);
}

std::string shape_text(const Json& shape) {
  std::string text;
  for (const Json& extent : shape) text += (text.empty() ? "" : " x ") + extent.dump();
  return "[" + text + "]";
}

void print_tensors(const Json& tensors) {
  std::size_t longest = 0;
  for (const Json& tensor : tensors) longest = std::max(longest, shown(tensor["name"]).size());
  for (const Json& tensor : tensors) {
    std::printf("  %-*s  %-4s %-18s %12s", static_cast<int>(longest), shown(tensor["name"]).c_str(),
                shown(tensor["type"]).c_str(), shape_text(tensor["shape"]).c_str(),
                size_of(tensor["bytes"]).c_str());
    if (tensor.contains("pieces")) {
      const auto pieces = tensor["pieces"].get<std::size_t>();
      std::printf("  %s in %zu piece%s", shown(tensor["layout"]).c_str(), pieces, pieces == 1 ? "" : "s");
    }
    std::printf("\n");
  }
}

void print_files(const Json& files) {
  sw::Index bytes = 0;
  for (const Json& file : files) bytes += file["bytes"].get<sw::Index>();
  if (files.size() == 1) {
    std::printf("  in %s, %s\n", shown(files[0]["name"]).c_str(), size_text(bytes).c_str());
  } else {
    std::printf("  in %zu files, %s\n", files.size(), size_text(bytes).c_str());
  }
}

/// Prints numbers; those with a value for each parameter are summarised on one line, unless `each` is set.
void print_numbers(const Json& numbers, bool each) {
  std::map<std::string, std::vector<std::int64_t>> groups;
  for (const auto& [name, number] : numbers.items()) {
    const bool apart = each || name.find('.') == name.npos;
    groups[apart ? name : name.substr(0, name.find('.')) + ":"].push_back(number.get<std::int64_t>());
  }
  for (const auto& [name, values] : groups) {
    const auto [least, most] = std::ranges::minmax(values);
    std::string text = shown(name);
    if (name.ends_with(':')) text += " " + std::to_string(values.size()) + " numbers";
    text += least == most ? " = " + std::to_string(least)
                          : " from " + std::to_string(least) + " to " + std::to_string(most);
    std::printf("  %s\n", text.c_str());
  }
}

void print_one(const Json& all, bool with_tensors) {
  const bool is_checkpoint = all["kind"] == "checkpoint";
  const std::string kind = is_checkpoint              ? "checkpoint on " + mesh_text(all["mesh"])
                           : all["kind"] == "weights" ? "folder in Hugging Face's format"
                                                      : all["kind"].get<std::string>() + " file";
  std::printf("%s: %s\n", shown(all["path"]).c_str(), kind.c_str());
  if (is_checkpoint) {
    print_numbers(all["numbers"], with_tensors);
    std::string notes;
    if (all["notes"].is_object()) {
      for (const auto& [name, note] : all["notes"].items())
        notes += (notes.empty() ? "" : ", ") + shown(name);
    }
    if (!notes.empty()) std::printf("  notes: %s\n", notes.c_str());
  }
  print_groups(all);
  print_files(all["files"]);
  if (with_tensors) print_tensors(all["tensors"]);
  if (!all.contains("verified") || all["verified"] == false) return;
  std::printf("  %s\n",
              is_checkpoint
                  ? "all checksums are right"
                  : "headers, shapes and sizes are right; the format has no checksums of the elements");
}

void print_text(const Json& all, bool with_tensors) {
  if (all["kind"] != "checkpoints") return print_one(all, with_tensors);
  for (const Json& each : all["checkpoints"]) {
    if (each["kind"] == "checkpoint") print_one(each, with_tensors);
    if (each["kind"] == "unfinished") {
      std::printf("%s: not finished: being written, or left by a run that was killed\n",
                  shown(each["path"]).c_str());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CommandLine app("Shows the contents of a checkpoint or of safetensors files. Needs no MPI job.",
                  "shardwise-inspect");
  app.add_option(
         "path", options.path,
         "a checkpoint, a folder of checkpoints, a safetensors file, or a folder in Hugging Face's format")
      ->required()
      ->type_name("PATH");
  app.add_flag("--tensors", options.tensors, "list each tensor with its type, shape, bytes and layout");
  app.add_flag("--verify", options.verify, "compare the checksums of all elements");
  app.add_flag("--json", options.json, "print everything as JSON");
  if (const auto code = app.read_alone(argc, argv)) return *code;
  try {
    const Json all = described(options);
    if (options.json) {
      std::printf("%s\n", all.dump(2, ' ', true, Json::error_handler_t::replace).c_str());
    } else {
      print_text(all, options.tensors);
    }
    const int code = after_output(all["problems"].empty() ? 0 : 1);
    for (const Json& problem : all["problems"])
      std::fprintf(stderr, "shardwise-inspect: %s\n", shown(problem).c_str());
    return code;
  } catch (const Interrupted& signal) {
    std::fprintf(stderr, "%s: interrupted\n", options.path.c_str());
    return signal.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shardwise-inspect: %s\n", tools::shown(error.what()).c_str());
    return 1;
  }
}
