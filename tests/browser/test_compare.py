from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect
from playwright.sync_api import TimeoutError as TooLong

from closecall.app.api.compare.lanes import COMPARED
from closecall.app.display.strategy_labels import label_of
from closecall.app.projects.roles import SOMEBODY
from closecall.storage import Archive, Concepts, Database, LabelLog
from tests.browser.conftest import n_items
from tests.browser.labeling import Labeling, resize
from tests.browser.served import Server
from tests.scale import thorough

PATIENCE = 60_000


@pytest.fixture
def labeled(labeling: Labeling) -> Labeling:
    """A session whose question has a hyperplane."""
    for key in "ynynn":
        labeling.press(key)
    return labeling


def open_compare(server: Server, labeling: Labeling, view: str) -> Page:
    page = labeling.page
    page.goto(f"{server.url}/compare?project=digits&session={labeling.session}&view={view}")
    expect(page.locator(".card[data-state=shown]")).to_be_visible(timeout=PATIENCE)
    return page


class Racing:
    """The race in one tab, and what the server told it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.card = page.locator(".card.race")
        self.turns: list[list[list[float]]] = []
        page.on("response", self._heard)

    def _heard(self, response) -> None:
        if urlsplit(response.url).path == "/race" and response.ok:
            told = response.json()
            if told["known"] == len(self.turns):
                self.turns += told["turns"]

    @property
    def rounds(self) -> int:
        """How many the page shows."""
        return int(self.card.get_attribute("data-rounds") or 0)

    @property
    def values(self) -> dict[str, str]:
        """What stands at the end of each curve."""
        labels = self.page.locator(".endlabel")
        said = [
            label.evaluate("(text) => [...text.children].map((part) => part.textContent)")
            for label in labels.all()
        ]
        return dict(said)

    def wait(self, n: int) -> None:
        """Until at least n rounds are shown."""
        try:
            self.page.wait_for_function(
                """(n) => [...document.querySelectorAll('[data-testid=stBidiComponentIsolated]')].some(
                    (host) => Number(host.shadowRoot?.querySelector('.race')?.dataset.rounds) >= n)""",
                arg=n,
                timeout=PATIENCE,
            )
        except TooLong:
            shown = self.page.locator("[data-testid=stMain]").aria_snapshot()
            raise AssertionError(f"no {n} rounds at {self.page.url}, but\n{shown}") from None

    def pause(self) -> None:
        """By the key, and wait for the last round."""
        self.page.keyboard.press("Space")
        expect(self.card).to_have_attribute("data-running", "false", timeout=PATIENCE)

    def hear(self) -> None:
        """Until what the page shows was heard here, too."""
        while len(self.turns) < self.rounds:
            self.page.wait_for_timeout(50)


@pytest.fixture
def racing(server: Server, labeling: Labeling) -> Racing:
    made = Racing(labeling.page)
    open_compare(server, labeling, "race")
    expect(labeling.page.locator(".go .word")).to_have_text("Start")
    return made


def line(page: Page, strategy: str) -> Locator:
    return page.locator(f".line.{strategy}")


@pytest.mark.thorough
def test_a_row_says_what_its_strategy_picks(server: Server, labeled: Labeling) -> None:
    """In the fixed order, with the full scan's pick ringed, and the row in use tinted."""
    page = open_compare(server, labeled, "hyperplane")
    expect(page.locator(".line .who b")).to_have_text([label_of(name) for name in COMPARED])
    expect(page.locator(".line .pick img")).to_have_count(len(COMPARED))
    expect(line(page, "exhaustive").locator(".pick")).to_have_attribute("data-nearest", "true")
    expect(line(page, "exhaustive").locator(".rank b")).to_have_text("0")
    expect(line(page, "exhaustive").locator(".scored small")).to_have_text("100 %")
    expect(line(page, "auto")).to_have_attribute("data-used", "true")
    expect(page.locator(".line[data-used=true]")).to_have_count(1)
    like_a_scan = r"Here Auto scores all [\d,]+ images, as a full scan does"
    speed = r"([\d.,]+ times faster than|and takes ([\d.,]+ times )?as long as) a full scan"
    expect(page.locator(".title")).to_have_text(
        re.compile(rf"^({like_a_scan}|Auto picks the likeliest yes of [\d,]+ images, {speed})\.$")
    )
    expect(page.locator(".about")).to_contain_text(f"{n_items():,} items × 384")


