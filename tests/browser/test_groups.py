"""One press answers a whole group of near-duplicates, and one undo takes the whole press back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import expect

from closecall.core.duplicates import Groups, Rule, folder_of, save_groups
from closecall.core.pool.pool import Pool
from tests.browser.labeling import Labeling
from tests.browser.served import Server, free_port

pytestmark = pytest.mark.thorough  # tests/unit/app/sessions/test_group.py and tests/js keep the rules

STRIP = 12  # answers in the strip, and images of a burst on the card


@pytest.fixture(scope="module", params=[3, 14], ids=["all shown", "more than are shown"])
def size(request: pytest.FixtureRequest) -> int:
    """Number of images of each burst."""
    return int(request.param)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, size: int) -> Iterator[Server]:
    """A server of its own: `size` images in a row are a burst."""
    made = Server(tmp_path_factory.mktemp("grouped") / "projects", items=300, port=free_port())
    made.start()
    pool = Pool.open(made.pool)
    leaders = np.arange(len(pool)) // size * size
    groups = Groups(leaders, np.zeros(len(pool), np.float32))
    save_groups(folder_of(pool.path, "bursts"), pool, Rule("bursts", 0.1), groups)
    made.stop()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def grouped(labeling: Labeling, size: int) -> Labeling:
    """The page with an image of a burst in view."""
    wait_for_its_group(labeling, size)
    labeling.wait_for_what_follows()
    return labeling


def wait_for_its_group(labeling: Labeling, size: int) -> None:
    """Until the others of the burst are in view, or eleven of them and the number of the rest."""
    others, shown = labeling.page.locator(".alike .members"), min(size, STRIP)
    expect(others.locator("img")).to_have_count(shown - 1, timeout=30_000)
    expect(others).to_have_text(f"+ {size - shown}" if size > shown else "")
    all_or_these = "all" if size > shown else "these"
    expect(labeling.page.locator(".alike .all")).to_contain_text(f"Answer {all_or_these} {size}")


def burst_of(server: Server, item: int, size: int) -> set[int]:
    """The items of the item's burst."""
    ids = Pool.open(server.pool).ids
    first = int(np.searchsorted(ids, item)) // size * size
    return set(ids[first : first + size].tolist())


def standing(server: Server, labeling: Labeling) -> dict[int, str]:
    """What the session's answers say in the log, without those that were undone."""
    answers = server.answers(labeling.session)
    undone = {answer["undoes"] for answer in answers}
    return {
        answer["item"]: answer["answer"]
        for answer in answers
        if answer["answer"] != "undo" and answer["id"] not in undone
    }


def test_an_undo_takes_a_press_about_a_group_back(server: Server, grouped: Labeling, size: int) -> None:
    """After the server has acknowledged it, and before; the image comes back with its whole group."""
    page, own = grouped.page, grouped.item
    before = page.locator(".strip button.thumb").count()
    burst = burst_of(server, own, size)
    grouped.press("Shift+N")
    assert grouped.item not in burst
    expect(page.locator(".strip button.thumb")).to_have_count(min(before + size, STRIP))
    assert standing(server, grouped) == dict.fromkeys(burst, "no")
    grouped.press("u")
    assert grouped.item == own
    assert standing(server, grouped) == {}
    wait_for_its_group(grouped, size)
    grouped.wait_for_what_follows()
    page.keyboard.press("Shift+Y")
    page.keyboard.press("u")
    grouped.wait()
    assert grouped.item == own
    assert standing(server, grouped) == {}
    wait_for_its_group(grouped, size)
    grouped.press("Shift+Y")
    assert standing(server, grouped) == dict.fromkeys(burst, "yes")


def test_a_member_s_answer_is_undone_by_itself(server: Server, grouped: Labeling, size: int) -> None:
    """From the strip of last answers; the others stay, and so does the image in view."""
    page = grouped.page
    grouped.press("Shift+N")
    now, strip = grouped.item, page.locator(".strip button.thumb")
    given = standing(server, grouped)
    assert len(given) == size
    member = int(strip.nth(strip.count() - 2).get_attribute("data-item") or -1)
    strip.nth(strip.count() - 2).click()
    page.locator("[data-correct=undo]").click()
    expect(page.locator(f'.strip button.thumb[data-item="{member}"]')).to_have_count(0)
    grouped.wait()
    assert grouped.item == now
    assert standing(server, grouped) == {item: word for item, word in given.items() if item != member}
