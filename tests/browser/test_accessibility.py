"""The pages for those who see little, or have no mouse: checked by axe-core, and used by keyboard alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import FORGET
from tests.browser.labeling import Labeling
from tests.browser.many import Gridding
from tests.browser.mapped import make_map
from tests.browser.served import Server
from tests.scale import thorough

Reach = Callable[[Page], None]


def open_menu(name: str) -> Reach:
    """One of the toolbar's menus, in place of the one before; on a phone, the toolbar is opened first."""

    def reach(page: Page) -> None:
        page.keyboard.press("Escape")
        tools = page.locator(".st-key-tools summary")
        if tools.is_visible() and tools.inner_text() == "Tools":
            tools.click()
        page.get_by_role("button", name=name).click()
        expect(page.get_by_test_id("stPopoverBody")).to_be_visible()

    return reach


def correct_in_strip(page: Page) -> None:
    page.locator(".thumb").last.click()
    expect(page.get_by_role("menu")).to_be_visible()


def look_closer(page: Page) -> None:
    page.keyboard.press("Escape")
    page.locator(".look").click()
    expect(page.locator(".frame")).to_have_attribute("data-zoomed", "true")


def mark_some(page: Page) -> None:
    for key in "ynsm":
        page.keyboard.press(key)
    expect(page.locator(".marked")).to_contain_text("1 unsure")


def go_back_to_last_grid(page: Page) -> None:
    for _ in range(5):
        page.keyboard.press("u")
    expect(page.locator(".card")).to_have_attribute("data-last", "true")
    expect(page.locator(".card")).to_have_attribute("data-answerable", "true")


def list_all_answers(page: Page) -> None:
    """The first list may be empty: what is a likely mistake depends on the answers of other tests."""
    page.locator("[data-view=all]").click()
    expect(page.locator(".review")).to_have_attribute("data-state", "shown", timeout=30_000)
    page.locator(".review .row").first.wait_for()


def open_history(page: Page) -> None:
    page.locator(".row .by").first.click()
    expect(page.locator(".history li:visible").first).to_be_visible()


def race_a_little(page: Page) -> None:
    race = page.locator(".race")
    page.keyboard.press("Space")
    expect(race).to_have_attribute("data-rounds", re.compile(r"^\d{2,}$"), timeout=60_000)
    expect(race).to_have_attribute("data-running", "true")
    page.keyboard.press("Space")
    expect(race).to_have_attribute("data-running", "false", timeout=60_000)


def show_first_picks(page: Page) -> None:
    page.get_by_role("button", name="first picks").click()
    expect(page.locator(".firsts img:visible").first).to_be_visible()