@pytest.mark.thorough
def test_times_are_ratios_of_what_is_shown(server: Server, labeled: Labeling) -> None:
    """The row's word follows from its time and the full scan's."""
    page = open_compare(server, labeled, "hyperplane")
    times = {name: read_ms(line(page, name).locator(".time .reads b").inner_text()) for name in COMPARED}
    for name in COMPARED:
        said = line(page, name).locator(".time .reads small").inner_text()
        if name == "exhaustive":
            assert said == "full scan"
        elif found := re.match(r"([\d.,]+)× (faster|slower)", said):
            ratio = times["exhaustive"] / times[name]
            told = float(found[1].replace(",", ""))
            assert told == pytest.approx(ratio if found[2] == "faster" else 1 / ratio, rel=0.15)
        else:
            assert said == "as fast"


def test_the_line_of_the_full_scan_leaves_the_times_legible(server: Server, labeled: Labeling) -> None:
    """Each time has a halo in the colour of its row, which may be tinted."""
    page = open_compare(server, labeled, "hyperplane")
    halos = page.locator(".time .reads").evaluate_all(
        """(labels) => labels.map((label) => {
            const probe = document.createElement('i');
            label.append(probe);
            probe.style.color = 'var(--behind)';
            const edge = `${getComputedStyle(probe).color} 0px 0px 3px`;
            probe.remove();
            return getComputedStyle(label).textShadow.includes(edge);
        })"""
    )
    assert halos == [True] * len(COMPARED)


def read_ms(text: str) -> float:
    return float(text.removesuffix(" ms").replace(",", ""))


@pytest.mark.thorough
def test_it_can_be_measured_again(server: Server, labeled: Labeling) -> None:
    """The times are other ones then, the picks are not."""
    page = open_compare(server, labeled, "hyperplane")
    picks = [image.get_attribute("src") for image in page.locator(".pick img").all()]
    before = page.locator(".time .reads b").all_inner_texts()
    page.get_by_role("button", name="Measure again").click()
    expect(page.locator(".time .reads b")).not_to_have_text(before, timeout=PATIENCE)
    expect(page.locator(".card[data-state=shown]")).to_be_visible(timeout=PATIENCE)
    assert [image.get_attribute("src") for image in page.locator(".pick img").all()] == picks


@pytest.mark.thorough
def test_more_strategies_are_added_on_request(server: Server, labeled: Labeling) -> None:
    """Below the others, and measured like them."""
    page = open_compare(server, labeled, "hyperplane")
    page.get_by_role("button", name="More strategies").click()
    page.get_by_text("LBH-Hash", exact=True).click()
    expect(page.locator(".line .who b")).to_have_text([*map(label_of, COMPARED), "LBH-Hash"])
    expect(line(page, "lbh-hash").locator(".rank b")).to_be_visible(timeout=PATIENCE)


@pytest.mark.thorough
def test_without_a_hyperplane_it_says_what_is_missing(server: Server, context: BrowserContext) -> None:
    """Of a question that nobody has answered yet."""
    with Database.open(server.database) as database:
        concept = Concepts(database).create("unanswered", "Is it one that nobody was asked about?")
        session = LabelLog(database).start_session(concept.id, SOMEBODY, "margin-index")
    page = context.new_page()
    page.goto(f"{server.url}/compare?project=digits&session={session.id}&view=hyperplane")
    expect(page.locator(".title")).to_have_text("There is no hyperplane yet", timeout=PATIENCE)
    page.goto(f"{server.url}/compare?project=digits&session={session.id}&view=race")
    expect(page.locator(".title")).to_have_text("No race is possible here", timeout=PATIENCE)
    with Database.open(server.database) as database:
        Archive(database).add(concept.id)  # once the first question is reset, this would be the oldest


def test_space_starts_and_pauses_and_the_arrow_steps(racing: Racing) -> None:
    """A held key counts once."""
    racing.page.keyboard.press("Space")
    racing.wait(3)
    racing.pause()
    n = racing.rounds
    expect(racing.page.locator(".go .word")).to_have_text("Continue")
    racing.page.keyboard.press("ArrowRight")
    racing.wait(n + 1)
    racing.page.wait_for_timeout(300)
    assert racing.rounds == n + 1
    racing.page.get_by_role("button", name="Step").click()
    racing.wait(n + 2)


