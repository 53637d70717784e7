#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Two hosts on one machine, joined by a link of a given rate: network namespaces and a token bucket, real MPI over TCP. What
collectives send over the link; and the training step of a Llama with and without communication in the background, in turn
(A B B A), beside the bound: for each pass, the larger of its computation and of its collectives alone.
Usage: network.py BUILD/benchmarks [--rates none,1gbit] [--modes ddp,zero1,fsdp,tp] [--rounds 1]"""

import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "support"))
import hosts  # noqa: E402

PIN = 'exec taskset -c $((OMPI_COMM_WORLD_RANK % $(nproc --all))) "$0" "$@"'


class Hosts(hosts.Hosts):
    def run(self, ranks, *program):
        """The lines of JSON that it prints, with so many ranks on the first host and the second."""
        command = self.mpirun(ranks, "bash", "-c", PIN, *program)
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs")
    parser.add_argument("--rates", default="none,10gbit,2gbit,1gbit,300mbit")
    parser.add_argument("--modes", default="ddp,zero1,fsdp,tp")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    why = hosts.problem()
    if why:
        print(f"network: {why}")
        return
    os.environ.update(OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")
    step, network = (os.path.abspath(os.path.join(options.programs, name)) for name in ("llama_step", "network"))
    alone = json.loads(subprocess.run(["taskset", "-c", "0", step, "--mode", "ddp", "--batch", "4"], capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    print("A256 (73.5 MB of gradients), one rank a host; computation alone: forward {forward:.3f}, backward {backward:.3f}, optimizer {optimizer:.3f} s".format(**alone))
    for rate in options.rates.split(","):
        with Hosts(2, rate) as two:
            print(f"link: {rate}")
            lines = [(ranks, line) for ranks in ((2, 2), (2, 1), (3, 1)) for line in two.run(ranks, network, "--interface", two.device)]
            for ranks, line in lines:
                ideal = "" if rate == "none" else f", over the link {line['sent'] / 1e6:.1f} MB: {line['sent'] / line['least']:.3f} of the least, {line['sent'] / line['planned']:.3f} of the plan"
                print(f"  64 MiB over {ranks[0]} and {ranks[1]} ranks: {line['collective']:15}{1000 * line['seconds']:8.1f} ms{ideal}")
            seconds = {line["collective"]: line["seconds"] * 73.5e6 / (64 << 20) for line in two.run((1, 1), network, "--interface", two.device)}
            reduced, scattered, gathered = (seconds[name] for name in ("all-reduce", "reduce-scatter", "all-gather"))
            # Fully sharded: of the parameters a tenth is gathered again, all but the table and the head.
            bounds = {
                "ddp": alone["forward"] + max(alone["backward"], reduced) + alone["optimizer"],
                "zero1": alone["forward"] + max(alone["backward"], scattered) + max(alone["optimizer"], gathered),
                "fsdp": max(alone["forward"], gathered) + max(alone["backward"], scattered + 0.1 * gathered) + alone["optimizer"],
            }
            for mode in options.modes.split(","):
                results = {"0": [], "8": []}
                for background in ("0", "8", "8", "0") * options.rounds:
                    results[background] += two.run((1, 1), step, "--mode", mode, "--steps", "5", "--in-background", background)
                times = {name: [result["step"] for result in runs] for name, runs in results.items()}
                ratio = statistics.median(b / a for a, b in zip(times["0"], times["8"]))
                bound = f", bound {bounds[mode]:.3f} s: {statistics.median(times['8']) / bounds[mode]:.2f} of it" if mode in bounds else ""
                print(f"  {mode:6} in the foreground {statistics.median(times['0']):.3f} s, in the background {statistics.median(times['8']):.3f} s: {ratio:.2f} of it{bound}")


main()
