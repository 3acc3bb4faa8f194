"""What the page of plain widgets says if there is no item."""

from __future__ import annotations

import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.pages.plain import BEFORE_FIRST, BEFORE_MORE, NO_MORE, STOPPED, picture_of
from tests.projects import answer, new_project, open_workspace

ENDED = {"exhausted": True, "done": 69, "total": 69, "held": 0, "stopped": False}


@pytest.mark.parametrize(
    ("waiting", "said"),
    [
        (ENDED | {"exhausted": False, "done": 3}, BEFORE_FIRST),
        (ENDED | {"exhausted": False, "done": 3, "stopped": True}, STOPPED),
        (ENDED | {"done": 3, "stopped": True}, NO_MORE),
        (ENDED | {"done": 40, "held": 3}, BEFORE_MORE),
        (ENDED | {"message": "Only <repeats> are left."}, "Only &lt;repeats&gt; are left."),
    ],
)
def test_the_page_says_why_there_is_no_item(waiting, said):
    """In place of the image, and no item can be answered."""
    shown = picture_of({"item": None, "waiting": waiting, "concept": {"question": "Is it a leaf?"}})
    assert f'<figure class="m-plain" ><p>{said}</p></figure>' in shown


def test_the_end_is_told_from_items_in_others_views(tmp_path):
    """Every item has an answer only when the other session's items have one, too."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace, n_items=69)
        ada, bob = (project.session(annotator=name) for name in ("ada", "bob"))
        grid = project.grid(ada)
        grid.resize(12)
        grid.attend()
        while (card := card_of(bob))["item"]:
            submit(bob, [answer(card, "no")])
        assert "The last 12 items without an answer are in other sessions&#x27; views." in picture_of(card)
        project.close_page(ada)
        while (card := card_of(bob))["item"]:
            submit(bob, [answer(card, "no")])
        assert "<p>Every item has an answer to “Is this a 7?”</p>" in picture_of(card)
