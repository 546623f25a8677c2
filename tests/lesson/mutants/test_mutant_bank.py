"""The bank: mutants are killed, those that are not are listed and proved; processes that hang or crash are no harm."""

import json
import os
import signal
import sys
import time
from collections import Counter

import pytest

from andrea_lab.cli import main
from andrea_lab.lesson import mutants as m
from andrea_lab.lesson.mutants.equivalents import MOST
from andrea_lab.lesson.mutants.judge import Verdict
from tests.imports import ROOT

SAMPLE = 100  # mutants of an ordinary test run
SEED = 0


def left_over(mutants, jobs):
    """Those that nothing kills and that are on no list, and those killed though they are on it."""
    verdicts = m.run(mutants, jobs)
    return [str(mutant) for mutant, verdict in verdicts.items() if verdict.killed == (m.reason(mutant) is not None)]


def test_a_sample_of_the_bank_is_killed():
    assert left_over(m.sample(m.bank(), SAMPLE, SEED), jobs=1) == []


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_the_whole_bank_is_killed():
    assert left_over(m.bank(), jobs=2) == []


def test_equivalents_are_few_and_in_no_class_that_matters():
    everything = {mutant.key for mutant in m.bank()}
    assert set(m.EQUIVALENTS) <= everything, set(m.EQUIVALENTS) - everything
    assert len(m.EQUIVALENTS) <= MOST * len(everything)
    assert not [key for key in m.EQUIVALENTS if key[1] in m.NEVER]
    assert all(len(why) > 20 and why.endswith(".") for why in m.EQUIVALENTS.values())


def test_the_table_of_the_readme_is_of_this_bank():
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n`andrea mutants`\n")[1].split("\n## ")[0]
    rows = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in section.splitlines() if line[:1] == "|"]
    told = {row[0]: [int(cell.replace(",", "")) for cell in row[1:]] for row in rows[2:]}
    everything = m.bank()
    made, equal = Counter(x.key[1] for x in everything), Counter(key[1] for key in m.EQUIVALENTS)
    counts = {name: [n, n - equal[name], equal[name]] for name, n in made.items()}
    assert told == counts | {"all": [sum(column) for column in zip(*counts.values(), strict=True)]}


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_every_equivalent_is_proved():
    listed = [mutant for mutant in m.bank() if m.reason(mutant) is not None]
    told_apart = {str(mutant): what for mutant in listed if (what := m.prove(mutant))}
    assert not told_apart


def test_a_proof_fails_for_what_is_not_equivalent():
    wrong = next(x for x in m.bank("k_residual_add", "term") if x.what == "a[i] + b[i] as a[i]")
    assert m.prove(wrong, inputs=3).startswith("traffic in k_residual_add")


# ---------------------------------------------------------------- processes


def test_a_process_that_crashes_is_replaced():
    assert m.run([3, 4], jobs=1, work=os._exit) == {3: Verdict(False, "crash"), 4: Verdict(False, "crash")}


def test_it_works_beside_ipythons_stand_in_for_main(monkeypatch):
    class Main:
        pass

    monkeypatch.setitem(sys.modules, "__main__", Main())
    assert m.run([2], jobs=1, work=abs) == {2: 2}


def test_a_process_that_hangs_is_stopped():
    start = time.monotonic()
    assert m.run([60], work=time.sleep, seconds=0.5) == {60: Verdict(False, "time")}
    assert time.monotonic() - start < 30


def hit(number):
    """What Ctrl-C does to a process, and then its work."""
    os.kill(os.getpid(), number)
    time.sleep(0.1)
    return "judged"


def test_ctrl_c_is_for_the_process_that_was_asked_alone():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert m.run([signal.SIGINT], jobs=1, work=hit) == {signal.SIGINT: "judged"}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_verdicts_come_in_order_and_each_is_told():
    told = Counter()
    found = m.run([-5, 4, -3], jobs=2, work=abs, on_verdict=lambda item, verdict: told.update([item]))
    assert list(found.items()) == [(-5, 5), (4, 4), (-3, 3)] and told == Counter([-5, 4, -3])


def test_a_sample_is_drawn_from_the_seed():
    everything = m.bank("k_layernorm_fwd")
    first, again, other = (m.sample(everything, 10, seed) for seed in (1, 1, 2))
    assert first == again != other and len(set(first)) == 10 and len(m.sample(everything, 10**6, 0)) == len(everything)


# ---------------------------------------------------------------- andrea mutants


def test_the_command_counts_for_scripts(capsys):
    assert main(["mutants", "--kernel", "k_residual_add_bwd", "--jobs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["classes"]) == set(m.CLASSES)
    assert found["classes"]["accumulate"] == {"total": 2, "killed": 2, "equivalent": 0}
    assert found["overall"]["total"] == found["overall"]["killed"] == len(m.bank("k_residual_add_bwd"))
    assert found["survivors"] == []


def test_the_command_shows_a_table(capsys):
    assert main(["mutants", "--kernel", "k_zero_grads", "--class", "guard", "--jobs", "1"]) == 0
    out = capsys.readouterr().out
    assert "left over" in out and "guard" in out and "barrier" not in out


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [("--kernel", "k_nothing", "found 'k_nothing', expected one of"), ("--class", "luck", "expected one of barrier")],
)
def test_the_command_refuses_what_is_not_there(capsys, flag, value, said):
    assert main(["mutants", flag, value]) == 2
    assert said in capsys.readouterr().err
