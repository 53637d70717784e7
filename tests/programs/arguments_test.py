#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""What the examples of one file refuse.  arguments_test.py build/examples"""

import pathlib
import subprocess
import sys
import unittest

EXAMPLES = pathlib.Path(sys.argv.pop(1)).resolve()
WITHOUT = ("matrix_product", "mlp", "attention", "least_squares", "gaussian_process", "data_parallel", "reinforce")
REFUSALS = [(f"{program} --steps 9", f"--steps: {program} takes no arguments") for program in WITHOUT] + [
    ("train_llama --help", r"usage: train_llama \[TEXT \[FOLDER \[STEPS\]\]\]"),
    ("train_llama docs folder many", "usage: train_llama"),
    ("generate --prompt a", r"usage: generate \[FOLDER \[PROMPT\]\]"),
    ("generate folder Each rank", "usage: generate"),
    ("generate nowhere", "nowhere/config.json: cannot be opened"),
]


class RefusalTest(unittest.TestCase):
    def test_what_they_do_not_know_they_refuse(self):
        for command, expected in REFUSALS:
            program, *words = command.split()
            with self.subTest(command):
                done = subprocess.run([EXAMPLES / program, *words], capture_output=True, text=True, timeout=20)
                self.assertGreater(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, expected)
                self.assertEqual(done.stderr.count("shardwise: rank"), 1)


if __name__ == "__main__":
    unittest.main()
