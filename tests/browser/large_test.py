# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""A page of 8 ranks of 20,000 events each is drawn fluidly: `large_test.py FOLDER PAGE`, with the trace of PAGE replaced.
Exits with 77 where there is no Chromium."""

import json
import pathlib
import sys
import time

import browser


def trace():
    events = []
    kinds = ("all_gather", "reduce_scatter", "all_reduce")
    for rank in range(8):
        def add(ph, name, args, **more):
            events.append({"ph": ph, "name": name, "args": args, "pid": rank, "tid": 0, **more})
        add("M", "process_name", {"name": "rank %d" % rank, "rank": rank, "planned": False})
        add("M", "thread_name", {"name": "computes"})
        for i in range(20000):
            args = {"unit": "layers.%d" % (i // 200), "phase": "forward" if i < 8000 else "backward"}
            if i % 3:
                args.update(flops=1000 + i)
            else:
                args.update(kind=kinds[i % 7 % 3], axes="dp" if i % 2 else "tp", bytes=100 + i)
            add("X", "compute", args, ts=i * 10.0, dur=2.0 + i % 7)
            add("C", "memory", {"parameters": 10 ** 9, "activations": i * 10 ** 5}, ts=i * 10.0)
    return json.dumps({"traceEvents": events})


def main(folder, page):
    if browser.program() is None:
        print("skipped: no Chromium here")
        return 77
    folder.mkdir(parents=True, exist_ok=True)
    before, rest = page.read_text(encoding="utf-8").split('<script id="trace" type="application/json">')
    file = folder / "large.html"
    file.write_text(before + '<script id="trace" type="application/json">' + trace() + rest[rest.index("</script>"):],
                    encoding="utf-8")
    with browser.Browser() as page:
        page.look(1280)
        begin = time.monotonic()
        page.open(file)
        opened = time.monotonic() - begin
        boxes = page.run("shown.map(p => p.strips.reduce((sum, strip) => sum + strip.boxes.length, 0))")
        assert boxes == 8 * [40000], boxes  # as many are samples of the memory
        page.picture(folder / "large.png")
        page.look(1280)
        drawn = page.run("""(() => {
          const steps = 20, begin = performance.now();
          for (let i = 0; i < steps; ++i) zoom(0.7), drawAll();
          return (performance.now() - begin) / steps;
        })()""")
        assert not page.problems, page.problems
    file.unlink()
    print("opened in %.1f s, drawn in %.1f ms" % (opened, drawn))
    assert drawn < 250, drawn  # on a busy machine; 15 on an idle one
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])))
