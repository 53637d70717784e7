#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Behaviour of `shardwise-train` on which an operator relies, a case each:

    best      the model of --export-best never gets worse, wherever the run is killed, and is no other run's
    stopped   a run that a signal stops says so by its exit code, and says what is not saved or not exported
    keep      as many checkpoints stay as before
    unsaved   a run that cannot save ends at its start, or after three saves that failed; a renamed checkpoint is refused
    context   ranks that share sequences learn what one rank does, also when they resume; what a step sends is planned
    faults    steps that are made twice change nothing, and find what is flipped in a message; a killed run goes on from the
              hosts' memory
    replay    a step of any rank is made again in one process, and a rank that had other bits is named
    hosts     ranks on several hosts: what a step sends there is planned, and groups across hosts are reported

    operation_test.py TRAIN CASE [PRETENDED_HOSTS DAMAGED_MESSAGES]     the program; libraries that pretend hosts, and that
                                                                      damage a message
"""

import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tiers import all_tests

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = "--layers 1 --features 16 --heads 2 --hidden 24 --context 32 --batch 4 --rate-schedule constant --warmup 2".split()
MODEL = ["--text", str(ROOT / "include" / "shardwise" / "layout")] + MODEL
WITHOUT_END = ["--steps", str(10**6)]


def words(options, ranks=2):
    return ["mpirun", "--oversubscribe", "-n", str(ranks), TRAIN] + MODEL + [str(o) for o in options]


def limited(options):
    """The same where a file may have no more than 2048 bytes."""
    command = words(options)
    return command[:4] + ["bash", "-c", 'ulimit -f 2; exec "$@"', "-"] + command[4:]


def run(command, code=0, says=()):
    """Runs to its end; returns what it printed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
    expect(done.returncode, done.stdout, code, says)
    return done.stdout


def expect(found, output, code, says=()):
    right = found != 0 if code == "any but 0" else found == code
    missing = [pattern for pattern in says if not re.search(pattern, output)]
    if not right or missing:
        sys.exit(f"exit code {found}, expected {code}; nothing matches {missing}:\n{output}")


def started(command, log, steps):
    """A job that has made so many steps."""
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    begin = time.monotonic()
    while job.poll() is None and last_step(log) < steps:
        if time.monotonic() - begin > 60:
            sys.exit(f"no step {steps} after 60 seconds")
        time.sleep(0.005)
    if job.poll() is not None:
        sys.exit(f"the run ended by itself with {job.returncode}:\n{job.communicate()[0]}")
    return job


def last_step(log):
    try:
        return int(re.findall(r'^{"step":(\d+)', log.read_text(), re.MULTILINE)[-1])
    except (OSError, IndexError):
        return -1


def ranks_of(job):
    return [int(p) for p in subprocess.run(["pgrep", "-P", str(job.pid)], capture_output=True, text=True).stdout.split()]


