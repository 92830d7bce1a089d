"""A worker in Python: upper-cases the argument `word`.

One JSON line comes in for each job, one goes out: {"id", "value"}; of a task that
returns a list {"id", "values"}; of a job that fails {"id", "error", "retry"}. What
is dear, such as loading a model, is done once, before the loop. When standard
input ends, the worker does.
"""

import json
import sys

answers, sys.stdout = sys.stdout, sys.stderr  # print() goes to the log

for line in sys.stdin:
    job = json.loads(line)
    answer = {"id": job["id"]}
    try:
        answer["value"] = job["args"]["word"].upper()
    except Exception as error:
        answer.update(error=repr(error), retry=False)
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
