"""Computes what the pipeline ends with, without the engine."""

import hashlib
import json
import os

here = os.path.dirname(os.path.abspath(__file__))
docs = [json.loads(line) for line in open(os.path.join(here, "data", "docs.jsonl"))]


def write(entity, rows):
    with open(os.path.join(here, "expected", entity + ".jsonl"), "w") as f:
        for coord, value in rows:
            row = {"entity": entity, "coord": coord, "value": value}
            f.write(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n")


paragraphs, summaries = [], []
for d, doc in enumerate(docs):
    pars = [p for p in doc["text"].split("\n\n") if p]
    answers = [None if "POISON" in p else len(p.split()) for p in pars]
    paragraphs += [({"doc": d, "par": n}, p) for n, p in enumerate(pars)]
    words = sum(a or 0 for a in answers) if answers else None
    summaries.append(({"doc": d}, {"asked": len(pars), "refused": answers.count(None), "words": words}))
write("Paragraph", paragraphs)
write("Summary", summaries)
write("Report", [({}, {
    "documents": len(docs),
    "asked": sum(s["asked"] for _, s in summaries),
    "refused": sum(s["refused"] for _, s in summaries),
    "words": sum(s["words"] or 0 for _, s in summaries),
})])
