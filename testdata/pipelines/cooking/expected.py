#!/usr/bin/env python3
"""The same by nested loops."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from jsonl import Expected

with Expected(__file__) as e:
    e.entity("A", "i")
    e.entity("B", "i", "j")
    e.entity("C", "i", "k")
    e.entity("D", "i", "j", "k")
    e.entity("E", "i", "k")
    e.entity("F", "i")
    e.entity("Menu")
    menu = []
    for i in range(12):
        bs = [10 * i + j for j in range((3 * i + 1) % 4)]
        cs = [f"c{i}.{left}" for left in range((i + 2) % 3, 0, -1)]
        es = []
        e.put("A", i, i)
        for j, b in enumerate(bs):
            e.put("B", b, i, j)
            for k, c in enumerate(cs):
                e.put("D", f"{i}/{b}/{c}", i, j, k)
        for k, c in enumerate(cs):
            e.put("C", c, i, k)
            es.append({"b": sum(bs), "d": " ".join(f"{i}/{b}/{c}" for b in bs), "k": k})
            e.put("E", es[-1], i, k)
        e.put("F", {"c_k": cs, "e_k": es}, i)
        menu.append(f"{len(cs)}:{sum(x['b'] for x in es) if es else '-'}")
    e.put("Menu", " ".join(menu))
