#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Draws the logs of training runs, JSON lines or CSV, as an SVG: the loss over the steps, and
optionally the learning rate, the gradient norm and the tokens per second. Values that are not
finite are gaps in the curve. It needs Python alone."""

import argparse
import json
import math
import os
import sys
from xml.sax.saxutils import escape

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#6a3d9a", "#444444"]  # after Okabe, Ito
DASHES = ["", "6 3", "2 2"]  # from the ninth curve on
PANELS = {  # field: (title, height)
    "loss": ("loss", 300),
    "rate": ("learning rate", 90),
    "gradient_norm": ("gradient norm", 90),
    "tokens_per_second": ("tokens per second", 90),
}
PROGRAM = os.path.basename(sys.argv[0])
LEFT, RIGHT, WIDTH = 70, 20, 860  # the plot is WIDTH - LEFT - RIGHT wide


class PlotError(Exception):
    """An error for the user; main prints it."""


def number(value):
    """A finite number, or None for what is written as "nan", "inf", "-inf"."""
    if value in ("nan", "inf", "-inf"):
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        raise ValueError("%s is not a number" % json.dumps(value))
    return float(value) if abs(value) > 1e-300 else 0.0


def refuse(constant):
    raise ValueError("%s is not JSON" % constant)


def parse_row(text, names):
    """A line of CSV as an object of JSON."""
    cells = text.decode("utf-8").split(",")
    if len(cells) != len(names):
        raise ValueError("%d values, expected %d" % (len(cells), len(names)))
    return {name: cell if cell in ("nan", "inf", "-inf") else json.loads(cell)
            for name, cell in zip(names, cells) if cell}


def parse_line(text, fields, names):
    """The step and the fields' values; None for a line that describes the run, or has only the last evaluation. `names`
    are those of the columns of a CSV file."""
    line = parse_row(text, names) if names else json.loads(text.decode("utf-8"), parse_constant=refuse)
    if not isinstance(line, dict):
        raise ValueError("not a JSON object")
    if "run" in line or ("held_out_loss" in line and "loss" not in line):
        return None
    for field in ["step"] + fields:
        if field not in line:
            raise ValueError('there is no "%s"' % field)
    step = line["step"]
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < 2**63:
        raise ValueError('"step" is %s' % json.dumps(step))
    return step, [number(line[field]) for field in fields]


def read_log(path, fields, log_scale):
    """The steps, and for each field its values."""
    if os.path.isdir(path):
        raise PlotError("%s: a folder, expected a log as JSON lines or CSV; TensorBoard shows folders" % path)
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
    except OSError as error:
        raise PlotError("%s: %s" % (path, error.strerror)) from error
    steps, columns, last = [], {field: [] for field in fields}, len(lines) - 1
    names = lines.pop(0).decode("utf-8", "replace").split(",") if lines[0].startswith(b"step,") else None
    for index, text in enumerate(lines, 1 if names else 0):
        if index == last and not text:
            break
        where = "%s:%d: " % (path, index + 1)
        try:
            parsed = parse_line(text, fields, names)
        except (ValueError, RecursionError) as error:
            if index == last and index > 0:
                print("%s: %sthe last line is incomplete, and is ignored" % (PROGRAM, where), file=sys.stderr)
                break
            raise PlotError("%snot a line of a training log: %s" % (where, error)) from error
        if parsed is None:
            continue
        step, values = parsed
        if steps and step <= steps[-1]:
            raise PlotError("%sstep %d comes after step %d" % (where, step, steps[-1]))
        if log_scale and values[0] is not None and values[0] <= 0:
            raise PlotError("%sthe loss is %g, which a logarithmic scale cannot show" % (where, values[0]))
        steps.append(step)
        for field, value in zip(fields, values):
            columns[field].append(value)
    if not steps:
        raise PlotError("%s: there is no step in this log" % path)
    return steps, columns


def round_ticks(low, high, most, whole=False):
    """At most `most` multiples of 1, 2 or 5 times a power of ten, and at least one."""
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    if whole:
        step = max(step, 1.0)
    for factor in (1, 2, 5, 10):
        first, last = math.ceil(low / (step * factor)), math.floor(high / (step * factor))
        if last - first < most:
            break
    return [i * step * factor for i in range(first, last + 1)]


def log_ticks(low, high, most):
    """Powers of ten, with their multiples by 2 and 5 if there is room; within a decade, multiples of one number."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    apart = math.ceil((last - first + 1) / most)  # exponents from label to label
    powers = [10.0**e for e in range(first, last + 1) if e % apart == 0]
    for factors in ((1, 2, 5), (1, 5), (1,)):
        ticks = [f * power for power in powers for f in factors if low <= f * power <= high]
        if apart == 1 and len(ticks) <= most:
            break
    return ticks if len(ticks) >= 3 else [tick for tick in round_ticks(low, high, most) if tick > 0]


