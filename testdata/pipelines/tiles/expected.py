#!/usr/bin/env python3
"""Draws, cuts and filters the same pictures; a stitched picture is the filtered whole."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from jsonl import Expected, file

SIDE, INK = 5, [255, 128, 0]
REQUESTS = ["ramp 16 12", "board 10 10", "rings 9 14", "ramp 0 0", "board 3 2"]


def pixel(kind, w, h, x, y):
    if kind == "ramp":
        return x * 255 // (w - 1)
    if kind == "board":
        return (x + y) % 2 * 255
    return ((2 * x - w + 1) ** 2 + (2 * y - h + 1) ** 2) * 7 % 256


def pgm(rows, w, h):
    return "".join(["P2\n", f"{w} {h}\n", "255\n"] + [" ".join(map(str, r)) + "\n" for r in rows]).encode()


def ink(rows):
    return [[INK[v * len(INK) // 256] for v in r] for r in rows]


with Expected(__file__) as e:
    for name in ("Request", "Picture", "Stitched"):
        e.entity(name, "image")
    for name in ("Tile", "Filtered"):
        e.entity(name, "image", "tile_no")
    e.entity("Contact", "row")
    e.entity("Curve")
    e.entity("Album")
    e.put("Curve", ",".join(map(str, INK)))
    album = []
    for i, request in enumerate(REQUESTS):
        kind, w, h = request.split()
        w, h = int(w), int(h)
        rows = [[pixel(kind, w, h, x, y) for x in range(w)] for y in range(h)]
        e.put("Request", request, i)
        e.put("Picture", file(f"picture{i}.pgm", pgm(rows, w, h)), i)
        corners = [(y, x) for y in range(0, h, SIDE) for x in range(0, w, SIDE)]
        for t, (y, x) in enumerate(corners):
            tile = [r[x:x + SIDE] for r in rows[y:y + SIDE]]
            tw, th = len(tile[0]), len(tile)
            e.put("Tile", file(f"y{y // SIDE:03d}x{x // SIDE:03d}.pgm", pgm(tile, tw, th)), i, t)
            e.put("Filtered", file("filtered", pgm(ink(tile), tw, th)), i, t)
        e.put("Stitched", file(f"stitched{i}.pgm", pgm(ink(rows), w, h)), i)
        contact = f"{w}x{h} {sum(map(sum, ink(rows)))}"
        e.put("Contact", contact, i)
        album.append(f"{request}: {contact}")
    e.put("Album", album)