@pytest.mark.thorough
@pytest.mark.parametrize("width", [390, 1440])
def test_the_names_at_the_curves_fit(racing: Racing, width: int) -> None:
    """Names of any length, on a phone, too; and the chart ends where the window does."""
    before = racing.page.viewport_size
    racing.page.set_viewport_size({"width": width, "height": 900})
    racing.page.get_by_role("button", name="Step").click()
    racing.wait(1)
    racing.page.wait_for_timeout(300)
    chart = racing.page.locator(".curves").bounding_box()
    labels = [label.bounding_box() for label in racing.page.locator(".endlabel").all()]
    assert len(labels) == len(COMPARED)
    assert max(box["x"] + box["width"] for box in labels) <= chart["x"] + chart["width"]
    assert chart["height"] <= 900
    racing.page.set_viewport_size(before)


PLOT = """(svg) => {
    const box = (one) => one.getBoundingClientRect();
    const levels = [...svg.querySelectorAll('.level')].map(box);
    return {
        curves: [...svg.querySelectorAll('.curve')].map(box),
        left: Math.min(...levels.map(({ left }) => left)),
        right: Math.max(...levels.map(({ right }) => right)),
        top: Math.min(...levels.map(({ top }) => top)),
        bottom: Math.max(...levels.map(({ bottom }) => bottom)),
        isClipped: svg.querySelector('[clip-path]') !== null,
    };
}"""
"""Where the curves of a chart are, without their strokes, and between which lines they should be."""


def check_curves_inside(chart: Locator) -> None:
    """All curves are whole, and between the first and the last line of the plot."""
    plot = chart.evaluate(PLOT)
    assert plot["curves"]
    assert not plot["isClipped"]
    for curve in plot["curves"]:
        assert plot["left"] - 1 <= curve["left"] <= curve["right"] <= plot["right"] + 1, plot
        assert plot["top"] - 1 <= curve["top"] <= curve["bottom"] <= plot["bottom"] + 1, plot


def test_no_curve_leaves_its_plot(racing: Racing) -> None:
    """Whether it is drawn against labels or seconds."""
    racing.page.keyboard.press("Space")
    racing.wait(12)
    racing.pause()
    check_curves_inside(racing.page.locator(".curves"))
    racing.page.get_by_role("button", name="seconds spent").click()
    expect(racing.page.locator(".curves")).to_contain_text("seconds spent: 1.5 s per label")
    check_curves_inside(racing.page.locator(".curves"))


@pytest.mark.parametrize("view", ["hyperplane", thorough("race")])
def test_the_margin_is_explained_here_too(server: Server, labeled: Labeling, view: str) -> None:
    """In a sentence under the mouse, whole and over everything else."""
    page = open_compare(server, labeled, view)
    hint = page.locator(".hint")
    for width in (1440, 1280):
        resize(page, width, 900)
        page.mouse.move(0, 0)
        expect(hint).to_be_hidden()
        page.locator(".term").hover()
        expect(hint).to_be_visible()
        expect(hint).to_have_text(re.compile("near 0, the classifier can hardly decide"))
        box = hint.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        for share in (0.1, 0.9):
            hit = [box["x"] + share * box["width"], box["y"] + share * box["height"]]
            assert hint.evaluate("(it, [x, y]) => it.getRootNode().elementFromPoint(x, y) === it", hit)
    resize(page, 1440, 900)


@pytest.mark.thorough
def test_the_curves_end_where_the_server_says(racing: Racing) -> None:
    """Each lane's label has its last AUROC; times and distances are medians of all rounds."""
    racing.page.keyboard.press("Space")
    racing.wait(8)
    racing.pause()
    racing.hear()
    assert len(racing.turns) == racing.rounds
    last = {label_of(name): turn[0] for name, turn in zip(COMPARED, racing.turns[-1], strict=True)}
    assert {label: float(value) for label, value in racing.values.items()} == pytest.approx(last, abs=6e-4)
    for place, name in enumerate(COMPARED):
        milliseconds = [turns[place][2] for turns in racing.turns]
        told = read_ms(line(racing.page, name).locator(".time .reads b").inner_text())
        assert told == pytest.approx(np.median(milliseconds), rel=0.06, abs=6e-3)


