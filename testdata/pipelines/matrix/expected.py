#!/usr/bin/env python3
"""The same by nested loops."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from jsonl import Expected

with Expected(__file__) as e:
    with open(e.path("data", "rows.txt")) as f:
        rows = f.read().splitlines()
    cols = [2, 3, 5, 7]
    m = [[int(row) * col + r for col in cols] for r, row in enumerate(rows)]
    t = [list(column) for column in zip(*m)]
    total = sum(map(sum, m))
    e.entity("Row", "r")
    e.entity("Col", "c")
    e.entity("Cell", "c", "r")
    e.entity("RowSum", "r")
    e.entity("ColSum", "c")
    e.entity("Share", "c", "r")
    e.entity("Largest", "c")
    for name in ("Total", "Whole", "Transposed", "Flat"):
        e.entity(name)
    for r, row in enumerate(rows):
        e.put("Row", row, r)
        e.put("RowSum", sum(m[r]), r)
    for c, col in enumerate(cols):
        e.put("Col", col, c)
        e.put("ColSum", sum(t[c]), c)
        e.put("Largest", max(sum(m[r]) * sum(t[c]) for r in range(len(rows))), c)
        for r in range(len(rows)):
            e.put("Cell", m[r][c], c, r)
            e.put("Share", [sum(m[r]) * sum(t[c]), total], c, r)
    e.put("Total", {"by_column": sum(map(sum, t)), "by_row": total})
    e.put("Whole", m)
    e.put("Transposed", t)
    e.put("Flat", " ".join(str(x) for line in m for x in line))
