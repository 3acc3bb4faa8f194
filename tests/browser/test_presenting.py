"""Large figures, for an audience: all that a presenter shows is in view, and nothing covers anything."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.labeling import Labeling, resize
from tests.browser.mapped import make_map
from tests.browser.served import Server, make_demo, move_beside
from tests.browser.test_compare import PATIENCE, open_compare
from tests.browser.test_demo import choose, run_to_a_hyperplane
from tests.browser.test_photographs import HEIGHTS, LEAST
from tests.scale import thorough

SCREENS = [(1280, 720), (1440, 900), (1920, 1080)]

SHOWN = [".question", ".frame", ".answer.no", ".answer.skip", ".answer.yes", ".undo"]
"""Parts that a presenter needs, besides the figures and the autopilot's controls."""

FIGURES = [".rows > div:nth-child(1) .value", ".rows > div:nth-child(2) .value", ".counts", ".chosen"]

CONTROLS = [".full-scan", ".autopilot .run", ".autopilot .step", ".autopilot input"]

HEADLINE, FIGURE, TEXT, SMALL = 34, 26, 20, 18
"""Least font sizes in CSS pixels; the last is a fortieth of the height of a small projector's image."""

BY_PAGE = {
    "label": {
        ".question": HEADLINE,
        ".value": FIGURE,
        ".answers .answer": 24,
        ".counts b": FIGURE,
        ".tool span": SMALL,
    },
    "grid": {".question": HEADLINE, ".sending .tool, .send": TEXT, ".marked": SMALL},
    "review": {
        ".title": HEADLINE,
        ".value": FIGURE,
        ".row .name": 24,
        ".score": TEXT,
        ".choice": TEXT,
        ".tab": TEXT,
        ".by, .head span, .notes dt": SMALL,
    },
    "progress": {
        ".title": HEADLINE,
        ".value": FIGURE,
        ".about, h2, .tab": TEXT,
        ".plot text, .charthead .aside, figcaption, .notes dt, .notes small, .audited": SMALL,
    },
    "map": {
        ".title": HEADLINE,
        ".value": FIGURE,
        ".about, .tool": TEXT,
        ".hints, .legend, .notes dt": SMALL,
    },
    "similar": {
        ".title": HEADLINE,
        ".value": FIGURE,
        ".sending .answer": 24,
        ".selected, .metrics li": TEXT,
        ".how, .way, .like .name, .tile .rank, .tile .angle, .among .heading, .notes dt": SMALL,
    },
    "people": {
        ".title": HEADLINE,
        ".value": FIGURE,
        ".about, tbody": TEXT,
        "thead th, .pace, .explained": SMALL,
    },
    "hyperplane": {
        ".title": HEADLINE,
        ".about, .line b": TEXT,
        ".line small, .ticks, .head > span, .hints li": SMALL,
    },
    "race": {
        ".title": HEADLINE,
        ".curves text, .line b, .tab, .control .word, .control > span, .speed": TEXT,
        ".ticks, .head > span, .measure, .round": SMALL,
    },
}
"""Least font sizes of the texts that the back row must read, by page and selector."""

TOOLBAR = ".st-key-toolbar, .st-key-reviewed, .st-key-searching, .st-key-comparing"

SIZES = """(selector) => {
    const hosts = [...document.querySelectorAll('[data-testid=stBidiComponentIsolated]')];
    const roots = [document, ...hosts.map((host) => host.shadowRoot)];
    return roots.flatMap((root) => [...root.querySelectorAll(selector)])
        .filter((one) => one.checkVisibility() && (one.textContent.trim() || one.value))
        .map((one) => parseFloat(getComputedStyle(one).fontSize));
}"""
"""Font sizes of all visible texts that match a selector."""

PLACES = """(parts) => {
    const root = document.querySelector('[data-testid=stBidiComponentIsolated]').shadowRoot;
    const one = (part) => root.querySelector(part) ?? document.querySelector(part);
    return Object.fromEntries(parts.map((part) => {
        const { left, top, right, bottom } = one(part).getBoundingClientRect();
        const hit = root.elementFromPoint((left + right) / 2, (top + bottom) / 2);
        return [part, { left, top, right, bottom, isCovered: !one(part).contains(hit) && !one(part).inert }];
    }));
}"""
"""Where parts are, and whether something covers their middle."""

