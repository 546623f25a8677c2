"""What a browser gets: uPlot unchanged, one module of scripts, styles that keep to the view, nothing to fetch."""

import re
import tomllib
from hashlib import sha256

import pytest

from andrea_lab.view import assets
from tests.imports import ROOT

OURS = [path for path in assets.SCRIPTS if assets.VENDORED not in path.parents]
FETCHES = re.compile(
    r"https?:|//[a-z]+\.|@import|url\(|fetch\(|XMLHttpRequest|WebSocket|EventSource|importScripts|import\("
)


def test_vendored_files_are_those_their_readme_names():
    told = dict(
        re.findall(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", (assets.VENDORED / "README.md").read_text(), re.M)
    )
    found = {path.name: sha256(path.read_bytes()).hexdigest() for path in assets.VENDORED.iterdir()}
    assert found.pop("README.md")
    assert told == found
    assert len(found) == 3


def test_the_module_is_all_scripts_one_after_the_other_and_exports_once():
    text = assets.esm()
    places = [text.index(path.read_text().strip()) for path in assets.SCRIPTS]
    assert places == sorted(places)
    assert len(re.findall(r"^export \{", text, re.M)) == len(re.findall(r"^export default", text, re.M)) == 1
    assert re.search(r"^export \{ mount, .*\};\nexport default \{ render \};\n\Z", text, re.M)
    assert not re.search(r"^import\b", text, re.M)


def test_no_name_is_given_twice():
    given = [
        name for path in OURS for name in re.findall(r"^(?:function|class|const|let) (\w+)", path.read_text(), re.M)
    ]
    assert len(given) > 40
    assert sorted(given) == sorted(set(given))
    assert "uPlot" not in given


@pytest.mark.parametrize("path", [*OURS, assets.LIVE / "lossview.css"], ids=lambda path: path.name)
def test_nothing_is_fetched(path):
    assert FETCHES.findall(path.read_text()) == []


def test_vendored_files_name_an_address_only_in_their_licence_line():
    addresses = re.findall(r"https?://\S*", assets.esm() + assets.css())
    assert addresses == ["https://github.com/leeoniya/uPlot"]


@pytest.mark.parametrize("text", [assets.esm(), assets.css()], ids=["scripts", "styles"])
def test_both_may_stand_inside_a_page(text):
    assert not re.search(r"</(script|style)|<!--", text, re.I)


def test_every_rule_of_ours_keeps_to_the_view():
    styles = re.sub(r"/\*.*?\*/", "", (assets.LIVE / "lossview.css").read_text(), flags=re.S)
    selectors = [
        part.strip() for rule in re.findall(r"([^{};]+)\{", styles) for part in re.split(r",(?![^(]*\))", rule)
    ]
    ours = (".andrea-lossview", ".andrea-still", "@media", "@container", "@keyframes andrea-", "50%")
    assert len(selectors) > 50
    assert [selector for selector in selectors if not selector.startswith(ours)] == []


def test_sizes():
    assert len(assets.esm()) < 130_000
    assert len(assets.css()) < 16_000
    assert sum(len(path.read_text().splitlines()) for path in OURS) < 1_450
    assert max(len(line) for path in OURS for line in path.read_text().splitlines()) <= 140


def test_a_wheel_takes_every_file_along():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    folder = assets.LIVE.parent
    taken = {path for pattern in patterns["andrea_lab.view"] for path in folder.glob(pattern)}
    assert {path for path in assets.LIVE.rglob("*") if path.is_file()} - taken == set()
