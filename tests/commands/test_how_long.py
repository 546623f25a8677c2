"""How long a run of the published length takes, by the meter of the command line and the published configuration."""

import re
from pathlib import Path

import pytest

from andrea_lab.commands.progress import Meter
from andrea_lab.model.config import TrainConfig, load_config

EXPERIMENTS = Path(__file__).parents[2] / "data" / "experiments"
LARGE = load_config("ANDREA-120M", EXPERIMENTS).train


def minutes(steps: int, a_minute: float) -> int:
    """What the meter says is left at the start of so many steps."""
    tokens = LARGE.batch * LARGE.context
    line = Meter(steps).add({"step": 0, "loss": 9.0, "tokens": tokens, "ms": 60_000 / a_minute})
    return int(re.search(r"(\d+) min left$", line)[1])


def test_the_published_run_is_23_days_at_six_steps_a_minute_and_15_at_nine():
    """One text of the course says 23 days, its title 16: the same 200,000 steps at two speeds."""
    assert LARGE.steps == 200_000
    assert minutes(LARGE.steps, 6) / 60 / 24 == pytest.approx(23.1, abs=0.05)
    assert minutes(LARGE.steps, 9) / 60 / 24 == pytest.approx(15.4, abs=0.05)


def test_a_file_every_100_steps_is_one_every_17_minutes_and_27000_steps_are_three_days():
    for name in ("ANDREA-12M", "ANDREA-120M", "ANDREA-480M"):
        assert load_config(name, EXPERIMENTS).train.save_every == 100
    assert TrainConfig.model_fields["save_every"].default == 100
    assert minutes(LARGE.save_every, 6) == 17
    assert minutes(27_000, 6) / 60 / 24 == pytest.approx(3.1, abs=0.05), "what a run without files lost to one error"
