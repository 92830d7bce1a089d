#!/usr/bin/env python3
"""The same generator (x * 16807 mod 2^31 - 1) in Python integers."""
import csv
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from jsonl import Expected

DARTS, FIRST_SEED = 100, 20250


def simulate(radius, seed):
    x, hits = seed, 0

    def draw():
        nonlocal x
        x = x * 16807 % 2147483647
        return x % 1000

    for _ in range(10):
        draw()
    for _ in range(DARTS):
        a, b = draw(), draw()
        hits += a * a + b * b < radius * radius
    return hits


with Expected(__file__) as e:
    e.entity("Setting", "p")
    e.entity("Radius", "p")
    e.entity("Batch", "p", "b")
    e.entity("Estimate", "p", "b")
    e.entity("Pooled", "p")
    e.entity("Table")
    lines = []
    with open(e.path("data", "settings.csv"), newline="") as f:
        rows = list(csv.DictReader(f))
    for p, row in enumerate(rows):
        radius, batches = int(row["radius"]), int(row["batches"])
        e.put("Setting", row, p)
        e.put("Radius", radius, p)
        hits = []
        for b in range(batches):
            seed = FIRST_SEED + 1000 * p + b
            hits.append(simulate(radius, seed))
            e.put("Batch", seed, p, b)
            e.put("Estimate", {"darts": DARTS, "hits": hits[b]}, p, b)
        darts = DARTS * batches
        e.put("Pooled", {"batches": batches, "darts": darts, "hits": sum(hits),
                         "least": min(hits, default=None), "most": max(hits, default=None)}, p)
        lines.append(f"{row['name']} {sum(hits)}/{darts}" + (f" {sum(hits) * 1000000 // darts} ppm" if darts else ""))
    e.put("Table", "\n".join(lines))
