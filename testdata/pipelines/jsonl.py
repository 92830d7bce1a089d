"""What the expected.py of each example shares: the lines of `operon get FILE ENTITY --json`.

The generators know nothing of operon: they compute the values with plain loops and write
expected/<Entity>.jsonl beside themselves, one compact line a value, in coordinate order.
"""
import hashlib
import json
import os


def compact(value):
    """JSON without spaces, text as UTF-8; numbers of Python are written as jq writes them."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def number(x):
    """A float that is whole reads as an integer in jq (4.0 is 4)."""
    return int(x) if x == int(x) else x


def file(name, data):
    """How a file value reads as JSON."""
    return {"file": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


class Expected:
    """Collects the values of one example and writes them: with Expected(__file__) as e: e.put(...)."""

    def __init__(self, script):
        self.here = os.path.dirname(os.path.abspath(script))
        self.rows = {}
        self.dims = {}

    def path(self, *parts):
        return os.path.join(self.here, *parts)

    def entity(self, name, *dims):
        """Declares an entity with its dimensions in canonical order (fewer dependencies first, then by name)."""
        self.dims[name] = dims
        self.rows[name] = []

    def put(self, name, value, *coord):
        """Records the value at a coordinate, whose indices follow the order of the declaration."""
        assert len(coord) == len(self.dims[name]), (name, coord)
        self.rows[name].append((coord, value))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            return
        out = self.path("expected")
        os.makedirs(out, exist_ok=True)
        for old in os.listdir(out):
            if old.endswith(".jsonl"):
                os.remove(os.path.join(out, old))
        for name, rows in self.rows.items():
            rows.sort(key=lambda r: r[0])
            assert len({c for c, _ in rows}) == len(rows), name
            with open(os.path.join(out, name + ".jsonl"), "w", encoding="utf-8", newline="\n") as f:
                for coord, value in rows:
                    at = dict(zip(self.dims[name], coord))
                    f.write(compact({"entity": name, "coord": at, "value": value}) + "\n")
