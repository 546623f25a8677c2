"""The locks, the environment they make, and what makes it."""

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib

import pytest
import rattler
import yaml
from jupyter_client.kernelspec import KernelSpecManager
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.imports import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = ("requirements.lock", "requirements-test.lock")
PYTHONS = ("3.11.7", "3.12.1")


def load_env_tool():
    """tools/env.py as a module."""
    spec = importlib.util.spec_from_file_location("env_tool", ROOT / "tools" / "env.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(calls, venv, command):
    """Writes a command down; makes the folder that `-m venv` would make."""
    calls.append(" ".join(map(str, command)))
    venv.mkdir(exist_ok=True)


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """tools/env.py on an empty .venv, with everything it would run written down instead."""
    module = load_env_tool()
    calls = []
    monkeypatch.setattr(module, "VENV", tmp_path / "venv")
    monkeypatch.setattr(module, "STAMP", tmp_path / "venv" / "andrea-env.json")
    monkeypatch.setattr(module, "venv_version", lambda: ".".join(map(str, sys.version_info[:2])))
    monkeypatch.setattr(module, "run", lambda *command, env=None: record(calls, module.VENV, command))
    monkeypatch.delenv("INSTALLER", raising=False)
    monkeypatch.delenv("PYTHON", raising=False)
    module.calls = calls
    return module


def entries(lock):
    """{line: hashes} of a lock: `name==version ; marker` and its sha256 sums."""
    text = (ROOT / lock).read_text().replace("\\\n", " ")
    return {line.split(" --hash")[0].strip(): re.findall(r"--hash=(\S+)", line) for line in text.splitlines() if line}


def pins(lock, python):
    """{name: version} of a lock on Linux for one Python."""
    place = {"python_full_version": python, "python_version": python[:4], "sys_platform": "linux"}
    found = [Requirement(line) for line in entries(lock)]
    chosen = [r for r in found if r.marker is None or r.marker.evaluate(place)]
    assert len({r.name for r in chosen}) == len(chosen)
    return {canonicalize_name(r.name): str(r.specifier).removeprefix("==") for r in chosen}


def requirements(*extras):
    """The project's own requirements."""
    listed = list(PROJECT["project"]["dependencies"])
    for extra in extras:
        listed += PROJECT["project"]["optional-dependencies"][extra]
    return [Requirement(text) for text in listed]


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_hold_exact_versions_hashes_and_no_address(lock):
    text = (ROOT / lock).read_text()
    assert "://" not in text
    assert "--index" not in text and "--find-links" not in text
    for line, hashes in entries(lock).items():
        assert re.match(r"^[a-z0-9-]+==[^ ;]+( ; .+)?$", line), line
        assert hashes and all(re.fullmatch("sha256:[0-9a-f]{64}", h) for h in hashes), line


def test_test_lock_is_the_lock_and_more():
    small, large = map(entries, LOCKS)
    assert small.items() <= large.items()
    assert {"pytest", "nbval", "hypothesis"} <= {line.split("==")[0] for line in large.keys() - small.keys()}


def test_the_workbook_needs_no_cuda_toolkit():
    assert [line for line in entries(LOCKS[0]) if line.startswith("nvidia-")] == []


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("lock, extras", [(LOCKS[0], ()), (LOCKS[1], ("test",))])
def test_ranges_hold_what_is_locked(lock, extras, python):
    locked = pins(lock, python)
    for wanted in requirements(*extras):
        assert wanted.specifier.contains(locked[canonicalize_name(wanted.name)]), wanted


def test_this_environment_is_the_locked_one():
    version = ".".join(map(str, sys.version_info[:3]))
    assert version[:4] in ("3.11", "3.12")
    locked = pins(LOCKS[1], version)
    found = {name: importlib.metadata.version(name) for name in locked if name not in ("uv", "setuptools")}
    assert found == {name: locked[name] for name in found}


def test_requirements_of_all_packages_are_met():
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_environment_yml_says_the_same():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    assert listed.pop() == {"pip": ["-e ."]}
    conda = {spec.name.normalized: spec for spec in map(rattler.MatchSpec, listed)}
    conda["xxhash"] = conda.pop("python-xxhash")  # there, plain xxhash is the C library
    ours = {r.name: r for r in [*requirements(), Requirement(f"python{PROJECT['project']['requires-python']}")]}
    assert conda.keys() == ours.keys() | {"pip", "setuptools"}
    for name, wanted in ours.items():
        assert sorted(str(conda[name].version).split(",")) == sorted(str(wanted.specifier).split(",")), name


def test_environment_yml_takes_what_is_locked():
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    ranges = [line.split() for line in listed if isinstance(line, str) and " " in line]
    specs = {name.removeprefix("python-"): rattler.VersionSpec(text) for name, text in ranges}
    for python in PYTHONS:
        locked = {**pins(LOCKS[0], python), "python": python}
        for name, spec in specs.items():
            assert spec.matches(rattler.Version(locked[name])), name
    assert not specs["numpy"].matches(rattler.Version("2.6.0"))


@pytest.mark.parametrize("version", ["3.10.13", "3.13.0"])
def test_another_python_is_named_and_refused(version, tmp_path):
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\necho {version}\nexit 1\n")
    fake.chmod(0o755)
    done = subprocess.run(
        ["sh", "tools/env.sh", "lab"], cwd=ROOT, env={**os.environ, "PYTHON": str(fake)}, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and not done.stdout
    assert "needs Python 3.11 or 3.12" in done.stderr and f"{fake} is {version}" in done.stderr


def test_a_missing_python_is_named(tmp_path):
    env = {**os.environ, "PYTHON": str(tmp_path / "nothing")}
    done = subprocess.run(["sh", "tools/env.sh", "lab"], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "nothing was not found" in done.stderr


def test_nothing_is_done_twice(tool):
    tool.build("lab", [])
    assert sum("uv pip install --require-hashes" in call for call in tool.calls) == 1
    tool.calls.clear()
    tool.build("lab", [])
    assert tool.calls == []
    tool.build("test", [])
    assert any("requirements-test.lock" in call for call in tool.calls)
    tool.calls.clear()
    tool.build("lab", [])
    tool.build("test", [])
    assert tool.calls == []


def test_a_changed_lock_or_a_moved_folder_is_noticed(tool, tmp_path, monkeypatch):
    tool.build("lab", [])
    tool.calls.clear()
    copy = tmp_path / "requirements.lock"
    copy.write_text((ROOT / "requirements.lock").read_text() + "\n")
    monkeypatch.setitem(tool.LOCKS, "lab", copy)
    tool.build("lab", [])
    assert any(str(copy) in call for call in tool.calls)
    tool.STAMP.write_text(json.dumps({**json.loads(tool.STAMP.read_text()), "root": "elsewhere"}))
    tool.calls.clear()
    tool.build("lab", [])
    assert " -m venv " in tool.calls[0]


def test_pip_takes_over_where_uv_reaches_no_index(tool, monkeypatch, capsys):
    written_down = tool.run

    def run(*command, env=None):
        written_down(*command)
        if "uv" in str(command[0]):
            raise tool.EnvError("error: no index")

    monkeypatch.setattr(tool, "run", run)
    tool.install_lock(ROOT / LOCKS[0])
    assert "-m pip install" in tool.calls[-1] and f"--require-hashes --no-deps -r {ROOT / LOCKS[0]}" in tool.calls[-1]
    assert "error: no index" in capsys.readouterr().out
    monkeypatch.setenv("INSTALLER", "uv")
    with pytest.raises(tool.EnvError, match="no index"):
        tool.install_lock(ROOT / LOCKS[0])
    monkeypatch.setenv("INSTALLER", "poetry")
    with pytest.raises(tool.EnvError, match="INSTALLER: expected uv or pip, found poetry"):
        tool.install_lock(ROOT / LOCKS[0])


def test_uv_itself_comes_hashed_from_the_lock(tool):
    entry = tool.lock_entry(ROOT / LOCKS[0], "uv")
    assert re.match(r"uv==[\d.]+ \\\n    --hash=sha256:", entry)
    assert "\nuvicorn" not in entry and entry.count("==") == 1


@pytest.mark.parametrize("arguments", [[], ["lap"], ["lab", "bensh"]])
def test_a_wrong_argument_is_named(tool, arguments, capsys):
    assert tool.main(arguments) == 2
    assert re.search("(profile|EXTRAS): expected .*, found", capsys.readouterr().err)


def test_the_first_start_of_jupyterlab_shows_no_popup(tool):
    tool.install_project()
    written = json.loads((tool.VENV / "share/jupyter/lab/settings/overrides.json").read_text())
    assert written["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


def test_the_kernel_is_the_one_of_this_environment(tmp_path, monkeypatch):
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    spec = KernelSpecManager().get_kernel_spec("python3")
    assert spec.resource_dir.startswith(sys.prefix)
    assert spec.argv[0] in ("python", sys.executable)


def test_scripts_are_right_shell():
    for script in ("tools/env.sh", "tools/lab.sh", "tools/lock.sh"):
        subprocess.run(["sh", "-n", script], cwd=ROOT, check=True)
    subprocess.run(["bash", "-n", ".ci/run"], cwd=ROOT, check=True)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize(
    "target, command",
    [
        ("lab", "tools/lab.sh --no-browser"),
        ("test", "pytest -n 2 -x"),
        ("test-full", '-m "full or not full"'),
        ("train", "andrea train ANDREA-nano --run here"),
        ("gpu-check", "tools/gpu_check.py"),
        ("env", "lab bench"),
        ("lint", "ruff format --check"),
    ],
)
def test_make_runs_what_it_says(target, command):
    names = ["LAB_FLAGS=--no-browser", "TEST_FLAGS=-x", "EXTRAS=bench", "RUN=here"]
    done = subprocess.run(["make", "-n", target, *names], cwd=ROOT, capture_output=True, text=True, check=True)
    assert command in done.stdout