def tick_texts(ticks):
    """The ticks' numbers, all in the same unit."""
    largest = max(map(abs, ticks))
    unit, suffix = 1.0, ""
    for size, name, begin in ((1e3, "k", 1e4), (1e6, "M", 1e6), (1e9, "G", 1e9), (1e12, "T", 1e12)):
        if begin <= largest < 1e15:
            unit, suffix = size, name
    texts = ["%.10g" % (tick / unit) + (suffix if tick else "") for tick in ticks]
    return [text.replace("e-0", "e-").replace("e+", "e") for text in texts]


class Axis:
    """Places values between two pixels."""

    def __init__(self, low, high, begin, end, log_scale=False):
        self.low, self.high, self.begin, self.end = low, high, begin, end
        self.map = math.log10 if log_scale else float

    def __call__(self, value):
        share = (self.map(value) - self.map(self.low)) / (self.map(self.high) - self.map(self.low))
        return self.begin + share * (self.end - self.begin)


def value_axis(values, begin, end, from_zero, log_scale):
    """An axis with some room above and below the values, and its ticks."""
    low, high = min(values), max(values)
    most = abs(begin - end) // 22
    if log_scale:
        decades = math.log10(high) - math.log10(low)
        room = 10 ** min(max(0.04 * decades, 1e-6), 1) if high > low else 1.5
        low, high = low / room, high * room
        return Axis(low, high, begin, end, True), log_ticks(low, high, most)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    room = (high - low) * 0.04 or abs(high) * 0.5 or 1.0
    low, high = low if from_zero and low == 0 else low - room, high + room
    return Axis(low, high, begin, end), round_ticks(low, high, most)


def stretches(steps, values):
    """The points (step, value) between gaps."""
    stretch = []
    for point in zip(steps, values):
        if point[1] is not None:
            stretch.append(point)
        elif stretch:
            yield stretch
            stretch = []
    if stretch:
        yield stretch


def thinned(points):
    """The first, lowest, highest and last point of each pixel column, which look the same as all points."""
    columns = {}
    for point in points:
        columns.setdefault(round(point[0]), []).append(point)
    for column in columns.values():
        edges = {0, len(column) - 1}
        edges.add(min(range(len(column)), key=lambda i: column[i][1]))
        edges.add(max(range(len(column)), key=lambda i: column[i][1]))
        for i in sorted(edges):
            yield column[i]