def kill(job):
    pids = ranks_of(job)
    for pid in pids + [job.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    output = job.communicate(timeout=60)[0]
    begin = time.monotonic()
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() - begin < 30:
        time.sleep(0.01)
    return output


def checkpoints(folder):
    return sorted(p.name for p in folder.glob("step-*") if p.name.count("-") == 1 and (p / "manifest.json").exists())


HELD_OUT = "--held-out 0.05 --evaluate-every 10".split()


def loss_of(model, folder):
    """Of an exported model, on what the runs hold out: measured, whatever stands beside it."""
    log = folder / "measured.jsonl"
    run(["mpirun", "-n", "1", TRAIN] + MODEL[:2] + ["--from", model, "--context", "32", "--batch", "4", "--steps", "1", "--log",
         str(log)] + HELD_OUT)
    return json.loads(log.read_text().splitlines()[1])["held_out_loss"]


def best(folder):
    log, kept = folder / "log.jsonl", folder / "best"
    common = HELD_OUT + ["--export-best", kept, "--log", log, "--resume"]

    def never_worse(before):
        now = loss_of(kept, folder)
        if now > before * (1 + 1e-6):
            sys.exit(f"the best export was of loss {before}, and is of {now}")
        print(f"loss {now}, after step {last_step(log)}")
        return now

    # Killed before the first checkpoint, when the export is far better than the model that a run begins with.
    early = common + WITHOUT_END + ["--save", folder / "early", "--save-every", 10**6]
    kill(started(words(early), log, 33))
    loss = never_worse(math.inf)
    for steps in (1, 12):
        log.unlink()
        said = kill(started(words(early), log, steps))
        assert "starting from the beginning" in said, said
        loss = never_worse(loss)

    # The export is of a later step than the checkpoint, and evaluations come as soon as the run goes on: also on another mesh.
    shutil.rmtree(kept)
    log.unlink()
    late = common + WITHOUT_END + ["--save", folder / "late", "--save-every", 20, "--save-in-foreground"]
    kill(started(words(late), log, 33))
    loss = never_worse(math.inf)
    shutil.rmtree(folder / "late" / "step-00000040", ignore_errors=True)
    for ranks, mesh in ((2, []), (1, []), (2, ["--zero", "3"])):
        log.unlink()
        said = kill(started(words(late + mesh, ranks), log, 22))
        assert "resumed from" in said, said
        shutil.rmtree(folder / "late" / "step-00000040", ignore_errors=True)
        loss = never_worse(loss)

    # Killed at any moment, most of which are within exports.
    often = late[: late.index("--evaluate-every")] + ["--evaluate-every", 1] + late[late.index("--evaluate-every") + 2 :]
    for _ in range(4):
        job = started(words(often), log, last_step(log) + 1)
        time.sleep(random.uniform(0, 0.5))
        kill(job)
        loss = never_worse(loss)
    run(words(often[: often.index("--steps")] + ["--steps", last_step(log) + 40] + often[often.index("--steps") + 2 :]))
    loss = never_worse(loss)
    record = json.loads((kept / "shardwise-best.json").read_text())
    assert abs(record["held_out_loss"] - loss) < 1e-5 and "replaced_by" not in record, record
    assert [p.name for p in kept.iterdir() if ".tmp-" in p.name] == []

    # The folder has the model of another run, or one without a record.
    weights = (kept / "model.safetensors").read_bytes()
    other = HELD_OUT + ["--export-best", kept, "--steps", 2, "--save"]
    run(words(other + [folder / "new"]), 1, ["best has a model already, of loss .* after .* steps: give --resume .* or name another"])
    run(words(other[:-1]), 1, ["best has a model already, of loss .* steps: remove it, or name another folder"])
    run(words(other + [folder / "new", "--resume", "--seed", 2]), 1, ['of another run: "seed" was 1, and is 2'])
    run(words(other + [folder / "new", "--resume"]), 1, ['of another run: "steps" was '])  # no checkpoint makes it that run
    less = ["--held-out", "0.1"] + other[2:]
    run(words(less + [folder / "new", "--resume"]), 1, ['of another run: "held_out" was 0.05'])
    record_file = kept / "shardwise-best.json"
    text = record_file.read_text()
    record_file.write_text(text[: len(text) // 2])
    run(words(other + [folder / "new", "--resume"]), 1, ["shardwise-best.json: "])
    record_file.unlink()
    run(words(other + [folder / "new", "--resume"]), 1, ["best has a model already, and no shardwise-best.json"])
    assert (kept / "model.safetensors").read_bytes() == weights
    # One run at a time.
    job = started(words(HELD_OUT + WITHOUT_END + ["--export-best", folder / "b", "--log", folder / "b.jsonl"]), folder / "b.jsonl", 1)
    second = HELD_OUT + ["--export-best", folder / "b", "--steps", 2]
    run(words(second), 1, ["b: another run exports its best model there"])
    kill(job)


def stopped(folder):
    model = folder / "model"
    run(words(["--steps", 2, "--export", model]))
    old = (model / "model.safetensors").read_bytes()
    lost, no_export = "NOT SAVED: .*no --save", "NOT EXPORTED: .*model is as it was before"
    save = ["--save", folder / "runs", "--resume", "--save-every", 10**6]
    cases = [  # to whom, the signal, options, exit code, what is said
        ("rank", signal.SIGTERM, ["--export", model], 128 + 15, ["stopped by SIGTERM after step", lost, no_export]),
        ("rank", signal.SIGINT, [], 128 + 2, ["stopped by SIGINT", lost]),
        ("mpirun", signal.SIGUSR1, ["--export", folder / "never"], 128 + 10, [lost, "NOT EXPORTED: .*never was not made"]),
        ("mpirun", signal.SIGUSR1, save + ["--export", model], 75, ["runs: --resume continues", no_export]),
        ("rank", signal.SIGTERM, save, 75, ["resumed from", "runs: --resume continues"]),
        ("mpirun", signal.SIGTERM, save, "any but 0", ["stopped by SIGTERM"]),
    ]
    for to, number, options, code, says in cases:
        log = folder / "log.jsonl"
        log.unlink(missing_ok=True)
        grace = ["--mca", "odls_base_sigkill_timeout", "5"] if (to, number) == ("mpirun", signal.SIGTERM) else []
        command = words(options + WITHOUT_END + ["--log", log])
        job = started(command[:1] + grace + command[1:], log, 3)
        os.kill(job.pid if to == "mpirun" else ranks_of(job)[-1], number)
        output = job.communicate(timeout=60)[0]
        print(to, number, job.returncode)
        expect(job.returncode, output, code, says)
        assert (model / "model.safetensors").read_bytes() == old
        if options[:1] == ["--save"]:
            made = last_step(log) + 1
            assert checkpoints(folder / "runs")[-1] == f"step-{made:08}", (made, checkpoints(folder / "runs"))
    assert not (folder / "never").exists()
    # Not saved, though it was asked to: a file may have 2048 bytes.
    log = folder / "full.jsonl"
    job = started(limited(WITHOUT_END + ["--log", log, "--save", folder / "full", "--save-every", 10**6]), log, 1)
    os.kill(ranks_of(job)[0], signal.SIGUSR1)
    expect(job.wait(60), job.communicate()[0], 128 + 10, ["NOT SAVED: .*the last save failed"])
    # Asked again and again until it has ended: what counts is that it was saved.
    log = folder / "again.jsonl"
    job = started(words(save + WITHOUT_END + ["--log", log]), log, 3)
    rank = ranks_of(job)[-1]
    while job.poll() is None:
        try:
            os.kill(rank, signal.SIGTERM)
        except ProcessLookupError:
            break
        time.sleep(0.02)
    expect(job.wait(60), job.communicate()[0], 75, ["runs: --resume continues"])
    # A run that comes to its end has succeeded, and so has one that goes on from where it was stopped.
    steps = int(checkpoints(folder / "runs")[-1][5:]) + 2
    run(words(save + ["--steps", steps, "--export", model]), 0, ["resumed from", f"step {steps}/{steps} ", "saved to .*model"])
    assert (model / "model.safetensors").read_bytes() != old


def keep(folder):
    saved = folder / "runs"
    common = ["--save", saved, "--save-every", 1, "--save-in-foreground"]
    run(words(common + ["--steps", 7, "--keep", 6]))
    assert len(checkpoints(saved)) == 6, checkpoints(saved)
    run(words(common + ["--steps", 9, "--resume"]), 0, ["keeping 6 checkpoints, as before"])
    assert len(checkpoints(saved)) == 6, checkpoints(saved)
    run(words(common + ["--steps", 10, "--resume"]), 0, ["keeping 6 checkpoints, as before"])  # the notes went on
    assert checkpoints(saved)[0] == "step-00000005", checkpoints(saved)
    run(words(common + ["--steps", 11, "--resume", "--keep", 2]), 0, ["--keep 2: the next save deletes the oldest of 6 checkpoints in"])
    assert checkpoints(saved) == ["step-00000010", "step-00000011"], checkpoints(saved)
    run(words(common + ["--steps", 13, "--resume", "--keep", 4]))
    assert len(checkpoints(saved)) == 4, checkpoints(saved)


def unsaved(folder):
    # Names that mean another folder on rank 1, as where hosts do not share a file system.
    for rank in ("here", "there"):
        (folder / rank).mkdir()

    def apart(options):
        own = [["-n", "1", "-wdir", str(folder / rank), TRAIN] + MODEL + options for rank in ("here", "there")]
        return ["mpirun", "--oversubscribe"] + own[0] + [":"] + own[1]

    missing = "No such file or directory .rank 1."
    said = run(apart(["--steps", "3", "--save", "runs"]), 1, ["the folder of checkpoints runs: .*runs/.*" + missing])
    assert "step 1/3" not in said, said
    for option in ("--export", "--export-best"):
        said = run(apart(["--steps", "3", option, "model"] + HELD_OUT), 1, ["this run: model/.*" + missing])
        assert "step 1/3" not in said and not (folder / "here" / "model").exists(), said
    assert list((folder / "here" / "runs").iterdir()) == []
    # There is a folder of that name on rank 1 too, but another one.
    (folder / "there" / "runs").mkdir()
    run(apart(["--steps", "3", "--save", "runs"]), 1, ["the folder of checkpoints runs: .*runs/.*" + missing])

    # No save can succeed, as a file may have 2048 bytes: three are tried. In the background, and while the steps wait.
    for how in ([], ["--save-in-foreground"]):
        saved = folder / ("full" + str(len(how)))
        options = ["--save", saved, "--save-every", 5, "--steps", 10**6] + how
        said = run(limited(options), 1, ["checkpoints: [^$]*File too large", "3 saves in a row failed, so the run ends after step"])
        step = int(re.search(r"ends after step (\d+)", said)[1])
        assert 15 <= step <= 40 and checkpoints(saved) == [], said

    # A full disk does not end the training, whose best model it has no room for.
    options = HELD_OUT + ["--export-best", folder / "no-room", "--steps", 12]
    run(limited(options), 1, ["NOT EXPORTED: the best model, of loss [0-9.]+: [^$]*File too large", "step 12/12"])

    # A checkpoint under another name.
    saved = folder / "renamed"
    options = ["--save", saved, "--save-every", 5, "--save-in-foreground"]
    run(words(options + ["--steps", 12]))
    for new in ("step-00000007", "step-00000300"):
        (saved / "step-00000012").rename(saved / new) if (saved / "step-00000012").exists() else None
        shutil.rmtree(saved / "step-00000010", ignore_errors=True)
        run(words(options + ["--steps", 20, "--resume"]), 1,
            [f"renamed/{new}: its name says step {int(new[5:])}, but it was saved after step 12: "])
        (saved / new).rename(saved / "step-00000012")
    run(words(options + ["--steps", 13, "--resume"]), 0, ["resumed from .*step-00000012"])


def faults(folder):
    def losses(name):
        return [line["loss"] for line in map(json.loads, (folder / name).read_text().splitlines()) if "step" in line]

    for number, mesh in enumerate(["--zero 1", "--tp 2", "--pp 2 --micro-batches 2"] if all_tests() else ["--zero 1"]):
        for name, more in ((f"once{number}", []), (f"twice{number}", ["--repeat-every", 3])):
            said = run(words(mesh.split() + ["--steps", 8, "--log", folder / name] + more))
            assert "WARNING" not in said, said
        assert losses(f"once{number}") == losses(f"twice{number}") != [], mesh
        # What is flipped on its way is found where it arrives; the step is right all the same.
        sender = 0 if "pp" in mesh else 1
        damage = ["env", "SHARDWISE_TRANSPORT=mpi", "LD_PRELOAD=" + sys.argv[4], f"DAMAGED_MESSAGE={sender}:20"]
        run(damage + words(mesh.split() + ["--steps", 8, "--log", folder / f"damaged{number}", "--repeat-every", 1]), 0,
            ["WARNING: step \\d+: rank 1: what it .* differs between two runs .* and a third run has the bits of one"])
        assert losses(f"damaged{number}") == losses(f"once{number}"), mesh

    memory, log = folder / "memory", folder / "log"
    options = ["--save", folder / "saved", "--save-every", 10**6, "--host-memory", memory, "--host-memory-every", 4, "--log", log, "--resume"]
    job = started(words(options + WITHOUT_END), log, 9)
    for pid in ranks_of(job):
        os.kill(pid, signal.SIGKILL)
    job.communicate()
    kept = max(int(path.name[5:]) for path in memory.glob("run-*/step-*") if path.name[5:].isdigit())
    assert kept >= 4, kept
    run(words(options + ["--steps", kept + 3], ranks=3), 0, [f"resumed from step {kept} in the hosts' memory"])
    assert list(memory.iterdir()) == []  # the checkpoint on storage is newer
    alone = folder / "alone"
    run(words(["--steps", kept + 3, "--log", alone], ranks=1))
    found, expected = losses("log"), losses("alone")
    assert len(found) == len(expected) == kept + 3, (len(found), len(expected))
    assert all(abs(one / other - 1) < 1e-4 for one, other in zip(found, expected))


def replay(folder):
    program = pathlib.Path(TRAIN).with_name("shardwise-replay")
    meshes = (
        (4, "0000", "--tp 2 --dp 2 --zero 1"),
        (4, "0011", "--tp 2 --zero 3 --sp --bf16"),  # dp across two hosts
        (4, "0000", "--pp 2 --dp 2 --micro-batches 2"),
        (3, "012", "--zero 2 --bucket-kib 1"),
    )
    for number, (ranks, where, mesh) in enumerate(meshes if all_tests() else meshes[:2]):
        prints, saved = folder / f"prints{number}", folder / f"saved{number}"
        options = mesh.split() + ["--steps", 8, "--fingerprints", prints, "--fingerprint-every", 3, "--save", saved, "--save-every", 4]
        run(["env", "PRETENDED_HOSTS=" + where, "LD_PRELOAD=" + sys.argv[3]] + words(options, ranks))
        again = [program] + MODEL + [str(option) for option in options]
        if "1" in where:
            again += ["--ranks-per-host", str(where.count("0"))]
        same = f"all ranks have the fingerprints in {prints}"
        said = run(again + ["--checkpoint", saved / "step-00000004", "--step", "6", "--rank", str(ranks - 1), "--out", folder / "out"], 0,
                   [f"step 6 of {ranks} ranks, from step 4: loss ", f"fingerprints of rank {ranks - 1}:", "  gradient  ",
                    "  after     (replica0.)?model", "  after     (replica0.)?optimizer", same])
        assert "DIFFERS" not in said, said
        lines = [line for line in prints.read_text().splitlines() if line.startswith('{"step":6,')]
        assert (folder / "out").read_text().splitlines() == lines and len(lines) == ranks
        run(again + ["--ranks", str(ranks), "--step", "3"], 0, [f"step 3 of {ranks} ranks, from the seed: ", same])
        # Of a rank that had other bits.
        record = json.loads(lines[1])
        record["sent"][2] = "0" * 16
        prints.write_text(prints.read_text().replace(lines[1], json.dumps(record, separators=(",", ":"))))
        run(again + ["--checkpoint", saved / "step-00000004", "--step", "6", "--rank", "1"], 1,
            [f"DIFFERENT from {prints}: rank 1: what it sent (in message 2|or has at the end) differs", "sent  .* DIFFERS"])
    last = again + ["--checkpoint", saved / "step-00000004", "--step"]
    run(last + ["3"], 1, ["--step 3: expected one from 4, the next of the checkpoint, to 7, the last of the job"])
    run(last + ["5"], 1, [f"{prints} has fingerprints of step 5 of 0 ranks, expected those of {ranks}"])
    run(last + ["6", "--rank", "9"], 1, [f"--rank 9: the job has {ranks} ranks"])
    run(last + ["6", "--seed", "2"], 1, ['step-00000004: of another run: "seed" was 1, and is 2'])


def hosts(folder):
    library = sys.argv[3]

    def on(pretended, options):
        environment = ["env", "PRETENDED_HOSTS=" + pretended, "LD_PRELOAD=" + library, "SHARDWISE_TRANSPORT=mpi"]
        return environment + words(options + ["--steps", 3], len(pretended))

    def to_others(said):
        return re.findall(r"^ +\w+ +to other hosts +(.*B) +(\S+ \S*B)$", said, re.MULTILINE)

    # Planned as they lie there: every collective, and a pipeline's messages. Dealt out in turn, or in any order, inner axes
    # are within hosts all the same.
    meshes = (
        ("01", ["--pp", "2"], "pp 2 across 2 hosts"),
        ("0110", ["--replicas", "2", "--zero", "3"], "dp 2 within a host; replica 2 across 2 hosts"),
        ("0101", ["--tp", "2"], "tp 2 within a host; dp 2 across 2 hosts"),
        ("011010", ["--pp", "2"], "dp 3 within a host; pp 2 across 2 hosts"),
        ("01", [], "dp 2 across 2 hosts"),
        ("0011", ["--zero", "3"], "dp 4 across 2 hosts"),
        ("0011", ["--tp", "2"], "tp 2 within a host; dp 2 across 2 hosts"),
        ("0001", ["--zero", "1"], "dp 4 across 2 hosts"),
    )
    for pretended, options, where in meshes if all_tests() else meshes[:2]:
        said = run(on(pretended, options), 0, [f"\n{where}\n"])
        rows = to_others(said)
        assert "warning:" not in said and rows, said
        assert all(planned.split() == recorded.split() for planned, recorded in rows), said
    # No plan says how: no line, instead of one that is wrong.
    said = run(on("0111", ["--zero", "1", "--replicas", "2"]))
    assert "to other hosts" not in said, said
    # A group that has room on a host, and is not there.
    for pretended in ("000111", "010101") if all_tests() else ("000111",):
        said = run(on(pretended, ["--tp", "2"]), 0, ["\ntp 2 across 2 hosts; dp 3 across 2 hosts\n",
                   "warning: ranks along tp 2 are on different hosts \\(rank 2 on .*, rank 3 on .*--map-by ppr:2:node"])
        assert said.count("warning:") == 1, said
    # None has room.
    meshes = (("01", ["--tp", "2"]), ("0011", ["--pp", "2", "--tp", "2"]), ("0011", []))
    for pretended, options in meshes if all_tests() else meshes[:1]:
        assert "warning:" not in run(on(pretended, options))


def context(folder):
    rows = folder / "rows.jsonl"
    with open(rows, "w", encoding="utf-8") as file:
        for i in range(40):
            file.write(json.dumps({"text": "positions " * (1 + i % 3)}) + "\n")
    documents = ["--data", rows, "--packed", "--pad"]
    log = folder / "log.jsonl"

    def losses(ranks, options, steps=5, kept=False):
        if not kept:
            log.unlink(missing_ok=True)
        command = words(["--rate", "3e-4", "--held-out", 0.1, "--evaluate-every", 2, "--log", log, "--steps", steps] + options, ranks)
        if "--data" in options:
            command = [word for word in command if word not in MODEL[:2]]
        said = run(command, 0, ["recorded" if steps > 1 else ""])
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [(line["loss"], line.get("held_out_loss")) for line in lines if "loss" in line], said

    def same(found, expected, within=1e-5):
        assert len(found) == len(expected), (found, expected)
        for ours, theirs in zip(found, expected):
            for a, b in zip(ours, theirs):
                assert (a is None) == (b is None) and (a is None or abs(a / b - 1) < within), (found, expected)

    models = (documents, [], ["--optimizer", "muon"], ["--tied"])
    meshes = ((4, "--cp 2 --tp 2 --sp --zero 2 --micro-batches 2"), (2, "--cp 2"), (3, "--cp 3 --zero 3 --recompute"),
              (4, "--pp 2 --cp 2 --micro-batches 2 --zero 1"), (4, "--dp 2 --cp 2 --zero 1"))
    for model in models if all_tests() else models[:1]:
        alone, _ = losses(1, model)
        for ranks, mesh in meshes if all_tests() else meshes[:1]:
            print(model, mesh, flush=True)
            found, said = losses(ranks, model + mesh.split())
            same(found, alone)
            assert re.search(r"^ +forward +all_gather +[a-z+]*cp ", said, re.MULTILINE), said
    rounded, _ = losses(1, ["--bf16"])
    same(losses(2, ["--bf16", "--cp", 2, "--zero", 3])[0], rounded, 1e-2)
    # Saved on one mesh, resumed on another.
    alone, _ = losses(1, [])
    saved = ["--save", folder / "saved", "--resume"]
    losses(4, saved + "--cp 2 --dp 2 --zero 3".split(), 2)
    losses(3, saved + ["--cp", 3], 4, True)
    same(losses(1, saved, 5, True)[0], alone)


def main():
    global TRAIN
    TRAIN = os.path.abspath(sys.argv[1])
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("PMIX_MCA_gds", "hash")  # else the limit of a file's size is that of MPI's start too
    if os.geteuid() == 0:  # in a container, perhaps
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    random.seed(1)
    case = {each.__name__: each for each in (best, stopped, keep, unsaved, faults, replay, hosts, context)}[sys.argv[2]]
    with tempfile.TemporaryDirectory(prefix="shardwise-operation-") as folder:
        os.chdir(folder)
        case(pathlib.Path(folder))


if __name__ == "__main__":
    main()
