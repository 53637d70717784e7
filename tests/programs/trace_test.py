# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

"""What `shardwise-train --trace` has written: `trace_test.py FILE RANKS`."""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    events = json.load(file)["traceEvents"]
ranks = int(sys.argv[2])

names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
assert sorted(names) == list(range(2 * ranks)), names
for rank in range(ranks):
    assert names[rank] == "rank %d" % rank, names
    assert names[ranks + rank].startswith("plan (modelled: "), names

places = {e["pid"]: (e["args"]["rank"], e["args"]["planned"]) for e in events if e["name"] == "process_name"}
assert places == {p: (p % ranks, p >= ranks) for p in range(2 * ranks)}, places
for event in events:
    if " over " in event["name"] and event["ph"] in "Xib":
        args = event["args"]
        assert event["name"].endswith("%s over %s" % (args["kind"], args["axes"])), event
        assert args.get("waits", False) == event["name"].startswith("wait for "), event

def amounts(process):
    """Bytes by kind, and flops, of a process."""
    sums = {}
    for event in events:
        if event["pid"] == process and event["ph"] in "Xib" and "unit" in event["args"]:
            for amount in ("flops", "bytes"):
                key = (event["name"], event["args"]["phase"], event["args"]["unit"], amount)
                sums[key] = sums.get(key, 0) + event["args"].get(amount, 0)
    return sums

for rank in range(ranks):
    recorded, planned = amounts(rank), amounts(ranks + rank)
    assert recorded == planned, (recorded, planned)
    assert {unit for _, _, unit, _ in recorded} == {"", "tokens", "layers.0", "layers.1", "head"}, recorded
    lasts = [sum(e["dur"] for e in events if e["pid"] == p and e["ph"] == "X" and "flops" in e["args"])
             for p in (rank, ranks + rank)]
    assert lasts[0] > 0 and lasts[1] <= lasts[0] * 1.01, lasts
