#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""The command lines of the programs: help, versions, files of options, names from other programs, completions, manual pages, and
the formats of --log.  command_line_test.py build/examples/programs"""

import csv
import json
import math
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

TOOLS = pathlib.Path(sys.argv.pop(1)).resolve()
PROGRAMS = [f"shardwise-{name}" for name in
            ("consolidate", "evaluate", "generate", "inspect", "measure", "plan", "plot", "replay", "run", "serve", "train")]
SMALL = ["--batch", "4", "--context", "16", "--layers", "1", "--features", "32", "--heads", "4", "--hidden", "48"]


def run(*words, **options):
    options = {"capture_output": True, "text": True, "timeout": 60, **options}
    return subprocess.run([TOOLS / words[0] if words[0] in PROGRAMS else words[0], *words[1:]], **options)


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def file(self, name, text):
        (self.path / name).write_text(text, encoding="utf-8")
        return str(self.path / name)


class HelpTest(unittest.TestCase):
    def test_each_program_has_help_and_a_version(self):
        for program in PROGRAMS:
            # MPI is not started: Open MPI has no such pml.
            done = run(program, "--help", env={**os.environ, "COLUMNS": "100", "OMPI_MCA_pml": "none_of_them"})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLessEqual(max(map(len, done.stdout.split("\n"))), 100, program)
            self.assertNotRegex(done.stdout, r"\bU?INT\b|FLOAT| in \[|\[\]")
            done = run(program, "--version")
            self.assertRegex(done.stdout, rf"^{program} \d+\.\d+\.\d+", done.stderr)
            if program not in ("shardwise-run", "shardwise-plot"):
                self.assertRegex(done.stdout, r"\nmatrix products by \w+\n\S+ .*\d\.\d")

    def test_a_job_prints_them_once(self):
        for word in ("--help", "--version"):
            done = run("mpirun", "-n", "2", TOOLS / "shardwise-measure", word)
            self.assertEqual((done.returncode, done.stdout.count("shardwise-measure")), (0, 1), done.stdout)

    def test_manual_pages_have_no_warnings(self):
        if not shutil.which("groff"):
            self.skipTest("groff is missing (Debian: groff-base)")
        for program in PROGRAMS:
            page = TOOLS / "man" / f"{program}.1"
            done = run("groff", "-ww", "-K", "utf8", "-man", "-Tutf8", page)
            self.assertEqual((done.returncode, done.stderr), (0, ""), program)
            self.assertIn("OPTIONS", done.stdout)
        self.assertRegex(page.read_text(encoding="utf-8"), r"\\fB\\-\\-rate\\fR \\fIX\\fR\nhighest learning rate; default: 0.003\n")


class CompletionTest(unittest.TestCase):
    def completed(self, typed):
        """The line of an interactive bash after a tab."""
        child, terminal = pty.fork()
        if child == 0:
            os.environ.update(PS1="ready> ", TERM="dumb", INPUTRC="/dev/null", PATH=f"{TOOLS}:{os.environ['PATH']}")
            os.execvp("bash", ["bash", "--norc", "-i"])

        def read_until(text):
            said, end = b"", time.monotonic() + 20
            while text not in said:
                self.assertTrue(select.select([terminal], [], [], max(0, end - time.monotonic()))[0], said)
                said += os.read(terminal, 4096)
            return said.decode()

        try:
            for file in ("shardwise-train", "shardwise-run"):
                os.write(terminal, f"source {TOOLS}/bash/{file}; echo read-$((1 + 1))\n".encode())
                read_until(b"read-2\r\nready> ")
            os.write(terminal, f"{typed}\t!\x15".encode())  # control-U: nothing runs
            return read_until(b"!").replace("\x07", "")
        finally:
            os.close(terminal)
            os.waitpid(child, 0)

    def test_bash_completes_options_and_their_values(self):
        self.assertIn("shardwise-train --rate-schedule", self.completed("shardwise-train --rate-s"))
        self.assertIn("shardwise-train --format safetensors", self.completed("shardwise-train --format s"))
        self.assertIn("--communicate-as bfloat16 ", self.completed("shardwise-train --communicate-as b"))
        self.assertIn("shardwise-train --model mixtral-8x7b", self.completed("shardwise-train --model mix"))
        self.assertIn("shardwise-run --stop-signal TERM", self.completed("shardwise-run --stop-signal T"))

    def test_zsh_reads_them(self):
        if not shutil.which("zsh"):
            self.skipTest("zsh is missing")
        for program in PROGRAMS:
            done = run("zsh", "-n", TOOLS / "zsh" / f"_{program}")
            self.assertEqual((done.returncode, done.stderr), (0, ""), program)


class ConfigTest(InFolder):
    def plan(self, text, *words):
        return run("shardwise-plan", "--config", self.file("run.toml", text), *words)

    def test_it_has_the_options_and_the_command_line_beats_it(self):
        text = 'model = "8b"  # sizes\nsp = true\ntied = false\ndp = 4\ntp = 2\ncommunicate-as = [\n  "bfloat16",\n  "float"\n]\n'
        words = ["--model", "8b", "--sp", "--dp", "4", "--communicate-as", "bfloat16", "float", "--json"]
        for tp, given in (("2", []), ("8", ["--tp", "8"])):
            plan, other = json.loads(self.plan(text, "--json", *given).stdout), json.loads(run("shardwise-plan", *words, "--tp", tp).stdout)
            plan.pop("seconds"), other.pop("seconds")
            self.assertEqual(plan, other)
            for array in ('[ # two\n  "bfloat16", # of "forward]"\n  "float"\n]  # types', '[\r\n"bfloat16",\r\n"float"\r\n]\r'):
                changed = text.replace('[\n  "bfloat16",\n  "float"\n]', array)
                self.assertNotEqual(changed, text)
                again = json.loads(self.plan(changed, "--json", *given).stdout)
                again.pop("seconds")
                self.assertEqual(again, plan)
        printed = self.plan(text, "--tp", "8", "--print-config").stdout
        self.assertEqual(sorted(printed.split()), sorted('model="8b" sp=true dp=4 tp=8 communicate-as=["bfloat16", "float"]'.split()))
        self.assertEqual(self.plan(printed, "--print-config").stdout, printed)

    def test_it_refuses_what_it_does_not_know(self):
        for text, error in (("\ndpp = 2\n", ":2: dpp is not an option; did you mean --dp?"),
                            ("dp = 2\ntp_size = 2\n", ":2: tp_size: the option is --tp"),
                            ("dp = 2\ntp = 1\ndp = 2\n", ":3: dp is also in line 1"),
                            ("[mesh]\ndp = 2\n", ": [mesh]: there are no tables"),
                            ('model = "8#b"\n', ':1: model: unterminated string "8; strings may not'),
                            ('communicate-as = [\n"a=1",\n"a=2"\n]\ndpp = 2\n', ":5: dpp is not an option"),
                            ('communicate-as = [\n"float"\n', ": unterminated array: ] is missing"),
                            ("help = true\n", ":1: help may only be given on the command line"),
                            ("communicate-as = [" + '"",' * 100000 + "]\n", " has more than 256 KiB")):
            done = self.plan(text)
            self.assertEqual(done.returncode, 110, done)
            self.assertIn(f"shardwise-plan: {self.path}/run.toml{error}", done.stderr)
        done = self.plan('dp = "many"')
        self.assertIn("--dp is many, expected a whole number from 1 to", done.stderr)
        self.assertIn("--config: nowhere.toml cannot be read", run("shardwise-plan", "--config", "nowhere.toml").stderr)

    def test_json_is_still_a_model(self):
        model = self.file("config.json", json.dumps(
            {"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
             "num_key_value_heads": 4, "intermediate_size": 48, "max_position_embeddings": 16}))
        old, new = (run("shardwise-plan", option, model) for option in ("--config", "--model-config"))
        self.assertEqual(old.stdout.split("planned")[0], new.stdout.split("planned")[0])
        self.assertIn("3 layers, 32 features", new.stdout)
        self.assertEqual(new.stderr, "")
        self.assertRegex(old.stderr, r"^shardwise-plan: --config .*: in future give a config.json by --model-config")

    def test_ranks_must_read_the_same(self):
        one, other = self.file("one.toml", "repetitions = 1\n"), self.file("other.toml", "repetitions = 2\n")
        link = self.path / "link.toml"
        program = str(TOOLS / "shardwise-measure")
        script = f"ln -sf $([ $OMPI_COMM_WORLD_RANK = 0 ] && echo {one} || echo {other}) {link}.$OMPI_COMM_WORLD_RANK; " \
                 f"mkdir -p {self.path}/$OMPI_COMM_WORLD_RANK && cd {self.path}/$OMPI_COMM_WORLD_RANK && " \
                 f"mv {link}.$OMPI_COMM_WORLD_RANK run.toml && exec {program} --config run.toml --to speeds.json"
        done = run("mpirun", "-n", "2", "bash", "-c", script)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("programs differ: rank 1: --repetitions 2, rank 0: --repetitions 1", done.stderr)


class NamesTest(InFolder):
    def test_names_from_other_programs_lead_to_ours(self):
        words, errors = [], []
        for given, ours in (("--lr", "--rate"), ("--learning_rate=3", "--rate"), ("--max-steps", "--steps"), ("--batch-size", "--batch"),
                            ("--output-dir", "--export or --save"), ("--max-grad-norm", "--clip"), ("--warmup-steps", "--warmup"),
                            ("--gradient-accumulation-steps", "--micro-batches"), ("--tp-size", "--tp"),
                            ("--resume-from-checkpoint", "--resume"), ("--batchsize", "--batch"), ("--learningrate", "--rate"),
                            ("--dtype", "--bf16"), ("--zero_1", "--zero"), ("--disable_embedding_parallelization", "--embedding")):
            words.append(given)
            errors.append(f"{given.partition('=')[0]}: the option is {ours}")
        done = run("shardwise-train", *words)
        self.assertEqual(done.returncode, 109)
        self.assertEqual(done.stderr.split("\n")[0], "shardwise-train: " + "; ".join(errors))
        done = run("shardwise-generate", "--max_new_tokens", "3", "--weights", "x")
        self.assertIn("--max_new_tokens: the option is --new-tokens", done.stderr)
        done = run("shardwise-train", "--device", "cuda", "--gpus", "2", "--num-workers", "4", "--do_train")
        devices = "is not an option: programs compute on CPUs, and mpirun -n gives the number of ranks"
        self.assertEqual(done.stderr.split("\n")[0], f"shardwise-train: --device {devices}; --gpus {devices}; --num-workers is not an "
                         "option: each rank reads its own rows; --do_train is not an option: shardwise-train always trains")

    def test_errors_are_about_options_and_their_values(self):
        for words, error in (([], "PATH is missing: a checkpoint, a folder of checkpoints"), (["a", "b"], "b: belongs to no option")):
            self.assertIn(f"shardwise-inspect: {error}", run("shardwise-inspect", *words).stderr)
        for words, error in ((["--to"], "--to has no value, expected one PATH"), (["--to", "a", "--to", "b"], "--to has the values a b, expected one PATH"),
                             (["--repetitions", "x"], "--repetitions is x, expected a whole number from 1 to 16777216"),
                             (["--timeout", "-1"], "--timeout is -1, expected a number, 0 or more")):
            self.assertIn(f"shardwise-measure: {error}\n", run("shardwise-measure", *words).stderr)

    def test_without_text_train_says_what_works(self):
        done = run("mpirun", "-n", "2", TOOLS / "shardwise-train", cwd=self.path)
        self.assertEqual(done.returncode, 105)
        self.assertEqual(done.stderr.count("nothing to learn from: give --text FILE"), 1)
        command = re.search(r"\n  (shardwise-train --help .*)\n", done.stderr)[1]
        done = run("bash", "-c", command, cwd=self.path, env={**os.environ, "PATH": f"{TOOLS}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("step 20/20", done.stdout)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """The fields of a message: by their numbers, lists of values."""
    at, found = 0, {}

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            value, at = data[at:at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    assert at == len(data)
    return found


class LogTest(InFolder):
    def train(self, steps, log):
        done = run("shardwise-train", "--text", TOOLS / "man/shardwise-plot.1", *SMALL, "--steps", str(steps), "--held-out", "0.2", "--evaluate-every", "2",
                   "--save", "run", "--resume", "--log", log, cwd=self.path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def events(self, path):
        """The steps and scalars of an event file, after its two first records."""
        data, at, events = path.read_bytes(), 0, []
        while at < len(data):
            size, check = struct.unpack_from("<QI", data, at)
            event = data[at + 12:at + 12 + size]
            self.assertEqual(check, masked(data[at:at + 8]))
            self.assertEqual(struct.unpack_from("<I", data, at + 12 + size)[0], masked(event))
            events.append(fields(event))
            at += size + 16
        for event in events:
            self.assertLess(abs(struct.unpack("<d", event[1][0])[0] - time.time()), 600)
        self.assertEqual(events[0][3], [b"brain.Event:2"])
        self.assertEqual(fields(events[1][7][0]), {1: [1]})
        scalars = []
        for event in events[2:]:
            value = fields(fields(event[5][0])[1][0])
            scalars.append((event[2][0], value[1][0].decode(), struct.unpack("<f", value[2][0])[0]))
        return events[1][2][0], scalars

    def test_three_formats_have_the_same_values(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)
        for log in ("log.jsonl", "log.csv", "events/"):
            shutil.rmtree(self.path / "run", ignore_errors=True)
            self.train(3, log)
            self.train(5, log)
        lines = [json.loads(line) for line in (self.path / "log.jsonl").read_text().split("\n") if line]
        lines = [line for line in lines if "run" not in line]
        self.assertEqual([line["step"] for line in lines], [0, 1, 2, 3, 4, 5])
        # The last evaluation too, and that with which the second run begins.
        self.assertEqual([line["step"] for line in lines if "held_out_loss" in line], [0, 2, 3, 4, 5])
        self.assertEqual(sorted(lines[-1]), ["held_out_loss", "step"])
        with open(self.path / "log.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for line, row in zip(lines, rows, strict=True):
            for name in ("step", "loss", "rate", "gradient_norm", "tokens", "held_out_loss"):
                self.assertEqual(row[name], str(line.get(name, "")), line)
        files = sorted((self.path / "events").iterdir())
        self.assertEqual(len(files), 2)
        (first, before), (second, after) = map(self.events, files)
        self.assertEqual((first, second), (0, 3))
        scalars = [each for each in before if each[0] < second] + after  # as TensorBoard does
        for name in ("loss", "rate", "gradient_norm", "held_out_loss"):
            expected = [(line["step"], line[name]) for line in lines if name in line]
            found = [(step, value) for step, tag, value in scalars if tag == name]
            self.assertEqual([step for step, _ in found], [step for step, _ in expected])
            for (_, value), (_, other) in zip(found, expected):
                self.assertTrue(math.isclose(value, other, rel_tol=1e-6), (name, value, other))
        pictures = []
        for log in ("log.jsonl", "log.csv"):
            done = run("shardwise-plot", log, "--rate", "-o", "log.svg", cwd=self.path)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            pictures.append((self.path / "log.svg").read_text().replace(log, ""))
        self.assertEqual(*pictures)
        self.assertIn("TensorBoard shows folders", run("shardwise-plot", "events", cwd=self.path).stderr)


if __name__ == "__main__":
    unittest.main()