WORDS = """() => {
    const shadow = (host) => host.shadowRoot;
    const hosts = [...document.querySelectorAll('[data-testid=stBidiComponentIsolated]')];
    const root = hosts.map(shadow).find((one) => one?.querySelector('.table'));
    const found = [];
    for (const place of root.querySelectorAll('.title, .controls, .above, .head, .line .who, .line .pick')) {
        for (const image of place.querySelectorAll('img')) {
            found.push(['image', image.getBoundingClientRect()]);
        }
        const texts = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const text = texts.currentNode;
            if (text.parentElement.closest('.hint, sup') || !text.textContent.trim()) continue;
            const range = document.createRange();
            range.selectNodeContents(text);
            const box = range.getBoundingClientRect();
            if (box.width) found.push([text.textContent, box]);
        }
    }
    return found.map(([text, { left, top, right, bottom }]) => ({ text, left, top, right, bottom }));
}"""
"""The words and images of a comparison's headings and rows, and where each is."""


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two boxes share more than a pixel's rounding."""
    across = min(one["right"], other["right"]) - max(one["left"], other["left"])
    down = min(one["bottom"], other["bottom"]) - max(one["top"], other["top"])
    return across > 1 and down > 1


def check_all_in_view(page: Page, parts: list[str]) -> None:
    for width, height in SCREENS:
        resize(page, width, height)
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            places = page.evaluate(PLACES, [*parts, ".st-key-toolbar"])
            for part, place in places.items():
                where = f"{part} at {width}×{height}, {theme}: {place}"
                assert place["right"] > place["left"], where
                assert place["left"] >= 0, where
                assert place["right"] <= width, where
                assert place["top"] >= 0, where
                assert place["bottom"] <= height, where
                assert part == ".st-key-toolbar" or not place["isCovered"], where
            names = list(places)
            overlaps = [
                (one, other)
                for i, one in enumerate(names)
                for other in names[:i]
                if overlap(places[one], places[other])
            ]
            assert overlaps == [], f"{width}×{height}, {theme}"
        found = page.evaluate(HEIGHTS)
        assert found["frame"]["height"] >= LEAST * found["free"], f"{width}×{height}: {found}"
        sizes = page.locator(".rows .value").evaluate_all(
            "values => values.map((value) => parseFloat(getComputedStyle(value).fontSize))"
        )
        assert sizes[:2] == [46, 46]
        assert min(sizes) >= 26


@pytest.fixture
def presenting(server: Server, labeling: Labeling) -> Labeling:
    """A card with large figures and a hyperplane."""
    labeling.page.goto(f"{labeling.page.url}&size=large")
    labeling.wait()
    for key in "ynn":
        labeling.press(key)
    return labeling


def test_all_is_in_view_of_a_person(presenting: Labeling) -> None:
    check_all_in_view(presenting.page, [*SHOWN, *FIGURES, ".full-scan"])


def test_all_is_in_view_of_the_autopilot(presenting: Labeling) -> None:
    """With the result of a check, too; and pressing a control scrolls nothing."""
    page = presenting.page
    choose(page, "Watch the autopilot")
    presenting.wait()
    run_to_a_hyperplane(presenting)
    check_all_in_view(page, [*SHOWN, *FIGURES, *CONTROLS])
    resize(page, 1280, 720)
    page.get_by_role("button", name="Check against a full scan").click()
    expect(page.locator(".full-scan .note")).to_contain_text("Rank")
    page.get_by_role("button", name="Step").click()
    presenting.wait()
    page.get_by_role("button", name="Check against a full scan").click()
    expect(page.locator(".full-scan .note")).to_contain_text("Rank")
    check_all_in_view(page, [*SHOWN, *FIGURES, *CONTROLS])
    assert page.get_by_test_id("stMain").evaluate("main => main.scrollTop") == 0


