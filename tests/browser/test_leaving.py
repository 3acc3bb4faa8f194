"""Closed, crashed and further tabs: nobody is locked out by oneself, and other people's items stay theirs."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from playwright.sync_api import Error as PageError

from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from closecall.storage import AnswerRecord, new_id
from tests.browser.alike import Alike
from tests.browser.labeling import ANSWERABLE_AND_SAVED, Labeling, at_rest
from tests.browser.many import Finding, Gridding
from tests.browser.mapped import make_map
from tests.browser.plain import PlainLabeling
from tests.browser.served import Server, move_beside
from tests.browser.test_blind import Blindly
from tests.scale import scaled, thorough
from tests.words_kit import every_drawing, trained, write_drawings, write_pair

SEED = 23
VISITS = scaled(quick=10, all=30, long=100)
COPIES = scaled(quick=1, all=1, long=2)
CONTESTED = scaled(quick=3, all=6, long=16)
"""What the visits need: copies of each drawing, and items to decide about."""

PATIENCE = 60_000

SAID_OF_OTHERS = ("session's view", "sessions' views", "Other owners", "has an answer", "nothing to decide")
"""Parts of the sentences that must not be said to a lone person before all items have answers."""

# Pages on which an item is answered: how each is opened, and how one item is answered there.


def decide(page: Page, url: str) -> Page:
    page.goto(url)
    expect(page.locator(ANSWERABLE_AND_SAVED)).to_have_count(1, timeout=PATIENCE)
    return page


def compare_blindly(page: Page, url: str) -> Labeling:
    page.goto(url)
    begin, card = page.get_by_role("button", name="Begin", exact=True), page.locator(".card")
    expect(begin.or_(card).first).to_be_visible(timeout=PATIENCE)
    if begin.is_visible():
        begin.click()
    blindly = Blindly(page)
    blindly.wait()
    return blindly


def find(page: Page, url: str) -> Finding:
    finding = Finding(page, url)
    finding.wait()
    return finding


def look_alike(page: Page, url: str) -> Alike:
    alike = Alike(page, url)
    alike.wait()
    return alike


def press(labeling: Labeling | PlainLabeling) -> None:
    labeling.press("n")


def decide_on(page: Page) -> None:
    page.keyboard.press("n")
    expect(page.locator(".card[data-saving='0']")).to_have_count(1, timeout=PATIENCE)


def send_one(grid: Gridding) -> None:
    grid.mark("no")
    grid.send()


def answer_found(finding: Finding) -> None:
    place = finding.free[0]
    finding.mark_place(place, "yes")
    finding.press("Enter")
    expect(finding.tile(place)).to_have_attribute("data-settled", "", timeout=PATIENCE)
    finding.wait()


def answer_alike(alike: Alike) -> None:
    place = alike.marks.index("")
    alike.tile(place).click()
    alike.page.locator("[data-answer=no]").click()
    alike.wait()
    assert alike.marks[place] == "no"


LABELED: dict[str, tuple[Callable[[Page, str], Any], Callable[[Any], None]]] = {
    "": (Labeling, press),
    "?classes=1": (Labeling, press),
    "?plain=1": (PlainLabeling, press),
    "?grid=12": (Gridding, send_one),
    "?grid=60": (Gridding, send_one),
    "?find=0": (find, answer_found),
    "?find=a+seven&by=words": (find, answer_found),
    "similar?like={item}": (look_alike, answer_alike),
    "compare?view=blind": (compare_blindly, press),
    "people?view=decide": (decide, decide_on),
}

WATCHED = {
    "review": ".review[data-state=shown]",
    "compare?view=hyperplane": ".card[data-state=shown]",
    "compare?view=race": ".st-key-compare",
    "map": ".map[data-hyperplane=true]",
    "progress": ".st-key-progress",
    "people": ".st-key-team",
    "describe": ".st-key-describe",
    "projects": ".st-key-projects",
}
"""Of each other page: what is there once it is."""


def visits() -> list[list[str]]:
    """The pages that each tab visits: all of them in turn, each time in another order."""
    rng, paths, tabs = random.Random(SEED), [], []
    while len(tabs) < VISITS:
        if not paths:
            paths = rng.sample([*LABELED, *WATCHED], len(LABELED) + len(WATCHED))
        tabs.append([paths.pop() for _ in range(min(len(paths), rng.choice([1, 1, 2])))])
    return tabs


# Ways to leave a tab


def close(page: Page) -> None:
    page.close()


def close_as_people_do(page: Page) -> None:
    with page.expect_event("close"):
        page.close(run_before_unload=True)


def go_elsewhere(page: Page) -> None:
    page.goto("about:blank")
    page.close()


def crash(page: Page) -> None:
    """End the page's process, so that the page can't say that it is closed."""
    with page.expect_event("crash"), pytest.raises(PageError):
        page.goto("chrome://crash")
    page.close()


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    """Drawings that can be searched by words, with a map; two grids of 60 need more than there are."""
    return drawn(tmp_path_factory.mktemp("drawn"), 1)


@pytest.fixture(scope="module")
def large_pool(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Pool:
    """Drawings for all visits of one person."""
    if COPIES == 1:
        return request.getfixturevalue("pool")
    return drawn(tmp_path_factory.mktemp("many-drawn"), COPIES)


def drawn(root: Path, copies: int) -> Pool:
    folder = write_pair(root / "clip", pair=trained(10))
    write_drawings(root / "drawings", list(every_drawing()) * copies, 1)
    pool = build(source_from(f"onnx:{folder}:{root / 'drawings'}", use_classes=False), root / "pool")
    make_map(pool.path)
    return pool


@pytest.fixture
def small(server: Server, pool: Pool, tmp_path: Path) -> Server:
    return project_of(pool, 3, server, tmp_path)


@pytest.fixture
def large(server: Server, large_pool: Pool, tmp_path: Path) -> Server:
    return project_of(large_pool, CONTESTED, server, tmp_path)


def project_of(pool: Pool, contested: int, server: Server, made: Path) -> Server:
    """A project on the server of all tests, with two questions, and items to decide about."""
    key = f"small-{made.name}"
    with Workspace(made / "made") as workspace:
        workspace.create(NewProject(str(pool.path), "Is it a seven?"), key=key)
        project = workspace.project(key)
        project.add_concept("Is it a two?")
        disagree(project, contested)
    return move_beside(made / "made" / key, key, server)


def disagree(project: OpenProject, contested: int) -> None:
    """Let Bob and Cleo give other answers about some items, and Bob alone a yes and a no."""
    assert project.pool is not None
    items, sessions = project.pool.ids.tolist(), {}
    for name in ("Bob", "Cleo"):
        sessions[name] = project.log.start_session(1, name, "random").id
    said = [("Bob", items[-1], "yes"), ("Bob", items[-2], "no")]
    for item in items[-2 - contested : -2]:
        said += [("Bob", item, "yes"), ("Cleo", item, "no")]
    project.log.append_answers(
        [
            AnswerRecord(
                id=new_id(),
                concept_id=1,
                session_id=sessions[name],
                annotator=name,
                item=item,
                answer=word,
                browser_time=time,
            )
            for time, (name, item, word) in enumerate(said)
        ]
    )


def address(server: Server, path: str, *, session: str = "") -> str:
    name = f"{path}{'&' if '?' in path else '?'}project={server.key}"
    return f"{server.url}/{name}" + (f"&session={session}" if session else "")


def words_on(page: Page) -> str:
    """All that is written on the page, and what is said of its tiles."""
    tiles = page.locator(".tile").evaluate_all("tiles => tiles.map((tile) => tile.ariaLabel ?? '')")
    return " ".join([*page.locator("main, .card").all_inner_texts(), *tiles])


def require_no_lock(page: Page) -> None:
    """Check that nothing is said of others' views, and that there is no end."""
    said = words_on(page)
    assert not [words for words in SAID_OF_OTHERS if words in said], (page.url, said)


