"""`andrea sample` beside a run at work."""

import json

from andrea_lab.checkpoint import verify


def test_a_file_that_a_rotation_takes_before_it_is_loaded_is_replaced_by_the_newest_there_is(call, run, monkeypatch):
    examine, taken = verify.examine, []

    def and_gone(path):
        verdict = examine(path)
        if not taken:
            path.unlink()
            taken.append(path.name)
        return verdict

    monkeypatch.setattr(verify, "examine", and_gone)
    code, out, err = call("sample", "tiny", "--tokens", 2, "--json")
    assert (code, err, taken) == (0, "", ["step_000030.bin"]) and json.loads(out)["step"] == 20
    code, _, err = call("sample", "tiny", "--step", 30)
    assert code == 2 and "found no such file, expected the weights of step 30" in err
