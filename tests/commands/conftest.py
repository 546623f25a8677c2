"""A run in the working directory, and a way to call the command line."""

import pytest

from andrea_lab.cli import main
from tests.run.made import saved


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The run `tiny`, 30 steps with three weight files, in the working directory."""
    monkeypatch.chdir(tmp_path)
    return saved(tmp_path / "tiny", 10, 20, 30)


@pytest.fixture
def call(capsys):
    """call("verify", "tiny") -> (exit code, stdout, stderr)."""

    def made(*arguments) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return made
