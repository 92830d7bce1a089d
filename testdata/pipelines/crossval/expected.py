#!/usr/bin/env python3
"""The same by loops over settings and folds."""
import csv
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from jsonl import Expected

FOLDS = 4


def fit(points, cfg):
    at = [(p["x"] ** cfg["degree"], p["y"]) for p in points]
    n, sx, sy = len(at), sum(x for x, _ in at), sum(y for _, y in at)
    sxx, sxy = sum(x * x for x, _ in at), sum(x * y for x, y in at)
    return {"down": n * sxx - sx * sx + n * n * cfg["ridge"], "n": n, "sx": sx, "sy": sy, "up": n * sxy - sx * sy}


def errors(model, points, cfg):
    n, down = model["n"], model["down"]
    total = 0
    for p in points:
        guess = (model["sy"] * down + model["up"] * (n * p["x"] ** cfg["degree"] - model["sx"])) // (n * down)
        total += (guess - p["y"]) ** 2
    return total


with Expected(__file__) as e:
    with open(e.path("data", "points.csv"), newline="") as f:
        rows = list(csv.DictReader(f))
    data = [{"x": int(r["x"]), "y": int(r["y"])} for r in rows]
    grid = [{"degree": d, "ridge": r} for d in (1, 2) for r in (4, 64, 1024)]
    folds = [{"test": [p for i, p in enumerate(data) if i % FOLDS == f],
              "train": [p for i, p in enumerate(data) if i % FOLDS != f]} for f in range(FOLDS)]

    e.entity("Point", "p")
    e.entity("Data")
    e.entity("Cfg", "c")
    e.entity("Fold", "f")
    e.entity("Model", "c", "f")
    e.entity("Score", "c", "f")
    e.entity("Loss", "c")
    e.entity("Best")
    e.entity("Inner", "g")
    e.entity("InnerModel", "f", "g")
    e.entity("InnerScore", "f", "g")
    e.entity("InnerLoss", "g")
    e.entity("Report")
    for i, row in enumerate(rows):
        e.put("Point", row, i)
    e.put("Data", data)
    for f, fold in enumerate(folds):
        e.put("Fold", fold, f)
    loss = []
    for c, cfg in enumerate(grid):
        e.put("Cfg", cfg, c)
        loss.append(0)
        for f, fold in enumerate(folds):
            model = fit(fold["train"], cfg)
            score = errors(model, fold["test"], cfg)
            e.put("Model", model, c, f)
            e.put("Score", score, c, f)
            loss[c] += score
        e.put("Loss", loss[c], c)
    best = loss.index(min(loss))
    e.put("Best", {"cfg": grid[best], "loss": loss[best]})
    lines = [f"first sweep: {' '.join(map(str, loss))}; best {loss[best]}"]
    ridge, degree = grid[best]["ridge"], grid[best]["degree"]
    for g, r in enumerate(sorted({ridge // 2, ridge, ridge * 2, ridge + 1})):
        cfg = {"degree": degree, "ridge": r}
        e.put("Inner", cfg, g)
        inner = 0
        for f, fold in enumerate(folds):
            model = fit(fold["train"], cfg)
            score = errors(model, fold["test"], cfg)
            e.put("InnerModel", model, f, g)
            e.put("InnerScore", score, f, g)
            inner += score
        e.put("InnerLoss", inner, g)
        lines.append(f"degree {degree} ridge {r}: {inner}")
    e.put("Report", "\n".join(lines))
