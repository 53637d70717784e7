# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""Pages of traces in a browser: `page_test.py FOLDER PAGE…`. They show what their traces have, without errors.
Screenshots are written to FOLDER. Exits with 77 where there is no Chromium."""

import json
import pathlib
import re
import sys

import browser

BLOCKS = re.compile(r'<script id="blocks" type="text/plain">(.*?)</script>', re.DOTALL)
TRACE = re.compile(r'(<script id="trace" type="application/json">)(.*?)(</script>)', re.DOTALL)


def boxes_of(trace):
    """For each process, by its order on the page: its lanes, each with its boxes of (begin, end, name)."""
    places, threads, lanes, flying = {}, {}, {}, {}
    for e in trace["traceEvents"]:
        args = e.get("args", {})
        if e["name"] == "process_name":
            places[e["pid"]] = (args["rank"], args["planned"])
        if e["name"] == "thread_name":
            threads[e["pid"], e["tid"]] = args["name"]
        lane = threads.get((e["pid"], e.get("tid")))
        if e["ph"] in "Xb" and "kind" in args and not args.get("waits"):
            lane = "over " + args["axes"]
        of_process = lanes.setdefault(e["pid"], {})
        if e["ph"] == "X":
            of_process.setdefault(lane, []).append((e["ts"], e["ts"] + e["dur"], e["name"]))
        if e["ph"] == "b":
            flying[e["id"]] = e["ts"], lane
        if e["ph"] == "e" and e["ts"] > flying[e["id"]][0]:
            begin, lane = flying[e["id"]]
            of_process.setdefault(lane, []).append((begin, e["ts"], e["name"]))
    return [lanes[pid] for pid in sorted(lanes, key=places.get)]


def check(page, file):
    """The page that is open, against the trace of its file."""
    trace = json.loads(TRACE.search(file.read_text(encoding="utf-8"))[2])
    expected = boxes_of(trace)

    # What is read: processes, lanes and boxes.
    strips = page.run("shown.map(p => p.strips.map(s => [s.name, s.draw === drawMemory, s.boxes.length]))")
    assert len(strips) == len(expected), (len(strips), len(expected))
    memory = {e["pid"] for e in trace["traceEvents"] if e["ph"] == "C" and sum(e["args"].values()) > 0}
    for found, lanes in zip(strips, expected):
        found_lanes, name = {}, ""
        for label, is_memory, count in found:
            if not is_memory:
                name = label or name
                found_lanes[name] = found_lanes.get(name, 0) + count
        if len(lanes) == 1 and not memory:
            assert list(found_lanes.values()) == [len(boxes) for boxes in lanes.values()], (found_lanes, lanes.keys())
        else:
            assert found_lanes == {lane: len(boxes) for lane, boxes in lanes.items()}, (found_lanes, lanes.keys())
        assert sum(is_memory for _, is_memory, _ in found) == (1 if memory else 0), found
    assert page.run("shown.every(p => p.strips.every(s => s.boxes.every((box, i) => i === 0 || "
                    "s.boxes[i - 1].end <= box.begin)))"), "boxes of a strip overlap"

    # What is drawn: a part of the time in which each box has a pixel has each box; and each has its color.
    assert page.run("document.querySelectorAll('canvas').length") == len(expected) + 1
    for i, lanes in enumerate(expected):
        page.run("shown.forEach((p, i) => p.section.open = i === %d)" % i)
        page.frame()
        drawn = page.run("Number(shown[%d].canvas.dataset.boxes)" % i)
        count = sum(map(len, lanes.values()))
        pixels = page.run("width") * len(strips[i])
        assert 0 < drawn <= min(count, pixels), (drawn, count)
        wide = page.run("shown[%d].strips.flatMap(s => s.draw === drawBoxes ? s.boxes : [])"
                        ".filter(b => xOf(b.end) - xOf(b.begin) >= 1).length" % i)
        assert drawn >= wide, (drawn, wide)
        if wide == count:
            assert drawn == count, (drawn, count)
        wrong = page.run("""(() => {
          const process = shown[%d], wrong = [], sample = document.createElement("canvas").getContext("2d");
          for (const strip of process.strips.filter(strip => strip.draw === drawBoxes)) {
            for (const box of [...strip.boxes].sort((a, b) => b.end - b.begin - a.end + a.begin).slice(0, 8)) {
              show(box.begin, box.end);
              drawAll();
              const middle = timeOf(gutter + width / 2), x = xOf(middle), y = strip.y + 1.5;
              const found = placeAt(process, x, y);
              if (found?.strip !== strip || found.box.begin > middle || found.box.end < middle) {
                wrong.push([box.name, "is not found"]);
                continue;
              }
              fill(sample, found.box.color, 0, 0, 1, 1);
              if (found.box.shaded) fill(sample, "shade", 0, 0, 1, 1);
              const [expected] = new Uint32Array(sample.getImageData(0, 0, 1, 1).data.buffer);
              const [drawn] = new Uint32Array(process.canvas.getContext("2d").getImageData(x, y, 1, 1).data.buffer);
              if (drawn !== expected) wrong.push([box.name, box.color, drawn.toString(16), expected.toString(16)]);
            }
          }
          show(all.begin, all.end);
          return wrong;
        })()""" % i)
        assert not wrong, wrong
    page.run("shown.forEach(p => p.section.open = true)")

    # The table has the sums of the trace.
    about = trace["otherData"]["about"]
    assert page.run("[...find('#lines').children].map(line => line.textContent)") == about
    assert page.run("document.title") == (about or ["Time and memory by rank"])[0]
    calls = [e for e in trace["traceEvents"] if "kind" in e.get("args", {})]
    assert page.run("find('#calls').hidden") == (not calls)
    if calls:
        first = page.run("shown[0].rank")
        pid = next(e["pid"] for e in trace["traceEvents"] if e["name"] == "process_name" and
                   e["args"]["rank"] == first and not e["args"]["planned"])
        own = [e["args"] for e in calls if e["pid"] == pid]
        rows = page.run("[...document.querySelectorAll('#calls tr')].map(row => [...row.cells].map(cell => cell.textContent))")
        by_key = {}
        for args in own:
            key = args["phase"], args["kind"], args["axes"]
            by_key[key] = by_key.get(key, 0) + (not args.get("waits"))
        counts = {tuple(row[:3]): 0 if row[3] == "only waits" else int(row[3]) for row in rows[1:-1]}
        assert counts == by_key, (rows, by_key)
        assert int(rows[-1][3]) == sum(by_key.values()), rows[-1]
        assert rows[-1][4] == page.run("bytesText(%d)" % sum(args["bytes"] for args in own)), rows[-1]
        assert page.run("find('#modules').hidden") != any("modules" in args for args in own)
        if any("modules" in args for args in own):
            by_module(page, own)
    blocks = BLOCKS.search(file.read_text(encoding="utf-8"))[1].replace("\\u003c", "<").split("\n\n")[:-1]
    assert page.run("[...document.querySelectorAll('#layouts table')].map(table => [...table.rows].map(row => "
                    "[...row.cells].map(cell => cell.textContent)))") == [
                        [re.split(" {3,}", line) for line in text.split("\n")[1:]] for text in blocks]
    assert page.run("find('#layouts').hidden") == (not blocks)


def by_module(page, own):
    """The table by modules has the sums of the trace."""
    calls, amounts = {}, {}
    for args in own:
        keys = set()
        for name, amount in args.get("modules", {"(none)": args["bytes"]}).items():
            key = args["phase"], re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", name) or "(model)"
            keys.add(key)
            amounts[key] = amounts.get(key, 0) + amount
        for key in keys:
            calls[key] = calls.get(key, 0) + (not args.get("waits"))
    page.run("find('#modules input').click()")
    rows = page.run("[...document.querySelectorAll('#calls tr')].map(row => [...row.cells].map(cell => cell.textContent))")
    page.run("find('#modules input').click()")
    assert {(row[0], row[1]): 0 if row[3] == "only waits" else int(row[3]) for row in rows[1:-1]} == calls, (rows, calls)
    for row in rows[1:-1]:
        assert row[4] == page.run("bytesText(%d)" % amounts[row[0], row[1]]), row
    assert rows[-1][4] == page.run("bytesText(%d)" % sum(args["bytes"] for args in own)), rows[-1]


def hover(page):
    """The details of a box of each lane, and of the memory."""
    for strip in range(page.run("shown[0].strips.length")):
        page.run("""{
          const {boxes} = shown[0].strips[%d], lasts = box => box.end - box.begin;
          globalThis.longest = boxes.reduce((a, b) => lasts(b) > lasts(a) ? b : a);
          show(longest.begin, longest.end);
        }""" % strip)
        page.frame()
        x, y = page.run("""(() => {
          const {left, top} = shown[0].canvas.getBoundingClientRect(), {y, height} = shown[0].strips[%d];
          return [left + xOf((longest.begin + longest.end) / 2), top + y + height / 2];
        })()""" % strip)
        page.mouse("Moved", x, y)
        tip = page.run("find('#tip').hidden ? '' : find('#tip').innerText").split("\n")
        box = page.run("({name: longest.name, args: longest.args, uses: longest.uses})")
        words = ["memory", "all uses", "from"] if box.get("uses") else [box["name"], "begins at", "lasts"]
        modules = (box.get("args") or {}).pop("modules", {})
        for name, part in modules.items():
            words += ["module", (name or "(model)") + (": " + page.run("bytesText(%d)" % part) if len(modules) > 1 else "")]
        for key, value in (box.get("args") or {}).items():
            if value not in ("", True) and (value != 0 or key == "micro_batch"):
                words.append(key.replace("_", " "))
                if not key.startswith(("bytes", "flops")):
                    words.append(str(value))
        for use, value in (box.get("uses") or {}).items():
            words += [use, page.run("bytesText(%d)" % value)] if value > 0 else []
        assert all(word in tip for word in words), (words, tip)


def use(page):
    """A mouse on the page that is open: zooming, moving."""
    page.run("show(all.begin, all.end), scrollTo(0, 0)")
    page.frame()
    place = page.run("""(() => {
      const strip = shown[0].strips[0], box = strip.boxes.reduce((a, b) => b.end - b.begin > a.end - a.begin ? b : a);
      const area = shown[0].canvas.getBoundingClientRect();
      return {x: area.left + xOf((box.begin + box.end) / 2), y: area.top + strip.y + strip.height / 2, name: box.name,
              begins: timeText(box.begin), lasts: timeText(box.end - box.begin), phase: box.args.phase};
    })()""")
    x, y = place["x"], place["y"]
    page.mouse("Moved", x, y)
    tip = page.run("find('#tip').hidden ? '' : find('#tip').innerText")
    for word in (place["name"], "phase", place["phase"], "begins at", place["begins"], "lasts", place["lasts"]):
        assert word in tip, (word, tip)
    assert page.run("""(() => {
      const {left, right, top, bottom} = find('#tip').getBoundingClientRect();
      return left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
    })()"""), "the details are outside the window"
    page.mouse("Moved", 2, 2)
    assert page.run("find('#tip').hidden")

    view = lambda: page.run("[view.begin, view.end, timeOf(%f - find('#axis').getBoundingClientRect().left)]" % x)
    begin, end, under = view()
    page.mouse("Wheel", x, y, deltaX=0, deltaY=-120, modifiers=2)
    zoomed = view()
    assert zoomed[1] - zoomed[0] < 0.8 * (end - begin), "Ctrl and the wheel do not zoom"
    assert abs(zoomed[2] - under) < 0.01 * (end - begin), "what is under the pointer moved"
    page.mouse("Moved", x, y)
    page.mouse("Pressed", x, y, button="left", clickCount=1)
    page.mouse("Moved", x + 40, y, button="left")
    page.mouse("Released", x + 40, y, button="left", clickCount=1)
    moved = view()
    width = page.run("width")
    expected = max(begin, zoomed[0] - 40 / width * (zoomed[1] - zoomed[0]))
    assert abs(moved[0] - expected) < 0.005 * (end - begin), (moved, zoomed, expected)
    assert abs((moved[1] - moved[0]) - (zoomed[1] - zoomed[0])) < 1e-6 * (end - begin)
    page.run("find('#all').click()")
    assert view()[:2] == [begin, end]
    page.run("find('#in').click()")
    inner = view()
    assert abs((inner[1] - inner[0]) - (end - begin) / 2) < 1e-6 * (end - begin)
    page.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight")
    assert view()[0] > inner[0]
    page.call("Input.dispatchKeyEvent", type="keyDown", key="0")
    assert view()[:2] == [begin, end]
    page.frame()
    page.mouse("Moved", x, y)
    for clicks in (1, 2):
        page.mouse("Pressed", x, y, button="left", clickCount=clicks)
        page.mouse("Released", x, y, button="left", clickCount=clicks)
    enlarged = view()
    length = 1.2 * page.run("hovered.box.end - hovered.box.begin")
    assert abs((enlarged[1] - enlarged[0]) - min(length, end - begin)) < 1e-6 * (end - begin), enlarged
    page.run("show(all.begin, all.end)")
    page.mouse("Moved", 2, 2)
    if not page.run("find('#plans').hidden"):
        for visible in (False, True):
            page.run("find('#plans input').click()")
            seen = page.run("shown.map(process => [process.planned, process.canvas.clientWidth > 0])")
            assert all(wide == (visible or not planned) for planned, wide in seen), seen


def main(folder, files):
    if browser.program() is None:
        print("skipped: no Chromium here")
        return 77
    folder.mkdir(parents=True, exist_ok=True)
    with browser.Browser() as page:
        for file in files:
            for dark in (False, True):
                for width in (1280, 420):
                    page.look(width, dark=dark)
                    page.open(file)
                    if not dark:
                        check(page, file)
                        hover(page)
                        use(page)
                    name = "%s-%d%s.png" % (file.stem, width, "-dark" if dark else "")
                    overflow = page.run("document.documentElement.scrollWidth - innerWidth")
                    assert overflow <= 0, "%s: %d pixels too wide" % (name, overflow)
                    page.picture(folder / name)
            assert not page.problems, (file, page.problems)
            print(file.name)
        # It can fail: an error of a page is seen.
        broken = folder / ("broken-" + files[0].name)
        broken.write_text(files[0].read_text(encoding="utf-8").replace("drawAxis();", "drawAxes();"), encoding="utf-8")
        page.open(broken)
        assert any("drawAxes" in problem for problem in page.problems), page.problems
        broken.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), [pathlib.Path(name) for name in sys.argv[2:]]))
