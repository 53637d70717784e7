// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What collectives over all ranks of several hosts send over the link of the first, by the counters of its interface,
/// beside the plan and the least that is possible; and how long they take. Prints a line of JSON for each.

#include <fstream>

#include "support.hpp"

namespace sw = shardwise;

namespace {

using Mesh = sw::Mesh<sw::dp>;

/// Bytes that an interface has sent so far.
double sent(const std::string& interface) {
  std::ifstream file("/sys/class/net/" + interface + "/statistics/tx_bytes");
  double bytes = 0;
  if (!(file >> bytes)) throw std::invalid_argument("--interface: this host has no \"" + interface + "\"");
  return bytes;
}

/// `step()` several times, after once.
template <class F>
void measure(const Mesh& mesh, const char* name, double least, const std::string& interface, int repeats,
             F step) {
  const sw::Communicator& ranks = mesh.communicator<sw::dp>();
  step();
  sw::Recording recording(mesh);
  ranks.barrier();
  const double bytes = ranks.rank() == 0 ? sent(interface) : 0, begin = MPI_Wtime();
  for (int i = 0; i < repeats; ++i) step();
  const double seconds = (MPI_Wtime() - begin) / repeats;
  ranks.barrier();
  const bool counted = ranks.hosts().of(ranks.rank()) == 0;
  double planned = counted ? static_cast<double>(recording.plan().bytes_to_other_hosts()) : 0;
  ranks.all_reduce(&planned, &planned, 1, sw::DataType::f64, sw::ReduceOp::sum);
  if (ranks.rank() != 0) return;
  std::printf(
      "{\"collective\": \"%s\", \"seconds\": %.5f, \"sent\": %.0f, \"planned\": %.0f, \"least\": %.0f}\n",
      name, seconds, (sent(interface) - bytes) / repeats, planned / repeats, least);
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    sw::Index mebibytes = 64;
    int repeats = 3;
    std::string interface;
    CLI::App app("Measures what collectives send from host to host.", "network");
    app.option_defaults()->always_capture_default();
    app.add_option("--mib", mebibytes, "size of the data")->check(CLI::Range(1, 1 << 13));
    app.add_option("--repeats", repeats, "of each collective")->check(CLI::Range(1, 10000));
    app.add_option("--interface", interface, "of the first host, whose counters are read")->required();
    if (auto code = benchmarks::parse(app, argc, argv)) return *code;

    const Mesh mesh(sw::world(), {sw::any});
    const double bytes = static_cast<double>(mebibytes << 20);
    // The first host sends terms of blocks that are at home elsewhere, and its own blocks to each other host.
    const sw::Hosts& hosts = mesh.communicator<sw::dp>().hosts();
    const auto here = static_cast<double>(hosts.ranks_on(0).size());
    const double terms_sent = bytes * (hosts.size() - here) / hosts.size();
    const double blocks_sent = bytes * here * (hosts.count() - 1) / hosts.size();
    using sw::Partial, sw::Replicate, sw::Reduced, sw::Shard;
    const sw::Shape<2> shape{mebibytes << 8, 1024};  // of floats
    const auto terms = sw::redistribute<Partial<>>(sw::zeros<float, Replicate>(mesh, shape));
    const auto blocks = sw::zeros<float, Shard<0>>(mesh, shape);
    measure(mesh, "all-reduce", terms_sent + blocks_sent, interface, repeats,
            [&] { return sw::redistribute<sw::dp, Replicate>(terms); });
    measure(mesh, "reduce-scatter", terms_sent, interface, repeats,
            [&] { return sw::redistribute<sw::dp, Shard<0>>(terms); });
    measure(mesh, "all-gather", blocks_sent, interface, repeats,
            [&] { return sw::redistribute<sw::dp, Reduced>(blocks); });
    return 0;
  });
}