def select_some(page: Page) -> None:
    for key in ("ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator(".tile[data-mark=picked]").first).to_be_visible()


def upload_nothing(page: Page) -> None:
    page.locator(".file").set_input_files({"name": "nothing.png", "mimeType": "image/png", "buffer": b""})
    expect(page.locator(".trouble")).to_contain_text("the file is empty")


def look_in_the_middle(page: Page) -> None:
    for key in ("+", "ArrowLeft"):
        page.keyboard.press(key)


def list_what_is_in_view(page: Page) -> None:
    page.get_by_role("button", name="List items in view").click()
    page.locator(".found li").first.wait_for()


@dataclass(frozen=True)
class Visit:
    """A page: its address, what is there as soon as it is, and the states that it is brought into in turn."""

    address: str
    there: str
    states: Mapping[str, Reach] = field(default_factory=dict)


VISITS = {
    "label": Visit(
        "?project=digits&session={labeled}",
        ".card[data-answerable=true]",
        {
            "a correction's menu": correct_in_strip,
            "an image looked at closely": look_closer,
            "the settings": open_menu("Settings"),
            "the menu for demos": open_menu("Demo"),
        },
    ),
    "grid": Visit(
        "?project=digits&session={gridded}&grid=28",
        ".card.grid[data-answerable=true]",
        {"marks": mark_some, "the last grid": go_back_to_last_grid},
    ),
    "find": Visit("?project=digits&session={labeled}&find=digit%2046", ".card.grid[data-answerable=true]"),
    "similar": Visit(
        "similar?project=digits&session={labeled}&like=443",
        ".card.similar[data-answerable=true] .tile",
        {"items selected": select_some, "a sentence about an upload": upload_nothing},
    ),
    "plain": Visit("?project=digits&session={labeled}&plain=1", ".m-plain img"),
    "projects": Visit("projects", ".st-key-new"),
    "review": Visit(
        "review?project=digits&session={labeled}",
        ".review [data-view=all]",
        {"all answers": list_all_answers, "a history": open_history},
    ),
    "compare": Visit(
        "compare?project=digits&session={labeled}&view=hyperplane", ".compare[data-state=shown] .line"
    ),
    "race": Visit(
        "compare?project=digits&session={labeled}&view=race",
        ".race[data-state=shown] .line",
        {"after some rounds": race_a_little, "the first picks": show_first_picks},
    ),
    "progress": Visit("progress?project=digits&session={labeled}", ".progress[data-state=shown]"),
    "map": Visit(
        "map?project=digits&session={labeled}",
        ".map[data-settled=true][data-hyperplane=true]",
        {"an item in the middle": look_in_the_middle, "the items in view": list_what_is_in_view},
    ),
    "people": Visit("people?project=digits&session={labeled}", ".people[data-state=shown] tbody tr"),
    "decide": Visit("people?project=digits&session={labeled}&view=decide", ".card[data-state=empty]"),
    "sign-in": Visit("sign-in?project=digits", ".st-key-door input"),
}

SCREENS = {
    "desktop-light": {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"},
    "phone-dark": {
        "viewport": {"width": 390, "height": 844},
        "color_scheme": "dark",
        "has_touch": True,
    },
}
GRAVE = {"serious", "critical"}


@pytest.fixture(scope="module")
def sessions(server: Server, browser: Browser) -> dict[str, str]:
    """One with answers of each kind, one with a grid that was sent; the pool has a map."""
    make_map(server.pool)
    page = browser.new_page()
    labeling = Labeling(page, f"{server.url}/?project=digits&session=new")
    for key in "ynsmn":
        labeling.press(key)
    page.close()
    page = browser.new_page()
    grid = Gridding(page, f"{server.url}/?project=digits&session=new&grid=28")
    grid.mark("yes", "no", "skip", "unsure")
    grid.send()
    page.close()
    return {"labeled": labeling.session, "gridded": grid.session}


@pytest.fixture(scope="module")
def screen(browser: Browser, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """A browser on such a screen, which compiles the pages' scripts once."""
    made = browser.new_context(**SCREENS[request.param])
    yield made
    made.close()


@pytest.fixture
def page(screen: BrowserContext) -> Iterator[Page]:
    """A page of somebody who has been nowhere before."""
    made = screen.new_page()
    yield made
    made.evaluate(FORGET)
    made.close()


QUICK = {("phone-dark", "grid")}
LOOKS = [
    look if look in QUICK else thorough(*look) for look in ((s, name) for s in SCREENS for name in VISITS)
]
"""Where people are most of their time, on some screen; all pages on all screens at the larger scale."""


@pytest.mark.parametrize(("screen", "name"), LOOKS, indirect=["screen"])
def test_no_page_has_a_serious_finding(
    server: Server, sessions: dict[str, str], page: Page, name: str
) -> None:
    """Neither in light on a desktop nor in dark on a phone, in whatever state it is."""
    visit = VISITS[name]
    page.goto(f"{server.url}/{visit.address.format(**sessions)}")
    page.locator(visit.there).first.wait_for(timeout=30_000)
    page.wait_for_timeout(800)
    found = {"at first": grave_findings(page)}
    for state, reach in visit.states.items():
        reach(page)
        page.wait_for_timeout(300)
        found[state] = grave_findings(page)
    assert [f"{state}: {grave}" for state, graves in found.items() for grave in graves] == []


def grave_findings(page: Page) -> list[str]:
    """The rule, the element, and why."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response
    assert len(found["passes"]) > 10
    return [
        f"{finding['id']}: {node['target']}: {node['failureSummary']}"
        for finding in found["violations"]
        if finding["impact"] in GRAVE
        for node in finding["nodes"]
    ]


def test_everything_on_the_card_can_be_done_by_keyboard_alone(server: Server, labeling: Labeling) -> None:
    """Answers by letters and by the buttons, a closer look, undo, a correction, another strategy."""
    keys = labeling.page.keyboard
    labeling.press("y")
    labeling.press("n")
    tab_to(labeling.page, "Unsure")
    labeling.press("Enter")
    labeling.press("s")
    labeling.press("u")
    tab_to(labeling.page, "Zoom")
    keys.press("Space")
    expect(labeling.page.locator(".frame")).to_have_attribute("data-zoomed", "true")
    keys.press("Escape")
    tab_to(labeling.page, "Correct it")
    keys.press("Enter")
    keys.press("ArrowRight")
    keys.press("Enter")
    labeling.wait()
    before = labeling.selection
    tab_to(labeling.page, "Strategy:")
    keys.press("Enter")
    expect(labeling.page.get_by_role("radio", name=re.compile("^Margin index"))).to_be_visible()
    labeling.page.get_by_role("radio", name=re.compile("^Margin index")).focus()
    keys.press("ArrowDown")
    keys.press("Escape")
    expect(labeling.card).not_to_have_attribute("data-painted-selection", before, timeout=30_000)
    labeling.wait()
    labeling.press("ArrowLeft")
    stored = server.answers(labeling.session)
    assert [row["answer"] for row in stored] == ["yes", "no", "unsure", "skip", "undo", "skip", "no"]
    assert stored[5]["corrects"] == stored[0]["id"]


def test_whatever_has_the_focus_shows_it(labeling: Labeling) -> None:
    """An outline three pixels wide, on each part of the card that Tab reaches; none of them is hidden."""
    labeling.press("y")
    reached = []
    tab_to(labeling.page, "Zoom")
    for _ in range(7):
        name, outline, opacity = labeling.page.evaluate(FOCUSED)
        reached.append(name)
        assert (outline, opacity) == ("3px", "1"), name
        labeling.page.keyboard.press("Tab")
    assert [name.split()[0] for name in reached] == ["Zoom", "No", "Skip", "Yes", "Undo", "Unsure", "Item"]


def test_a_click_beside_the_controls_draws_no_frame_around_the_page(labeling: Labeling) -> None:
    """The page's own area then has the focus, and the next key would make it visible."""
    page = labeling.page
    page.mouse.click(8, 400)
    labeling.press("n")
    assert page.evaluate("document.activeElement.dataset.testid") == "stMain"
    frame = "(main) => getComputedStyle(main, '::before').content"
    assert page.get_by_test_id("stMain").evaluate(frame) == "none"


FOCUSED = """() => {
    const inner = document.activeElement.shadowRoot?.activeElement;
    const at = inner ?? document.activeElement;
    const name = at.getAttribute('aria-label') ?? at.innerText ?? '';
    const { outlineWidth, opacity } = getComputedStyle(at);
    return [name.trim(), outlineWidth, opacity];
}"""


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the focus is on what is called so."""
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUSED)[0])
        if name in reached[-1][:60]:  # a part of the page that scrolls has the focus, too, with all its texts
            return
    raise AssertionError(f"Tab does not reach {name}, only {reached}")
