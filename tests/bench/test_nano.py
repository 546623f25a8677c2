"""`bench nano` on three steps of a tiny model."""

import json

from andrea_lab.bench import nano
from andrea_lab.model.config import parse
from andrea_lab.text import sources


def test_a_short_run():
    model = {"vocab": 257, "context": 16, "width": 64, "heads": 2, "layers": 1}
    config = parse({"name": "tiny", "model": model, "train": {"batch": 2, "context": 16, "steps": 200}}, "test")
    told = []
    result = nano.run(threads=1, config=config, quick=True, progress=told.append)
    json.dumps(result, allow_nan=False)
    assert result["steps"] == 3 and result["seconds"] > 0 and result["steps_per_s"] > 0
    assert list(result["held_out"]) == list(sources())
    assert 4.0 < result["held_out_mean"] < 6.0  # ln 257 = 5.55, hardly moved in three steps
    assert told[-1].startswith("step 3 of 3, loss ")
    assert "| steps | 3 |" in nano.figures(result).markdown()
    assert nano.figures(result).rich().row_count == 5 + len(result["held_out"])