@pytest.mark.thorough
def test_advice_hides_neither_figures_nor_controls(presenting: Labeling) -> None:
    """If the margin is full, it scrolls by itself, and the autopilot's controls stay."""
    page = presenting.page
    choose(page, "Watch the autopilot")
    presenting.wait()
    run_to_a_hyperplane(presenting)
    page.evaluate("""() => {
        const root = document.querySelector('[data-testid=stBidiComponentIsolated]').shadowRoot;
        root.querySelector('.advice').textContent = 'There is no more to learn. '.repeat(7);
    }""")
    check_all_in_view(page, [*SHOWN, *FIGURES, *CONTROLS[1:]])


@pytest.mark.parametrize("view", ["race", thorough("hyperplane")])
def test_headings_and_names_of_a_comparison_are_apart(
    server: Server, presenting: Labeling, view: str
) -> None:
    for key in "yn":
        presenting.press(key)
    page = open_compare(server, presenting, view)
    if view == "race":
        page.get_by_role("button", name="Step").click()
        expect(page.locator(".card.race")).to_have_attribute("data-rounds", "1", timeout=PATIENCE)
    expect(page.locator(".line .who b").first).to_be_visible()
    for width, height in SCREENS:
        resize(page, width, height)
        check_words_apart(page, f"at {width}×{height}")
    if view == "race":
        page.get_by_role("button", name="first picks").click()
        expect(page.locator(".line .firsts img").first).to_be_visible()
        check_words_apart(page, "first picks")


ADDRESSES = {
    "label": "/?",
    "grid": "/?grid=20",
    "similar": "/similar?like=yes",
    "hyperplane": "/compare?view=hyperplane",
    "race": "/compare?view=race",
}


@pytest.fixture(scope="module")
def mapped(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A project of its own, with a map."""
    folder = tmp_path_factory.mktemp("presented")
    make_demo(folder, server)
    made = move_beside(folder / server.key, "presented", server)
    make_map(made.pool)
    return made


@pytest.mark.parametrize(
    "name", [one if one in ("label", "review", "map", "similar") else thorough(one) for one in BY_PAGE]
)
def test_the_back_row_can_read_it(mapped: Server, context: BrowserContext, name: str) -> None:
    """On every page that a presenter may show, with the toolbar and the names of the pages."""
    where = f"project={mapped.key}&session=new&size=large"
    labeling = Labeling(context.new_page(), f"{mapped.url}/?{where}")
    for key in "ynynn":
        labeling.press(key)
    page = labeling.page
    path = ADDRESSES.get(name, f"/{name}?")
    page.goto(f"{mapped.url}{path}&project={mapped.key}&session={labeling.session}".replace("?&", "?"))
    expect(page.locator(".card:is([data-state=shown], .map)")).to_be_visible(timeout=PATIENCE)
    if name == "map":
        expect(page.locator(".map")).to_have_attribute("data-hyperplane", "true", timeout=PATIENCE)
    for width, height in SCREENS:
        resize(page, width, height)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (width, height)
        for selector, least in BY_PAGE[name].items():
            sizes = page.evaluate(SIZES, selector)
            assert sizes, selector
            assert min(sizes) >= least, f"{selector} at {width}×{height}: {sizes}"
        outside = f":is({TOOLBAR}) :is(p, input), [data-testid=stTopNavLink] :is(p, span)"
        sizes = page.evaluate(SIZES, outside)
        assert sizes
        assert min(sizes) >= SMALL, f"toolbar at {width}×{height}: {sizes}"


def check_words_apart(page: Page, where: str) -> None:
    words = page.evaluate(WORDS)
    assert any(word["text"] == "H-Hash, weighted" for word in words)
    assert all(word["left"] >= 0 and word["right"] <= page.viewport_size["width"] for word in words), where
    overlaps = [
        (one["text"], other["text"])
        for i, one in enumerate(words)
        for other in words[:i]
        if overlap(one, other)
    ]
    assert overlaps == [], where
