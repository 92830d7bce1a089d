"""A model that is none: the answer follows from the question.

It speaks the worker protocol: a JSON object a line in, one a line out. Every
seventh question is met with "too many requests" the first time, and one that
says POISON is refused for good. Each answer is counted in the file CALLS, if
that is set.
"""

import hashlib
import json
import os
import sys

busy = set()
for line in sys.stdin:
    job = json.loads(line)
    text = job["args"]["paragraph"]
    digest = hashlib.sha256(text.encode()).hexdigest()
    if "POISON" in text:
        answer = {"error": "refused: not a question", "retry": False}
    elif int(digest, 16) % 7 == 0 and digest not in busy:
        busy.add(digest)
        answer = {"error": "429 too many requests", "retry": True, "retry_after": 0.01}
    else:
        answer = {"value": {"answer": digest[:12], "words": len(text.split())}}
        if os.environ.get("CALLS"):
            with open(os.environ["CALLS"], "a") as calls:
                calls.write(digest + "\n")
    print(json.dumps({"id": job["id"], **answer}), flush=True)
