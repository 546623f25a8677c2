"""The dashboard in a real browser: it shows runs while they train, asks them, outlives its server, works as a file."""

import time
from contextlib import contextmanager

import numpy as np
import pytest

from andrea_lab.run import segments
from andrea_lab.run.directory import RunDirectory
from andrea_lab.run.losslog import encode
from andrea_lab.view.dashboard.feeds import Feeds
from andrea_lab.view.dashboard.save import save_page
from tests.proxy.runs import PATIENCE, andrea, ended, small, wait_for_steps
from tests.run.made import entry, logged
from tests.view.served import TOKEN, served

VIEW = ".andrea-lossview"
GONE = r"ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET"
NAMES = ["first", "second", "sweep/hot"]


def curve(steps, seed=1, low=2.0):
    """A loss curve with noise: {step: loss}."""
    rng = np.random.default_rng(seed)
    return {s: low + 3.5 * float(np.exp(-s / 300)) + 0.15 * float(rng.standard_normal()) for s in range(1, steps + 1)}


def goes_on(folder, steps):
    """Log more steps, whose numbers are given, of the run in a folder."""
    with open(RunDirectory(folder).log, "a") as log:
        log.writelines(encode(entry(step, 2.0 + 1 / step)) + "\n" for step in steps)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "runs"
    made.mkdir()
    return made


@pytest.fixture
def runs(folder):
    """Three runs, one in a folder of its own; one has ended."""
    logged(folder / "first", curve(400), steps=800)
    run = logged(folder / "second", curve(300, 2, 2.4), steps=300)
    segments.end(run, segments.begin(run, from_step=0), "finished")
    logged(folder / "sweep" / "hot", curve(200, 3) | {150: float("nan")}, steps=300)
    return folder


def until(page, expression, arg=None):
    """Wait until JavaScript is true; asked from outside, since the page lets nothing evaluate text inside it."""
    end = time.monotonic() + PATIENCE
    while not page.evaluate(expression, arg):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(50)


@contextmanager
def shown(page, folder, runs="", **options):
    """A client of a server whose page is shown; the page is left before its server ends."""
    with served(folder, **options) as client:
        page.goto(client.server.address + runs)
        yield client
        page.goto("about:blank")


def shows(page, steps, view=VIEW):
    """Wait until a view has so many steps and has drawn them."""
    until(
        page,
        """([view, steps]) => {
            const found = document.querySelector(view);
            return found && found.dataset.andreaSteps === String(steps) && Number(found.dataset.andreaRedraws) > 0;
        }""",
        arg=[view, steps],
    )


def names(page):
    return page.locator("#runs li:visible").evaluate_all("rows => rows.map(row => row.dataset.run)")


def test_a_run_appears_by_itself_and_its_curve_moves(page, folder, shot):
    with shown(page, folder):
        page.wait_for_selector("#empty:visible")
        assert page.inner_text("#count") == "0 runs"
        run = logged(folder / "a", curve(50), steps=200)
        page.wait_for_selector('#runs li[data-run="a"].chosen')
        shows(page, 50)
        before = page.locator(f"{VIEW} canvas").first.screenshot()
        goes_on(run.path, range(51, 121))
        shows(page, 120)
        until(page, """document.querySelector('#runs .steps').textContent === '120 of 200'""")
        assert page.locator(f"{VIEW} canvas").first.screenshot() != before
        assert page.evaluate("document.querySelectorAll('.al-wishes:not([hidden])').length") == 0, "no buttons"
        shot(page, "live")


def test_a_training_run_is_asked_for_a_checkpoint_and_a_stop(page, folder, shot):
    config = folder.parent / "long.json"
    config.write_text(small(folder.parent, steps=1_000_000, save_every=0).to_json())
    training = andrea("train", config, "--run", folder / "live", "--json")
    try:
        wait_for_steps(folder / "live", 5, training)
        with shown(page, folder, control=True):
            page.get_by_role("button", name="Checkpoint now").click()
            until(page, "document.querySelector('.al-answer').textContent.startsWith('sent SIGUSR1')")
            wait_for_file(folder / "live", training)
            assert "token" not in page.url
            page.reload()  # the tab remembers the token
            page.get_by_role("button", name="Stop…").click()
            shot(page, "stop")
            page.get_by_role("button", name="Stop", exact=True).click()
            assert ended(training)[0] == 0
            until(page, "document.querySelector('.al-badge').textContent === 'stopped'")
            page.wait_for_selector("#runs .state:text('stopped')")
    finally:
        training.kill()
        training.communicate(timeout=PATIENCE)


def wait_for_file(folder, training):
    until = time.monotonic() + PATIENCE
    while not list(folder.glob("step_*.bin")):
        assert training.poll() is None and time.monotonic() < until
        time.sleep(0.05)


