// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "best_export.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <set>

#include <shardwise/guard/agreement.hpp>

#include "../common/command_line.hpp"

namespace tools {

namespace {

namespace fs = std::filesystem;

constexpr const char* record_name = "shardwise-best.json";

bool is_weights(const fs::path& file) {
  return file.extension() == ".safetensors" || file.extension() == ".bin";
}

/// Identifies the files that hold weights in a folder. A file and its replacement differ, because both exist before
/// the rename.
sw::Json weights_in(const fs::path& folder) {
  std::set<std::string> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!is_weights(entry.path())) continue;
    struct stat about {};
    if (::stat(entry.path().c_str(), &about) != 0) continue;  // a dangling link
    found.insert(entry.path().filename().string() + " " + std::to_string(about.st_ino) + " " +
                 std::to_string(about.st_mtim.tv_sec) + " " + std::to_string(about.st_mtim.tv_nsec));
  }
  sw::Json list = sw::Json::array();
  for (const std::string& each : found) {
    list.push_back(sw::Json(each).dump(-1, ' ', false, sw::Json::error_handler_t::replace));
  }
  return list;
}

bool holds_model(const fs::path& folder) {
  if (!fs::exists(folder)) return false;
  const fs::directory_iterator files(folder);
  return std::any_of(begin(files), end(files), [](const auto& entry) {
    return is_weights(entry.path()) || entry.path().filename() == "config.json" ||
           entry.path().filename() == "adapter_config.json";
  });
}

/// The loss in an object of the record. Throws `std::runtime_error` if it is missing.
double loss_of(const sw::Json& object) {
  if (!object.is_object() || !object.contains("held_out_loss") || !object["held_out_loss"].is_number())
    throw std::runtime_error("it has no number \"held_out_loss\"");
  return object["held_out_loss"].get<double>();
}

}  // namespace

void BestExport::lock() {
  sw::File folder(folder_, O_RDONLY | O_DIRECTORY);
  if (!folder.lock() && errno == EWOULDBLOCK)
    throw std::runtime_error(folder_.string() + ": another run exports its best model there");
  lock_.emplace(std::move(folder));
}

void BestExport::write_record() const {
  sw::write_file_atomically(folder_ / record_name, record_.dump() + "\n");
}

void BestExport::open(const fs::path& folder, const sw::Json& run, const Allowed& allowed) {
  folder_ = folder;
  const sw::Communicator world = sw::world();
  sw::throw_on_all_ranks(world, "--export-best", [&] {
    if (world.rank() != 0) return;
    record_ = {{"run", run}};
    if (fs::exists(folder)) lock();
    if (!holds_model(folder)) return;
    const fs::path file = folder / record_name;
    const std::string there = folder.string() + " has a model already",
                      cure = "remove it, or name another folder";
    if (!fs::exists(file)) {
      throw std::runtime_error(there + ", and no " + record_name + " that states its loss: " + cure);
    }
    bool interrupted = false;
    sw::Json text = sw::read_json(file);
    const sw::Json before = sw::prefix_errors(file.string(), [&] {
      loss_of(text);
      if (!text.contains("replaced_by")) return text;
      const sw::Json next = text["replaced_by"];
      loss_of(next);
      interrupted = next.value("weights", sw::Json()) != weights_in(folder);  // else the old ones remain
      if (interrupted) text.update(next);
      return text;
    });
    const sw::Json loss = before["held_out_loss"], step = before.value("step", sw::Json());
    const std::string known = there + ", of loss " + loss.dump() + " after " + shown(step.dump()) + " steps";
    if (!allowed.resume) {
      throw std::runtime_error(known + ": " +
                               (allowed.save ? "give --resume to continue from there, or " : "") + cure);
    }
    const std::string other = allowed.difference(before.value("run", sw::Json::object()));
    if (!other.empty()) throw std::runtime_error(known + ", " + shown(other) + ": " + cure);
    record_.update(sw::Json{{"held_out_loss", loss}, {"step", step}});
    limit_ = loss_of(before) * (interrupted ? 1 + 1e-5 : 1);
    std::printf(
        "%s: only a better one replaces it%s\n", known.c_str(),
        interrupted ? "; its export was interrupted, and is repeated when the run reaches that step" : "");
  });
  const sw::Index mine[]{std::bit_cast<sw::Index>(limit_)};
  limit_ = std::bit_cast<double>(world.all_gather(mine).front());
}

bool BestExport::replace(double loss, std::int64_t step, const std::function<void()>& write) {
  const sw::Communicator world = sw::world();
  const sw::Json next{{"held_out_loss", loss}, {"step", step}};
  sw::throw_on_all_ranks(world, "--export-best", [&] {
    if (world.rank() != 0) return;
    fs::create_directories(folder_);
    if (!lock_) lock();
    if (!record_.contains("held_out_loss")) record_.update(next);  // this is the first model
    record_["replaced_by"] = next;
    record_["replaced_by"]["weights"] = weights_in(folder_);
  });
  try {
    sw::throw_on_all_ranks(world, "--export-best", [&] {
      if (world.rank() == 0) write_record();
    });
    write();
    sw::throw_on_all_ranks(world, "--export-best", [&] {
      if (world.rank() != 0) return;
      record_.erase("replaced_by");
      record_.update(next);
      write_record();
    });
  } catch (const sw::MpiError&) {
    throw;
  } catch (const std::runtime_error& error) {
    if (world.rank() == 0)
      std::fprintf(stderr, "NOT EXPORTED: the best model, of loss %.4f: %s\n", loss, error.what());
    return false;
  }
  limit_ = loss;
  return true;
}

}  // namespace tools
