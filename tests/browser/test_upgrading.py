"""A browser that knew the program as Marginalia: what it kept is taken over."""

from __future__ import annotations

import json
import time
import uuid

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.labeling import Labeling
from tests.browser.many import Gridding
from tests.browser.served import Server

FORMER_KEYS = "Object.keys(localStorage).filter((key) => key.startsWith('marginalia'))"


def test_answers_that_were_not_sent_are_sent_once(server: Server, labeling: Labeling) -> None:
    """They leave the store when they are saved; a second reload sends nothing."""
    item, selection = labeling.item, labeling.selection
    answer = {
        "id": str(uuid.uuid4()),
        "session": labeling.session,
        "item": item,
        "selection": selection,
        "answer": "no",
        "browser_time": int(1000 * time.time()),
    }
    key = f"marginalia/digits/{labeling.session}/{answer['id']}"
    entry = json.dumps({"place": 0, "answer": answer})
    labeling.page.evaluate("([key, entry]) => localStorage.setItem(key, entry)", [key, entry])
    for _ in range(2):
        labeling.page.reload()
        labeling.wait()
        labeling.page.wait_for_function(f"() => !{FORMER_KEYS}.length")
    stored = [(row["item"], row["answer"]) for row in server.answers(labeling.session)]
    assert stored == [(item, "no")]


@pytest.mark.thorough
def test_marks_that_were_not_sent_are_there(server: Server, context: BrowserContext) -> None:
    """Under their new name; the old one is gone."""
    grid = Gridding(context.new_page(), f"{server.url}/?project=digits&session=new&grid=12")
    grid.mark("no", "yes")
    grid.page.evaluate("""() => {
      for (const key of Object.keys(localStorage).filter((key) => key.startsWith("closecall-draft/"))) {
        localStorage.setItem(key.replace("closecall", "marginalia"), localStorage.getItem(key));
        localStorage.removeItem(key);
      }
    }""")
    assert grid.page.evaluate(FORMER_KEYS)
    grid.page.reload()
    grid.wait()
    assert grid.marks[:3] == ["no", "yes", ""]
    assert grid.page.evaluate(FORMER_KEYS) == []


@pytest.mark.thorough
def test_a_name_is_remembered(server: Server, context: BrowserContext) -> None:
    """The cookie of before says who labels, until there is a newer one."""
    context.add_cookies([{"name": "marginalia_name", "value": "Grace%20H", "url": server.url}])
    page = context.new_page()
    page.goto(f"{server.url}/?project=digits&session=new")
    expect(page.get_by_text("Grace H").first).to_be_visible(timeout=30_000)
    page.wait_for_function("() => document.cookie.includes('closecall_name=Grace%20H')")
    context.add_cookies([{"name": "closecall_name", "value": "Ada", "url": server.url}])
    page.goto(f"{server.url}/?project=digits&session=new")
    expect(page.get_by_text("Ada", exact=True).first).to_be_visible(timeout=30_000)