@pytest.mark.thorough
def test_the_headline_is_made_from_the_curves(racing: Racing) -> None:
    """From the label on from which one stays where the other is now, once that is more than chance."""
    racing.page.keyboard.press("Space")
    racing.wait(5)
    expect(racing.page.locator(".title")).to_have_text(re.compile("^Too early to say"))
    racing.wait(40)
    racing.pause()
    racing.hear()
    said = racing.page.locator(".title").inner_text()
    courses = {name: [turns[i][0] for turns in racing.turns] for i, name in enumerate(COMPARED)}
    chosen, random = courses["auto"], courses["random"]
    by = f"by {label_of('auto')}"
    leader, follower, names = (
        (chosen, random, (by, "at random"))
        if chosen[-1] >= random[-1]
        else (random, chosen, ("at random", by))
    )
    below = [i + 1 for i, value in enumerate(leader) if value < follower[-1]]
    since = below[-1] + 1 if below else 1
    n = len(racing.turns)
    if min(leader[-10:]) <= max(follower[-10:]) or since >= 0.95 * n:
        assert re.match(rf"Undecided so far: labels chosen {by} or|So far neither|The first labels are", said)
    elif counted := re.match(r"(\d+) labels? chosen", said):
        assert int(counted[1]) == since
        assert said.endswith(f" chosen {names[0]} equal{'' if since > 1 else 's'} {n} chosen {names[1]}.")
    else:
        assert re.match(rf"So far labels chosen ({names[0]} teach|{names[1]} have taught nothing)", said)


@pytest.mark.thorough
def test_seconds_spent_can_be_the_axis_and_first_picks_the_column(racing: Racing) -> None:
    racing.page.keyboard.press("Space")
    racing.wait(8)
    racing.pause()
    racing.page.get_by_role("button", name="seconds spent").click()
    expect(racing.page.locator(".curves")).to_contain_text("seconds spent: 1.5 s per label")
    racing.page.get_by_role("button", name="first picks").click()
    for name in COMPARED:
        expect(line(racing.page, name).locator(".firsts img:visible")).to_have_count(7)
    expect(line(racing.page, "random").locator(".time")).to_be_hidden()


@pytest.mark.thorough
def test_a_race_goes_on_when_the_page_was_left(racing: Racing) -> None:
    """The browser tab has it, and finds all of it again."""
    racing.page.keyboard.press("Space")
    racing.wait(4)
    racing.pause()
    n = racing.rounds
    racing.page.get_by_role("link", name="Progress").click()
    expect(racing.page.locator(".progress")).to_be_visible(timeout=PATIENCE)
    racing.page.get_by_role("link", name="Compare").click()
    racing.wait(n)
    assert racing.rounds == n
    assert parse_qs(urlsplit(racing.page.url).query)["view"] == ["race"]


def test_a_reload_keeps_the_race(racing: Racing) -> None:
    """With its rounds, its curves and its number of first labels."""
    racing.page.get_by_role("combobox", name="First labels").click()
    racing.page.get_by_role("option", name="20 labels per class first").click()
    expect(racing.card).to_have_attribute("data-rounds", "0", timeout=PATIENCE)
    racing.card.focus()
    for n in (1, 2, 3):
        racing.page.keyboard.press("ArrowRight")
        racing.wait(n)
    values = racing.values
    racing.page.reload()
    racing.wait(3)
    assert racing.rounds == 3
    assert racing.values == values
    picker = racing.page.get_by_role("combobox", name="First labels")
    expect(picker).to_have_value("20 labels per class first")
    racing.card.focus()
    racing.page.keyboard.press("ArrowRight")
    racing.wait(4)


@pytest.mark.thorough
def test_other_first_labels_are_another_race(racing: Racing) -> None:
    racing.page.keyboard.press("Space")
    racing.wait(2)
    racing.pause()
    racing.page.get_by_role("combobox", name="First labels").click()
    racing.page.get_by_role("option", name="20 labels per class first").click()
    expect(racing.card).to_have_attribute("data-rounds", "0", timeout=PATIENCE)


@pytest.mark.parametrize("view", [thorough("hyperplane"), thorough("race")])
def test_a_phone_shows_it_without_scrolling_sideways(server: Server, labeled: Labeling, view: str) -> None:
    labeled.page.set_viewport_size({"width": 390, "height": 844})
    page = open_compare(server, labeled, view)
    expect(page.locator(".line .who b")).to_have_count(len(COMPARED))
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1]
    boxes = [box.bounding_box() for box in page.locator(".line .who b").all()]
    assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)


@pytest.mark.thorough
def test_another_race_keeps_the_speed(racing: Racing) -> None:
    """It was asked for, and what a race is asked for holds for those that follow."""
    racing.page.locator(".speed").click()
    expect(racing.page.locator(".speed")).to_have_text("30 rounds/s")
    racing.page.get_by_role("combobox", name="First labels").click()
    racing.page.get_by_role("option", name="20 labels per class first").click()
    expect(racing.page.get_by_role("combobox", name="First labels")).not_to_be_focused(timeout=PATIENCE)
    expect(racing.page.locator(".curves")).to_be_visible()
    racing.page.keyboard.press("Space")
    racing.wait(2)
    racing.pause()
    expect(racing.page.locator(".speed")).to_have_text("30 rounds/s")