def test_who_has_no_token_sees_no_run_until_it_is_given(page, runs, complaints):
    complaints.allow("401")
    with served(runs, token=TOKEN) as client:
        page.goto(client.origin)
        page.wait_for_selector("#ask:visible")
        assert names(page) == [] and not page.locator(VIEW).count()
        page.fill("#token", "a wrong one")
        page.click("#ask button")
        page.wait_for_selector("#ask:visible")
        page.fill("#token", TOKEN)
        page.click("#ask button")
        page.wait_for_selector("#ask", state="hidden")
        until(page, "document.querySelectorAll('#runs li').length === 3")
        shows(page, 200)


@pytest.mark.parametrize("mode", ["cors", "no-cors"])
def test_another_page_can_neither_read_nor_ask(page, runs, complaints, mode):
    complaints.allow("401|405|CORS|ERR_FAILED|NotSameOrigin")
    ask = """async ([address, method, mode, token]) => {
        const headers = mode === 'cors' ? {'Content-Type': 'application/json', Authorization: `token ${token}`} : {};
        const body = method === 'POST' ? '{"wish": "save"}' : null;
        const answer = await fetch(address, {method, mode, headers, body}).catch(error => null);
        return answer && answer.status + await answer.text();
    }"""
    with served(runs, control=True) as client:
        for path, method in (("", "GET"), ("/first/frame", "GET"), ("/first/control", "POST")):
            asked = [f"{client.origin}/api/runs{path}", method, mode, client.server.site.token]
            assert page.evaluate(ask, asked) in (None, "0"), "refused, or an answer that shows nothing"
    assert not (runs / "first" / "control").exists()


def test_the_page_says_that_its_server_is_gone_and_goes_on_when_it_is_back(page, runs, complaints, shot):
    complaints.allow(GONE)
    with served(runs) as client:
        page.goto(f"{client.origin}/#run=first")
        shows(page, 400)
        port = client.port
    page.wait_for_selector("#notices:has-text('The server does not answer')")
    assert page.locator(VIEW).get_attribute("data-andrea-steps") == "400", "what was read stays"
    shot(page, "gone")
    goes_on(runs / "first", range(401, 431))
    logged(runs / "third", curve(10))
    with served(runs, port=port):
        page.get_by_role("button", name="Try now").click()
        shows(page, 430)
        page.wait_for_selector('#runs li[data-run="third"]')
        until(page, "document.querySelector('#notices').textContent === ''")


def test_runs_are_laid_over_each_other_and_side_by_side(page, runs, shot):
    with shown(page, runs, "#run=first"):
        shows(page, 400)
        page.check('#runs li[data-run="sweep/hot"] input')
        until(page, "document.querySelectorAll('.al-legend .al-run').length === 2")
        assert page.url.endswith("#run=first&run=sweep%2Fhot")
        shows(page, 400)
        shot(page, "over")
        page.get_by_role("button", name="Side by side").click()
        until(page, f"document.querySelectorAll('{VIEW}').length === 2")
        shows(page, 400, f".view:nth-child(1) {VIEW}")
        shows(page, 200, f".view:nth-child(2) {VIEW}")
        shot(page, "beside")
        page.click('#runs li[data-run="second"] button')
        shows(page, 300)
        assert page.locator(VIEW).count() == 1 and page.url.endswith("#run=second")
        assert page.locator("#runs li.chosen").count() == 1 and not page.locator("#layout").is_visible()


def test_the_list_is_searched_by_name_and_state(page, runs):
    with shown(page, runs):
        until(page, "document.querySelectorAll('#runs li').length === 3")
        page.fill("#search", "SWEEP/")
        assert names(page) == ["sweep/hot"] and page.inner_text("#count") == "1 of 3 runs"
        page.fill("#search", "finished")
        assert names(page) == ["second"]
        page.fill("#search", "")
        assert names(page) == NAMES


def test_a_saved_page_opens_from_disk_with_its_history_and_asks_nobody(page, runs, complaints, shot):
    complaints.allow("fetch-by-the-test|connect-src")
    file = runs.parent / "page.html"
    save_page(runs, file, ["first", "sweep/hot"])
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{file.as_uri()}#run=sweep/hot")
    shows(page, 200)
    page.check('#runs li[data-run="first"] input')
    until(page, "document.querySelectorAll('.al-legend .al-run').length === 2")
    page.click('#runs li[data-run="first"] button')
    shows(page, 400)
    shot(page, "saved")
    assert [address for address in asked if not address.startswith("data:")] == [f"{file.as_uri()}"]
    assert page.evaluate("fetch('fetch-by-the-test').then(() => 'answered', () => 'refused')") == "refused"


def test_names_are_never_markup(page, folder):
    name = "<img src=x onerror=window.hit=1>&amp;\"'"
    logged(folder / name, curve(20))
    with shown(page, folder):
        shows(page, 20)
        assert page.inner_text("#runs .name") == name
        assert page.evaluate("window.hit") is None and page.locator("img").count() == 0


