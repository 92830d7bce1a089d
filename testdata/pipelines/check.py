#!/usr/bin/env python3
"""Runs the examples and holds what `operon get` prints against expected/.

    check.py [NAME...]        all examples, or the named ones; exit 1 if a value differs

OPERON_BIN names the binary (default: operon on the path); OPERON_JOBS is the -j (default 2). Each example is copied
to a temporary folder, so nothing is left here. Each is run a second time, which must execute nothing.
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# absolute, as each example runs in a folder of its own
OPERON = shutil.which(os.path.abspath(os.environ["OPERON_BIN"]) if "OPERON_BIN" in os.environ else "operon")
JOBS = os.environ.get("OPERON_JOBS", "2")
# splitter splits words into characters with grep: that needs a locale that knows UTF-8
ENV = dict(os.environ, LC_ALL="C.UTF-8")


def exact(line):
    """A line of JSON, comparable: objects without order, numbers as their digits."""
    return json.loads(line, parse_int=lambda s: ("number", s), parse_float=lambda s: ("number", s))


def operon(folder, *args):
    return subprocess.run([OPERON, *args], cwd=folder, env=ENV, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          check=True, text=True, encoding="utf-8").stdout


def run(folder, spec):
    return json.loads(operon(folder, "run", "-j", JOBS, "--ui", "quiet", "--json", spec))


def faults(name, folder):
    spec = name + ".yaml"
    first = run(folder, spec)
    if first["state"] != "complete":
        yield f"state {first['state']}"
    again = run(folder, spec)
    if again["executed"]:
        yield f"a second run executed {again['executed']} jobs"
    for path in sorted(glob.glob(os.path.join(folder, "expected", "*.jsonl"))):
        entity = os.path.basename(path)[:-len(".jsonl")]
        with open(path, encoding="utf-8") as f:
            want = f.read().split("\n")[:-1]
        got = operon(folder, "get", "--json", spec, entity).split("\n")[:-1]
        if len(got) != len(want):
            yield f"{entity}: {len(got)} values, not {len(want)}"
        for g, w in zip(got, want):
            if exact(g) != exact(w):
                yield f"{entity}:\n  got  {g[:400]}\n  want {w[:400]}"
                break


def main(names):
    if OPERON is None:
        sys.exit("check.py: no operon: set OPERON_BIN to the binary")
    scripts = glob.glob(os.path.join(HERE, "*", "expected.py"))
    names = names or sorted(os.path.basename(os.path.dirname(p)) for p in scripts)
    bad = False
    for name in names:
        with tempfile.TemporaryDirectory(prefix="operon-example-") as tmp:
            folder = os.path.join(tmp, name)
            shutil.copytree(os.path.join(HERE, name), folder, ignore=shutil.ignore_patterns(".operon"))
            start = time.monotonic()
            try:
                found = list(faults(name, folder))
            except subprocess.CalledProcessError as err:
                found = [f"{' '.join(err.cmd[1:])}: exit {err.returncode}"]
            took = time.monotonic() - start
            print("\n  ".join([f"{'FAIL' if found else 'ok  '} {name} {took:.1f} s", *found]))
            bad = bad or bool(found)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