def stroke(index):
    """How the curves of a log are drawn."""
    dash = DASHES[index // len(COLOURS) % len(DASHES)]
    return 'stroke="%s"' % COLOURS[index % len(COLOURS)] + (' stroke-dasharray="%s"' % dash if dash else "")


def curve(points, index):
    if len(points) == 1:
        return '<circle cx="%.2f" cy="%.2f" r="1" %s/>' % (points[0] + (stroke(index),))
    if len(points) > 2 * WIDTH:
        points = thinned(points)
    return '<polyline points="%s" %s/>' % (" ".join("%.2f,%.2f" % point for point in points), stroke(index))


def panel(field, logs, x, x_ticks, top, log_scale):
    """One diagram, as lines of SVG."""
    title, height = PANELS[field]
    bottom = top + height
    finite = [v for _, columns in logs for v in columns[field] if v is not None]
    if not finite:
        raise PlotError("no log has a finite %s" % title)
    y, y_ticks = value_axis(finite, bottom, top, field != "loss", log_scale)
    out = ['<g id="%s">' % field, '<text x="%d" y="%d" class="title">%s</text>' % (LEFT, top - 8, title)]
    for tick, text in zip(y_ticks, tick_texts(y_ticks)):
        out.append('<path d="M%d %.2fH%d" class="grid"/>' % (LEFT, y(tick), WIDTH - RIGHT))
        out.append('<text x="%d" y="%.2f" dy="4" class="y">%s</text>' % (LEFT - 8, y(tick), text))
    for tick, text in zip(x_ticks, tick_texts(x_ticks)):
        out.append('<path d="M%.2f %dV%d" class="grid"/>' % (x(tick), top, bottom))
        out.append('<text x="%.2f" y="%d" class="x">%s</text>' % (x(tick), bottom + 16, text))
    out.append('<path d="M%d %dV%dH%d" class="axis"/>' % (LEFT, top, bottom, WIDTH - RIGHT))
    for index, (steps, columns) in enumerate(logs):
        for stretch in stretches(steps, columns[field]):
            out.append(curve([(x(step), y(value)) for step, value in stretch], index))
    return out + ["</g>"]



def printable(name):
    """A file's name with characters that XML allows."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)


def draw(names, logs, fields, log_scale):
    first, last = min(steps[0] for steps, _ in logs), max(steps[-1] for steps, _ in logs)
    if first == last:
        first, last = first - 1, last + 1
    x = Axis(first, last, LEFT, WIDTH - RIGHT)
    x_ticks = [tick for tick in round_ticks(first, last, 10, whole=True) if tick >= 0]
    body, top = ['<g id="legend">'], 24
    for index, name in enumerate(names):
        body.append('<path d="M%d %dh24" %s class="key"/>' % (LEFT, top, stroke(index)))
        body.append('<text x="%d" y="%d">%s</text>' % (LEFT + 32, top + 4, escape(printable(name))))
        top += 18
    body.append("</g>")
    for field in fields:
        top += 24
        body += panel(field, logs, x, x_ticks, top, log_scale and field == "loss")
        top += PANELS[field][1] + 26
    body.append('<text x="%d" y="%d" class="x">step, from 0</text>' % ((LEFT + WIDTH - RIGHT) // 2, top + 4))
    height = top + 16
    head = """<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">
<title>training: %s</title>
<style>
text { font: 12px sans-serif; fill: #222 } .title { font-weight: bold }
.x { text-anchor: middle } .y { text-anchor: end }
path, polyline, circle { fill: none } polyline, .key { stroke-width: 1.5 } polyline { stroke-linejoin: round }
circle { stroke-width: 3 }
.grid { stroke: #ddd } .axis { stroke: #222 }
</style>
<rect width="100%%" height="100%%" fill="white"/>""" % (WIDTH, height, WIDTH, height, ", ".join(fields))
    return "\n".join([head] + body + ["</svg>", ""])


def main(arguments):
    parser = argparse.ArgumentParser(prog=PROGRAM, usage="%(prog)s [OPTIONS] LOG ...", description=__doc__)
    parser.add_argument("--version", action="version", version="%(prog)s @version@", help="print the version and exit")
    parser.add_argument("logs", nargs="+", metavar="LOG", help="training logs, drawn together")
    parser.add_argument("-o", "--output", metavar="SVG", help="the picture (default: the first LOG's name with .svg)")
    parser.add_argument("--log-scale", action="store_true", help="draw the loss on a logarithmic scale")
    parser.add_argument("--rate", action="store_true", help="also draw the learning rate")
    parser.add_argument("--gradient-norm", action="store_true", help="also draw the gradient norm")
    parser.add_argument("--tokens-per-second", action="store_true", help="also draw the tokens per second")
    parser.add_argument("--all", action="store_true", help="also draw all three of them")
    options = parser.parse_args(arguments)
    fields = [field for field in PANELS if field == "loss" or options.all or getattr(options, field)]
    output = options.output or os.path.splitext(options.logs[0])[0] + ".svg"
    try:
        logs = [read_log(path, fields, options.log_scale) for path in options.logs]
        if any(os.path.exists(output) and os.path.samefile(output, path) for path in options.logs):
            raise PlotError("%s: the picture would replace the log; choose another --output" % output)
        picture = draw(options.logs, logs, fields, options.log_scale)
        try:
            with open(output, "w", encoding="utf-8") as file:
                file.write(picture)
        except OSError as error:
            raise PlotError("%s: %s" % (output, error.strerror)) from error
    except PlotError as error:
        print("%s: %s" % (PROGRAM, error), file=sys.stderr)
        return 2
    print("%s: %s" % (output, ", ".join(fields)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
