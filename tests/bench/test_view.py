"""`bench view` on a tiny run: what it times is proved right first, and its aims are judged as stated."""

import json
from dataclasses import replace

import pytest

from andrea_lab.bench import view
from andrea_lab.bench.server import BenchError
from andrea_lab.cli import main
from andrea_lab.engine import engine as engine_module
from andrea_lab.view import LossView
from tests.engine.tiny import RandomBatches, config


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(engine_module, "Batches", lambda cfg: RandomBatches(sources=("a", "b")))
    return lambda **options: view.run(config=config(), quick=True, **options)


def test_every_line_is_measured(run):
    told = []
    result = run(progress=told.append)
    json.dumps(result, allow_nan=False)
    units, aims = ["ms", "%", "bytes", "ms", "MiB", "s", "ms"], [1.01, 1.0, 4096, None, 2.0, 1.0, 500]
    drawn = len(result["lines"]) == len(units)
    assert drawn == (result["missing"] is None)
    assert [line["unit"] for line in result["lines"]] == units[: len(result["lines"])]
    assert [line["aim"] for line in result["lines"]] == aims[: len(result["lines"])]
    assert told[0] == "compile" and "open a log of 2,000 lines" in told
    step, share, update, taken, _, opened = result["lines"][:6]
    if drawn:
        assert told[-1] == "redraw 2,000 steps in a browser" and result["lines"][6]["points"] > 1000
    for line in (step, opened):
        assert line["value"] > 0 and line["beside"] > 0 and line["ratio_min"] <= line["ratio"] <= line["ratio_max"]
    assert 0 <= share["value"] < 100 and 400 < update["value"] < 4096 and taken["value"] > 0
    assert view.figures(result).rich().row_count == len(result["lines"])
    assert (
        "| an update of one step |" in view.figures(result).markdown()
        and "a quick run" in view.figures(result).markdown()
    )


def test_a_view_that_shows_something_else_is_not_timed(run, monkeypatch):
    monkeypatch.setattr(LossView, "history", [1])
    with pytest.raises(BenchError, match="^view: found 1 steps, expected 5$"):
        run()


@pytest.mark.parametrize("view_open", [True, False])
def test_ctrl_c_ends_it_in_the_middle_of_a_run(run, monkeypatch, view_open):
    real, trained = view.loop.train, []

    def train(config, folder, **options):
        trained.append(real(config, folder, **options))
        if len(trained) == 1 + view_open:  # the first, which compiles, is not watched
            trained[-1] = replace(trained[-1], outcome="interrupted")
        return trained[-1]

    monkeypatch.setattr(view.loop, "train", train)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert len(trained) == 1 + view_open


def test_an_aim_is_met_by_the_median():
    assert view._row("MiB", [0.5, 1.0, 9.0], 1.0) == {"value": 1.0, "unit": "MiB", "aim": 1.0, "met": True}
    assert not view._row("MiB", [0.5, 1.1, 9.0], 1.0)["met"] and view._row("ms", [1.0], None)["met"] is None


def test_the_command_hands_on_its_options(monkeypatch, capsys):
    asked = {}

    def noted(*, progress, **options):
        asked.update(options)
        return {"bench": "view"}

    monkeypatch.setattr(view, "run", noted)
    assert main(["bench", "view", "--quick", "--json"]) == 0
    assert asked == {"quick": True} and json.loads(capsys.readouterr().out) == {"bench": "view"}
