"""The sample log: every text survives, a repeated sample adds nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andrea_lab.run import lines, samples
from andrea_lab.run.directory import RunDirectory, RunError


def sample(step, text="a text", **changes):
    return dict(step=step, segment=1, prompt="He", tokens=8, temperature=0.8, seed=step, text=text) | changes


@given(st.lists(st.text(st.characters(codec=None), max_size=20), max_size=6))
def test_every_text_survives(tmp_path_factory, texts):
    """Lone surrogates, newlines, zeros and quotes too: what a byte model writes is not always a sentence."""
    run = RunDirectory(tmp_path_factory.mktemp("run"))
    for step, text in enumerate(texts):
        assert samples.append(run, sample(step, text, prompt=text))
    assert [(s["text"], s["prompt"]) for s in samples.read(run)] == [(text, text) for text in texts]
    assert not run.samples.exists() or run.samples.read_bytes().count(b"\n") == len(texts)


def test_a_repeated_sample_adds_nothing_and_another_text_does(run):
    for step in (100, 200, 300):
        assert samples.append(run, sample(step))
    before = run.samples.read_bytes()
    assert not samples.append(run, sample(200, segment=2)) and run.samples.read_bytes() == before
    assert samples.append(run, sample(200, "another", segment=2))
    assert not samples.append(run, sample(200, "another", segment=3))
    assert [(s["step"], s["text"]) for s in samples.read(run)][3:] == [(200, "another")]
    assert samples.append(run, sample(150)) and samples.append(run, sample(400))


def test_the_log_is_searched_from_its_end_and_no_further_than_needed(run, monkeypatch):
    samples.append(run, sample(100))

    def backwards(path):
        yield from lines.backwards(path)
        pytest.fail("read on behind an earlier step")

    monkeypatch.setattr(samples, "backwards", backwards)
    assert samples.append(run, sample(200)) and not samples.append(run, sample(200))


def test_torn_lines_are_passed_over_and_kept(run):
    samples.append(run, sample(1))
    with open(run.samples, "ab") as file:
        file.write(b'{"step": 2, "text": "to\n[]\n{"step": "3"}\n\0\0')
    torn = run.samples.read_bytes()
    samples.append(run, sample(4))
    assert [s["step"] for s in samples.read(run)] == [1, 4] and run.samples.read_bytes().startswith(torn)


@pytest.mark.parametrize("wrong", [{"step": "1"}, {"step": True}, {"more": 1}])
def test_a_sample_of_other_fields_is_refused(run, wrong):
    with pytest.raises(RunError, match="found a sample of step, .* expected step, segment, prompt, tokens"):
        samples.append(run, sample(1) | wrong)
    lacking = sample(1)
    del lacking["seed"]
    with pytest.raises(RunError, match="expected step, segment"):
        samples.append(run, lacking)
    assert samples.read(run) == []


def test_a_log_that_cannot_be_read_is_named(run):
    run.samples.mkdir()
    with pytest.raises(RunError, match=r"r\.samples\.json: found a folder, expected a sample log"):
        samples.read(run)
