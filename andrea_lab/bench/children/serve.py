"""The child's side of a measurement: one JSON object a line on standard input, one answer a line on standard output.

Standard library only: a peer's interpreter runs this file too, and it need not have anything of ours installed.
A request {"do": name, ...} calls handlers[name](**rest) and is answered by the dict that returns, or by
{"error": "one line"}. Before it answers, a handler may `report` how far it is. Whatever libraries print goes to
standard error, so it can not spoil an answer.
"""

import json
import os
import sys

_answers = None


def _send(answer):
    _answers.write(json.dumps(answer) + "\n")
    _answers.flush()


def report(text):
    """Tell the parent how far the work is; not an answer."""
    _send({"progress": text})


def serve(handlers):
    """Answer requests until {"do": "close"} or the end of the input."""
    global _answers
    _answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        name = request.pop("do")
        if name == "close":
            break
        try:
            if name not in handlers:
                raise ValueError(f"request: found {name!r}, expected one of {', '.join(handlers)}")
            answer = handlers[name](**request) or {}
        except Exception as error:  # whatever it is, the parent must hear of it
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        _send(answer)


def peak_mib():
    """The largest resident size of this process so far, MiB; None where the system does not tell."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return None
