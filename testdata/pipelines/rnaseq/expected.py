#!/usr/bin/env python3
"""One nested loop over samples, lanes and regions."""
import csv
import glob
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from jsonl import Expected, file

with Expected(__file__) as e:
    with open(e.path("data", "genome.txt"), "rb") as f:
        text = f.read()
    genome = [line.split() for line in text.decode().splitlines()]
    with open(e.path("data", "samples.csv"), newline="") as f:
        samples = list(csv.DictReader(f))

    for name in ("Sample", "Id", "Merged", "Profile"):
        e.entity(name, "s")
    for name in ("Lane", "Trimmed", "Aligned"):
        e.entity(name, "s", "l")
    e.entity("Call", "r", "s")
    e.entity("Region", "r")
    e.entity("Joint", "r")
    e.entity("Final", "row")
    for name in ("Genome", "Quality", "Conditions"):
        e.entity(name)

    e.put("Genome", file("genome.txt", text))
    quality, calls = [], []
    for s, sample in enumerate(samples):
        e.put("Sample", sample, s)
        e.put("Id", sample["id"], s)
        mapped, size, count = [], 0, 0
        for l, path in enumerate(sorted(glob.glob(e.path("data", "lanes", sample["id"] + "_L*.txt")))):
            with open(path, "rb") as f:
                data = f.read()
            reads = [x for x in (r.rstrip("N") for r in data.decode().split()) if len(x) >= 8]
            trimmed = "".join(r + "\n" for r in reads).encode()
            hits = [next(((n, b.index(r) + 1) for n, b in genome if r in b), ("unmapped", 0)) for r in reads]
            e.put("Lane", file(os.path.basename(path), data), s, l)
            e.put("Trimmed", file("trimmed", trimmed), s, l)
            e.put("Aligned", file("aligned", "".join(f"{n} {at}\n" for n, at in hits).encode()), s, l)
            mapped += hits
            size += len(trimmed)
            count += 1
        e.put("Merged", file("merged.txt", "".join(f"{n} {at}\n" for n, at in sorted(mapped)).encode()), s)
        calls.append([])
        for r, (region, _) in enumerate(genome):
            found = [at for n, at in mapped if n == region]
            calls[s].append({"reads": len(found), "sites": len(set(found))})
            e.put("Call", calls[s][r], r, s)
        profile = [c["reads"] for c in calls[s]]
        e.put("Profile", profile, s)
        quality.append({"bytes": size, "id": sample["id"], "lanes": count, "mapped": sum(profile),
                        "note": sample["note"]})
    e.put("Quality", quality)
    for r, (region, _) in enumerate(genome):
        each = " ".join(f"{x['id']}={calls[s][r]['reads']}/{calls[s][r]['sites']}" for s, x in enumerate(samples))
        e.put("Region", region, r)
        e.put("Joint", f"{region}: {each}", r)
        e.put("Final", f"{region}: {each}", r)
    reads = {}
    for s, sample in enumerate(samples):
        for c in calls[s]:
            reads[sample["condition"]] = reads.get(sample["condition"], 0) + c["reads"]
    e.put("Conditions", [{"condition": c, "reads": reads[c]} for c in sorted(reads)])
