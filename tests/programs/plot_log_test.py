#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""examples/programs/train/plot_log.py: what its pictures show, read from the SVG by the labels of the axes, and what it
refuses."""

import contextlib
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "..", "examples", "programs", "train", "plot_log.py")
sys.path.insert(0, os.path.dirname(PROGRAM))
import plot_log  # noqa: E402
SVG = "{http://www.w3.org/2000/svg}"
UNITS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def label_value(text):
    number, unit = re.fullmatch(r"([-+.0-9e]+)([kMGT]?)", text).groups()
    return float(number) * UNITS[unit]


class Panel:
    """A diagram of a picture, and the values at its points."""

    def __init__(self, group, log_scale=False):
        self.log_scale = log_scale
        texts = group.findall(SVG + "text")
        self.labels = {axis: [t.text for t in texts if t.get("class") == axis] for axis in "xy"}
        self.ticks = {axis: [label_value(text) for text in self.labels[axis]] for axis in "xy"}
        self.pixels = {axis: [float(t.get(axis)) for t in texts if t.get("class") == axis] for axis in "xy"}
        self.colours, self.curves = [], []
        for element in group:
            if element.tag == SVG + "polyline":
                points = [tuple(map(float, point.split(","))) for point in element.get("points").split()]
            elif element.tag == SVG + "circle":
                points = [(float(element.get("cx")), float(element.get("cy")))]
            else:
                continue
            self.colours.append(element.get("stroke"))
            self.curves.append([(self.value("x", x), self.value("y", y)) for x, y in points])

    def value(self, axis, pixel):
        """From the first and the last label, wherever the program puts its pixels."""
        log_scale = self.log_scale and axis == "y"
        low, high = self.ticks[axis][0], self.ticks[axis][-1]
        begin, end = self.pixels[axis][0], self.pixels[axis][-1]
        if log_scale:
            low, high = math.log10(low), math.log10(high)
        value = low + (pixel - begin) / (end - begin) * (high - low)
        return 10**value if log_scale else value


class PlotLogTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def log(self, name, steps, first='{"run":{},"first_step":0}\n'):
        """Writes a log of (step, loss), with other fields that follow from them."""
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(first)
            for step, loss in steps:
                line = dict(step=step, loss=loss, rate=1e-4 * (step + 1), gradient_norm=1 + step, tokens=1024)
                file.write(json.dumps(dict(line, tokens_per_second=20000 + 1000 * step, seconds=0.05)) + "\n")
        return self.path(name)

    def run_program(self, *arguments):
        """In this process: to start a Python for each of them takes six times as long."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = plot_log.main(list(arguments))
            except SystemExit as end:
                code = end.code
        return code, out.getvalue(), err.getvalue()

    def picture(self, *arguments, log_scale=False):
        output = self.path("picture.svg")
        code, out, err = self.run_program(*arguments, "-o", output)
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out.startswith(output + ": loss"), out)
        root = xml.etree.ElementTree.parse(output).getroot()
        self.names = [text.text for text in root.find(SVG + "g[@id='legend']").iter(SVG + "text")]
        self.keys = [key.get("stroke") for key in root.find(SVG + "g[@id='legend']").iter(SVG + "path")]
        groups = {group.get("id"): group for group in root.iter(SVG + "g") if group.get("id") != "legend"}
        return {name: Panel(group, log_scale and name == "loss") for name, group in groups.items()}

    def check_curve(self, curve, expected, tolerance=0.01):
        self.assertEqual(len(curve), len(expected))
        for (x, y), (step, value) in zip(curve, expected):
            self.assertAlmostEqual(x, step, delta=0.01 * max(1, len(expected) / 100))
            self.assertAlmostEqual(y, value, delta=tolerance * abs(value))

    def check_round(self, ticks):
        """Evenly spaced by 1, 2 or 5 times a power of ten."""
        self.assertGreaterEqual(len(ticks), 3)
        steps = [b - a for a, b in zip(ticks, ticks[1:])]
        for step in steps:
            self.assertAlmostEqual(step / steps[0], 1, delta=1e-6)
        mantissa = steps[0] / 10 ** math.floor(math.log10(steps[0]) + 1e-9)
        self.assertLess(min(abs(mantissa - round_one) for round_one in (1, 2, 5)), 1e-6)

    def test_the_log_that_the_library_writes(self):
        panels = self.picture(os.path.join(HERE, "training_log.jsonl"), "--all")
        self.assertEqual(list(panels), ["loss", "rate", "gradient_norm", "tokens_per_second"])
        # What is not finite is a gap.
        self.assertEqual([len(curve) for curve in panels["loss"].curves], [2, 1])
        self.check_curve(panels["loss"].curves[0], [(0, 10.375), (1, 8.25)])
        self.check_curve(panels["loss"].curves[1], [(5, 6)])
        self.check_curve(panels["rate"].curves[0], [(0, 1e-4), (1, 2e-4), (2, 3e-4), (5, 3e-4)])
        self.check_curve(panels["gradient_norm"].curves[0], [(0, 7.5)])
        self.check_curve(panels["tokens_per_second"].curves[0], [(0, 8192), (1, 16384)], 0.02)
        for panel in panels.values():
            self.check_round(panel.ticks["x"])
            self.check_round(panel.ticks["y"])
        for name in ("rate", "gradient_norm", "tokens_per_second"):
            self.assertEqual(panels[name].ticks["y"][0], 0)

    def test_only_what_is_asked_for(self):
        log = self.log("a.jsonl", [(0, 2), (10, 1)])
        self.assertEqual(list(self.picture(log)), ["loss"])
        panels = self.picture(log, "--tokens-per-second", "--rate")
        self.assertEqual(list(panels), ["loss", "rate", "tokens_per_second"])
        self.assertEqual(list(self.picture(log, "--gradient-norm")), ["loss", "gradient_norm"])

    def test_several_logs(self):
        first, second = [(s, 5 - s / 50) for s in range(0, 200, 10)], [(s, 3 + s / 100) for s in range(100, 300, 50)]
        names = [self.log("a <&> b.jsonl", first), self.log("b.jsonl", second)]
        panel = self.picture(*names)["loss"]
        self.assertEqual(self.names, names)
        self.assertEqual(self.keys, panel.colours)
        self.assertEqual(len(set(self.keys)), 2)
        self.check_curve(panel.curves[0], first)
        self.check_curve(panel.curves[1], second)
        self.check_round(panel.ticks["y"])

    def test_more_logs_than_colours_stay_apart(self):
        names = [self.log("%d.jsonl" % i, [(0, 1), (1, 2)]) for i in range(10)]
        output = self.path("out.svg")
        self.assertEqual(self.run_program(*names, "-o", output)[0], 0)
        legend = xml.etree.ElementTree.parse(output).getroot().find(SVG + "g[@id='legend']")
        styles = [(key.get("stroke"), key.get("stroke-dasharray")) for key in legend.iter(SVG + "path")]
        self.assertEqual(len(set(styles)), 10)

    def test_a_logarithmic_scale(self):
        for losses, expected in (
            ((1000, 30, 0.5), {0.5, 1, 2, 5, 10, 100, 1000}),
            ((4, 3, 2.2), {2.4, 3, 3.6}),  # within a decade
            ((9e9, 2e-9, 1), {1e-8, 1e-6, 1, 1e8}),  # more decades than labels
        ):
            panel = self.picture(self.log("a.jsonl", enumerate(losses)), "--log-scale", log_scale=True)["loss"]
            self.check_curve(panel.curves[0], list(enumerate(losses)), 0.05)
            ticks = panel.ticks["y"]
            self.assertTrue(3 <= len(ticks) <= 14, ticks)
            self.assertTrue(expected <= {float("%.6g" % tick) for tick in ticks}, ticks)

    def test_a_long_log_keeps_its_peaks(self):
        losses = [2 + math.sin(step / 5000) for step in range(50000)]
        losses[31415], losses[27182] = 9, 0.5
        panel = self.picture(self.log("a.jsonl", enumerate(losses)))["loss"]
        curve = panel.curves[0]
        self.assertLess(len(curve), 4 * 860)
        for step in (31415, 27182, 0, 49999):
            self.assertTrue(any(abs(x - step) < 10 and abs(y - losses[step]) < 0.02 for x, y in curve), step)
        self.assertEqual(panel.labels["x"][:3], ["0", "5k", "10k"])
        self.assertEqual(sorted(curve), curve)

    def test_one_step_and_constant_values(self):
        for steps in ([(0, 3)], [(7, 3)], [(0, 3), (1, 3)], [(0, 0)], [(0, -2.5), (4, -2.5)]):
            panel = self.picture(self.log("a.jsonl", steps), "--all")["loss"]
            self.check_curve(panel.curves[0], steps, 0.02)

    def test_extreme_values_end_in_a_picture(self):
        for losses in ([1e299, -1e299], [1e-299, 1e299], [5e-324, 1e-310], [1, 1 + 2e-16], [1e16, 1e16 + 2]):
            log = self.log("a.jsonl", enumerate(losses))
            self.picture(log, "--all")
            if min(losses) > 1e-300:
                self.picture(log, "--log-scale", log_scale=True)
        self.picture(self.log("a.jsonl", [(0, 1), (2**63 - 1, 2)]))

    def test_the_default_output(self):
        log = self.log("a.b.jsonl", [(0, 1)])
        self.assertEqual(self.run_program(log), (0, self.path("a.b.svg") + ": loss\n", ""))
        self.assertTrue(os.path.exists(self.path("a.b.svg")))

    def test_a_log_that_is_being_written(self):
        log = self.log("a.jsonl", [(0, 1), (1, 2)])
        with open(log, "a", encoding="utf-8") as file:
            file.write('{"step":2,"lo')
        code, _, err = self.run_program(log)
        self.assertEqual(code, 0)
        self.assertIn("a.jsonl:4: the last line is incomplete, and is ignored", err)

    def check_refused(self, arguments, *expected):
        code, out, err = self.run_program(*arguments)
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(err.count("\n"), 1, err)
        self.assertTrue(err.startswith(plot_log.PROGRAM + ": "), err)
        for text in expected:
            self.assertIn(text, err)

    def test_malformed_lines(self):
        good = '{"run":{}}\n{"step":1,"loss":2}\n'
        for line, why in (
            ("step 2", "Expecting value"),
            ("", "Expecting value"),
            ("[2]", "not a JSON object"),
            ('{"loss":2}', 'there is no "step"'),
            ('{"step":2}', 'there is no "loss"'),
            ('{"step":"2","loss":2}', '"step" is "2"'),
            ('{"step":true,"loss":2}', '"step" is true'),
            ('{"step":-2,"loss":2}', '"step" is -2'),
            ('{"step":2,"loss":NaN}', "NaN is not JSON"),
            ('{"step":2,"loss":null}', "null is not a number"),
            ('{"step":2,"loss":"low"}', '"low" is not a number'),
            ('{"step":2,"loss":1e400}', "is not a number"),
            ('{"step":2,"loss":1' + 400 * "0" + "}", "is not a number"),
            ('{"step":2,"loss":[' + 9999 * "[", "maximum recursion depth"),
            ('{"step":1,"loss":2}', "step 1 comes after step 1"),
            ('{"step":2,"loss":"caf\xe9"}', "can't decode byte"),
        ):
            with open(self.path("bad.jsonl"), "w", encoding="latin-1") as file:
                file.write(good + line + '\n{"step":9,"loss":2}\n')
            self.check_refused([self.path("bad.jsonl")], "bad.jsonl:3: ", why)
            self.assertFalse(os.path.exists(self.path("bad.svg")))
        log = self.log("a.jsonl", [(0, 2), (1, 0)])
        self.check_refused([log, "--log-scale"], "a.jsonl:3: the loss is 0, which a logarithmic scale")

    def test_other_nonsense(self):
        log = self.log("a.jsonl", [(0, 2)])
        self.check_refused([log, self.path("b.jsonl")], "b.jsonl: No such file or directory")
        self.check_refused([self.folder], self.folder + ": a folder, expected a log")
        self.check_refused([log, "-o", self.path("no/a.svg")], "no/a.svg: No such file or directory")
        self.check_refused([log, "-o", log], "a.jsonl: the picture would replace the log")
        self.check_refused([self.log("b.jsonl", [])], "b.jsonl: there is no step in this log")
        self.check_refused([self.log("c.jsonl", [], "")], "c.jsonl: there is no step in this log")
        self.check_refused([self.log("d.jsonl", [(0, "nan")])], "no log has a finite loss")
        for arguments in ([], [log, "--wings"]):
            self.assertEqual(self.run_program(*arguments)[0], 2)

    def test_help_of_the_program_itself(self):
        done = subprocess.run([sys.executable, PROGRAM, "--help"], stdout=subprocess.PIPE)
        self.assertEqual(done.returncode, 0)
        out = done.stdout.decode()
        for option in ("LOG", "--output", "--log-scale", "--rate", "--gradient-norm", "--tokens-per-second", "--all"):
            self.assertIn(option, out)


if __name__ == "__main__":
    unittest.main()
