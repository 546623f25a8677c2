"""The process in which a learner's kernel runs compiled: `python -m andrea_lab.lesson.child`, see `limits`."""

from __future__ import annotations

from typing import Any

from andrea_lab.lesson import judge, limits, origin
from kernels.target import KernelError, use


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """Run the kernel on the cases named; {} if all is right, else the label of a case and what was wrong there."""
    name, labels, seed = message["name"], message["labels"], message["seed"]
    kernel = origin.unpacked(message["kernel"])
    task = judge.task_of(name)
    with use("cpu"):
        for case in task.cases(seed):
            if case.label not in labels:
                continue
            found = judge.arguments(case)
            grid, block = task.launch(case)
            try:
                kernel[grid, block](*found)
            except KernelError as error:
                return {"label": case.label, "refused": str(error)}
            wrong = case.wrong(found)
            if wrong is not None:
                return {"label": case.label, "wrong": wrong.what}
    return {}


if __name__ == "__main__":
    limits.serve(answer)
