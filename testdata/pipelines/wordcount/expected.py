#!/usr/bin/env python3
"""Cuts each text at every eighth line and counts words with a loop."""
import glob
import os
import re
import sys
from collections import Counter

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from jsonl import Expected, file


def table(count):
    return b"".join(b"%s\t%d\n" % (w, count[w]) for w in sorted(count))


def words(data):
    return Counter(w.lower() for w in re.findall(rb"[A-Za-z]+", data))


with Expected(__file__) as e:
    e.entity("File", "doc")
    e.entity("Chunk", "doc", "chunk_no")
    e.entity("Part", "doc", "chunk_no")
    e.entity("PerFile", "doc")
    e.entity("Size", "doc")
    for name in ("Total", "Top", "Summary"):
        e.entity(name)
    total, summary = Counter(), []
    for d, path in enumerate(sorted(glob.glob(e.path("data", "*.txt")))):
        name = os.path.basename(path)
        with open(path, "rb") as f:
            data = f.read()
        e.put("File", file(name, data), d)
        lines = data.splitlines(keepends=True)
        for c in range(0, len(lines), 8):
            chunk, k = b"".join(lines[c:c + 8]), c // 8
            suffix = "".join(chr(97 + k // 26 ** p % 26) for p in (2, 1, 0))
            e.put("Chunk", file("lines." + suffix, chunk), d, k)
            e.put("Part", file("part.tsv", table(words(chunk))), d, k)
        count = words(data)
        e.put("PerFile", file("words.tsv", table(count)), d)
        e.put("Size", {"distinct": len(count), "words": sum(count.values())}, d)
        summary.append(f"{name}: {sum(count.values())}")
        total += count
    e.put("Total", file("total.tsv", table(total)))
    top = sorted(total.items(), key=lambda t: (-t[1], t[0]))[:10]
    e.put("Top", "\n".join(f"{w.decode()}\t{n}" for w, n in top))
    e.put("Summary", ", ".join(summary))
