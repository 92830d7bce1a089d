#!/usr/bin/env python3
"""Nothing is compressed here: decoding must give the video back, so the sums are those of the video.

The bytes of a gzip stream depend on the version of gzip: expected/SKIP names the entities that hold them.
"""
import glob
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from jsonl import Expected, file

FRAMES = 20


def cksum(data):
    """The checksum of POSIX cksum: CRC-32, most significant bit first, over the bytes and their number."""
    crc, n, tail = 0, len(data), []
    while n:
        tail.append(n & 255)
        n >>= 8
    for byte in bytes(data) + bytes(tail):
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ 0x04C11DB7 if crc & 1 << 31 else crc << 1) & 0xFFFFFFFF
    return crc ^ 0xFFFFFFFF


with Expected(__file__) as e:
    for name in ("Video", "Probe", "Manifest"):
        e.entity(name, "v")
    e.entity("Segment", "v", "g")
    e.entity("Rendition", "v", "q")
    e.entity("Verdict", "v", "q")
    e.entity("Catalog")
    catalog = []
    for v, path in enumerate(sorted(glob.glob(e.path("data", "*.raw")))):
        name = os.path.basename(path)
        with open(path, "rb") as f:
            data = f.read()
        lines = data.splitlines(keepends=True)
        levels = [1, 6, 9] if len(lines) >= 60 else [1, 9] if len(lines) >= 30 else [6]
        sums = [f"{cksum(data)} {len(data)}"] * len(levels)
        e.put("Video", file(name, data), v)
        e.put("Probe", {"frames": len(lines)}, v)
        for g in range(0, len(lines), FRAMES):
            suffix = "a" + chr(97 + g // FRAMES)
            e.put("Segment", file(suffix, b"".join(lines[g:g + FRAMES])), v, g // FRAMES)
        for q, level in enumerate(levels):
            e.put("Rendition", level, v, q)
            e.put("Verdict", "same", v, q)
        e.put("Manifest", "\n".join(sums), v)
        catalog.append({"frames": len(lines), "levels": levels, "name": name, "sums": sums,
                        "verdicts": ["same"] * len(levels)})
    e.put("Catalog", catalog)