def asked(server: Server, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{server.database}?mode=ro", uri=True)) as log:
        return log.execute(query).fetchall()


def n_answers(server: Server) -> int:
    return int(asked(server, "SELECT count(*) FROM answers")[0][0])


def require_each_once(server: Server) -> None:
    """Check that nobody was asked about an item again that they had answered."""
    query = """
        SELECT annotator, concept_id, item FROM answers
        WHERE selection_id IS NOT NULL AND undoes IS NULL AND corrects IS NULL
    """
    again = [what for what, times in Counter(asked(server, query)).items() if times > 1]
    assert again == []


@pytest.fixture(params=[None, thorough("Ada")])
def lone(contexts: list[BrowserContext], large: Server, request: Any) -> BrowserContext:
    """The browser of a person without a name, and of one with a name."""
    if request.param is not None:
        contexts[0].add_cookies([{"name": "closecall_name", "value": request.param, "url": large.url}])
    return contexts[0]


def test_a_lone_user_meets_no_lock(large: Server, large_pool: Pool, lone: BrowserContext) -> None:
    """Whatever is opened, answered and left, in whatever order and way: the next tab can answer, too."""
    print(f"The seed is {SEED}.")
    rng, item = random.Random(SEED), int(large_pool.ids[0])
    sessions: set[str] = set()
    crashes = 0
    for paths in visits():
        page = lone.new_page()
        for path in paths:
            url = address(large, path.format(item=item))
            if path in LABELED:
                opened, answered = LABELED[path]
                seen = opened(page, url)
                require_no_lock(page)
                before = n_answers(large)
                answered(seen)
                assert n_answers(large) > before, path
            else:
                page.goto(url)
                expect(page.locator(WATCHED[path]).first).to_be_visible(timeout=PATIENCE)
            at_rest(page)
            require_no_lock(page)
            if "session=" in page.url:
                sessions.add(page.url.split("session=")[1].split("&")[0])
        leave = rng.choice([close, close_as_people_do, go_elsewhere, crash])
        leave(page)
        crashes += leave is crash
    assert 1 <= len(sessions) <= 1 + crashes
    require_each_once(large)


def test_who_waits_for_others_items_gets_them(small: Server, contexts: list[BrowserContext]) -> None:
    """The page says that they are in others' views, and shows them when the other person's tab is closed."""
    grid, other = (Gridding(context.new_page(), address(small, "?grid=60")) for context in contexts)
    assert len(grid.items) == 60
    assert not set(grid.items) & set(other.items)
    other.press("Shift+N", "Enter")
    expect(other.page.locator(".card")).to_contain_text("The last 60 items without an answer are in other")
    grid.page.close()
    expect(other.page.locator(".card.grid .tile")).to_have_count(60, timeout=PATIENCE)


def test_a_crashed_tab_locks_out_other_people_only(
    small: Server, pool: Pool, contexts: list[BrowserContext]
) -> None:
    """A lone person's next tabs can answer all that the crashed one showed; another person has to wait."""
    gone = Gridding(contexts[0].new_page(), address(small, "?grid=60"))
    items = set(gone.items)
    assert len(items) == 60
    crash(gone.page)
    grid = Gridding(contexts[0].new_page(), address(small, "?grid=60"))
    assert grid.session != gone.session
    assert len(grid.items) == 60
    alike = look_alike(contexts[0].new_page(), address(small, f"similar?like={min(items)}"))
    assert set(alike.marks) <= {"", "yes", "no"}
    require_no_lock(alike.page)
    theirs = Labeling(contexts[1].new_page(), address(small, ""))
    assert theirs.item not in items | set(grid.items)
    name = pool.source.name(min(items))
    found = Finding(theirs.page, address(small, f"?find={name}"))
    expect(found.page.locator(".tile")).to_have_attribute("aria-label", f"{name}, in another session's view")


def test_two_tabs_answer_each_item_once(small: Server, contexts: list[BrowserContext]) -> None:
    """They are asked about different items. What both show is answered in one, and the other goes on."""
    first, second = (Labeling(contexts[0].new_page(), address(small, "", session="new")) for _ in range(2))
    for labeling in (first, second):
        labeling.wait_for_what_follows()
    assert first.session != second.session
    assert first.item != second.item
    both = [find(each.page, address(small, "?find=0", session=each.session)) for each in (first, second)]
    assert both[0].items == both[1].items
    place = both[0].free[0]
    assert place in both[1].free
    item, _ = both[0].mark_place(place, "yes")
    both[0].press("Enter")
    expect(both[0].tile(place)).to_have_attribute("data-settled", "")
    both[1].mark_place(place, "no")
    both[1].press("Enter")
    expect(both[1].page.locator(".card")).to_contain_text("answered already")
    expect(both[1].tile(place)).to_have_attribute("data-settled", "")
    said = asked(small, f"SELECT answer FROM answers WHERE item = {item}")
    assert said == [("yes",)]
    answer_found(both[1])
    require_each_once(small)