@pytest.mark.parametrize(("width", "scheme"), [(420, "light"), (1300, "dark")])
def test_it_fits_a_phone_and_a_projector_in_light_and_dark(new_page, runs, shot, width, scheme):
    for number in range(40):
        logged(runs / "many" / f"run-{number:02}", curve(30, number))
    page = new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    with shown(page, runs, "#run=first"):
        shows(page, 400)
        until(page, "document.querySelectorAll('#runs li').length === 43")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        shot(page, f"{width}-{scheme}")
        long = "many/" + "-".join(["a-name-with-all-its-settings"] * 4)
        logged(runs / long, curve(30))
        page.check(f'#runs li[data-run="{long}"] input')
        until(page, "document.querySelectorAll('.al-legend .al-run').length === 2")
        shows(page, 400)
        assert page.evaluate("document.querySelector('main').scrollWidth <= document.querySelector('main').clientWidth")
        assert page.locator(VIEW).get_attribute("data-andrea-theme") == scheme
        other = {"light": "dark", "dark": "light"}[scheme]
        page.get_by_role("button", name=other, exact=False).first.click()
        until(page, "([view, theme]) => document.querySelector(view).dataset.andreaTheme === theme", arg=[VIEW, other])


def test_a_run_that_vanishes_and_one_that_begins_anew(page, runs, complaints):
    complaints.allow("404")
    with shown(page, runs, "#run=first"):
        shows(page, 400)
        (runs / "first").rename(runs.parent / "away")
        page.wait_for_selector("#notices:has-text('first is no longer there')")
        until(page, "document.querySelectorAll('#runs li').length === 2")
        assert page.locator(VIEW).get_attribute("data-andrea-steps") == "400"
        logged(runs / "first", curve(25))
        shows(page, 25)
        until(page, "document.querySelector('#notices').textContent === ''")


def test_every_control_can_be_reached_and_has_a_name(page, runs):
    with shown(page, runs):
        shows(page, 200)
        nameless = page.evaluate(
            """[...document.querySelectorAll('nav button, nav input, main > * > button')].filter(
                e => e.checkVisibility() && !(e.textContent.trim() || e.getAttribute('aria-label'))).length"""
        )
        assert nameless == 0
        page.focus("#search")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # the first run's button
        shows(page, 400)


def test_another_server_at_its_place_is_no_server_of_its_own(page, runs, complaints):
    complaints.allow("500|404")
    with shown(page, runs, "#run=first"):
        shows(page, 400)
        page.route("**/api/runs", lambda route: route.fulfill(status=200, body="<p>another's page"))
        page.wait_for_selector("#notices:has-text('The server does not answer')")
        page.route("**/frame*", lambda route: route.fulfill(status=200, body="no frame"))
        page.route("**/api/runs", lambda route: route.fulfill(status=500, body="{}"))
        page.wait_for_timeout(1500)
        assert page.locator(VIEW).get_attribute("data-andrea-steps") == "400" and names(page) == NAMES
        page.unroute("**/frame*")
        page.unroute("**/api/runs")
        goes_on(runs / "first", range(401, 411))
        shows(page, 410)
        until(page, "document.querySelector('#notices').textContent === ''")


def test_focus_stays_where_it_is_when_a_run_appears(page, runs):
    with served(runs) as client:
        page.goto(f"{client.origin}/")
        until(page, "document.querySelectorAll('#runs li').length === 3")
        page.locator("[data-run=second] .open").focus()
        logged(runs / "zz", curve(50))
        until(page, "document.querySelectorAll('#runs li').length === 4")
        found = page.evaluate("document.activeElement.closest('li')?.dataset.run ?? null")
        page.goto("about:blank")
    assert found == "second"


def test_nothing_is_chosen_for_a_reader_who_took_the_last_run_away(page, runs):
    with served(runs) as client:
        page.goto(f"{client.origin}/#run=first")
        until(page, "document.querySelectorAll('.andrea-lossview').length === 1")
        page.locator("[data-run=first] input").uncheck()
        goes_on(runs / "first", range(401, 405))
        page.wait_for_timeout(7000)
        found = page.locator(".andrea-lossview").count()
        page.goto("about:blank")
    assert found == 0


def test_zoom_stays_when_the_server_made_the_feed_anew(page, runs):
    with served(runs) as client:
        page.goto(f"{client.origin}/#run=first")
        until(page, "document.querySelector('.andrea-lossview')?.dataset.andreaSteps === '400'")
        page.locator(".al-figure-loss .al-plot").focus()
        page.keyboard.press("+")
        page.wait_for_timeout(500)
        zoomed = page.evaluate("document.querySelector('.andrea-lossview').dataset.andreaWindow")
        client.server.site.feeds = Feeds()  # as after a minute in a hidden tab
        goes_on(runs / "first", range(401, 451))
        until(page, "document.querySelector('.andrea-lossview').dataset.andreaSteps === '450'")
        page.wait_for_timeout(5000)
        found = page.evaluate("document.querySelector('.andrea-lossview').dataset.andreaWindow")
        page.goto("about:blank")
    assert found == zoomed
