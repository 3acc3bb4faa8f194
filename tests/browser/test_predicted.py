from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, expect

from closecall.app.engine.model_predictions import CHECK_SECONDS
from closecall.core.pool.pool import Pool
from closecall.storage import Database
from closecall.storage.predictions import Predicted, Predictions
from tests.browser.labeling import Labeling
from tests.browser.many import Gridding
from tests.browser.served import Server, make_demo, move_beside


@pytest.fixture(scope="module")
def predicted(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A project of its own on the server of all tests, without predictions at first."""
    folder = tmp_path_factory.mktemp("predicted")
    make_demo(folder, server)
    return move_beside(folder / server.key, "predicted", server)


def predict(server: Server, model: str, scores: dict[int, float]) -> None:
    with Database.open(server.database) as database:
        rows = (Predicted(item, score, None) for item, score in scores.items())
        Predictions(database).store(1, model, rows, file="scores.csv", digest=model)


@pytest.mark.thorough
def test_predictions_choose_are_confirmed_at_once_and_shown_only_if_wanted(
    predicted: Server, context: BrowserContext
) -> None:
    """Most doubtful first, or where the model and the classifier differ; a reload keeps the way."""
    items = Pool.open(predicted.pool).ids.tolist()
    scores = {item: round((item % 101) / 100, 2) for item in items}
    labeling = Labeling(context.new_page(), f"{predicted.url}/?project=predicted&session=new")
    page = labeling.page
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_role("button", name="End search")).to_be_visible()
    expect(page.get_by_role("radio", name="By predictions")).to_have_count(0)
    predict(predicted, "resnet", scores)
    page.wait_for_timeout(1000 * CHECK_SECONDS)  # then the names of the models are read again
    page.reload()
    page.get_by_role("radio", name="By predictions").click()
    grid = Gridding.__new__(Gridding)
    grid.page, grid.card = page, page.locator(".card.grid")
    # Until the page's run ends, the card of the run before may be there as well.
    expect(page.locator(".finder .found").first).to_have_text("Scores of resnet nearest to 0.5 first")
    expect(page.locator(".finder .found")).to_have_count(1)
    grid.wait()
    doubtful = sorted(items, key=lambda item: (abs(scores[item] - 0.5), item))
    assert grid.items == doubtful[:28]
    expect(page.get_by_role("searchbox")).to_have_count(0)
    expect(page.locator(".chosen")).to_contain_text("Chosen by predictions of another model, round ")
    said = page.locator(".tile .predicted").all_inner_texts()
    assert said == [f"{'yes' if scores[item] > 0.5 else 'no'} {scores[item]:.2f}" for item in doubtful[:28]]
    page.reload()
    grid.wait()
    assert grid.items == doubtful[:28]

    grid.press("s", "Shift+P")
    expected = ["skip", *("yes" if scores[item] > 0.5 else "no" for item in doubtful[1:28])]
    assert grid.marks == expected
    grid.press("u")
    assert grid.marks == ["skip", *[""] * 27]
    page.get_by_role("button", name="As predicted").click()
    assert grid.marks == expected
    page.get_by_role("button", name="Send 28").click()
    expect(grid.card).not_to_have_attribute("data-painted", " ".join(map(str, doubtful[:28])))
    grid.wait()
    stored = {row["item"]: row["answer"] for row in predicted.answers(grid.session)}
    assert stored == dict(zip(doubtful[:28], expected, strict=True))

    page.get_by_role("radio", name="Differ from the classifier").click()
    expect(page.locator(".finder .found")).to_have_text(
        "Where resnet and the classifier differ, farthest from the hyperplane first"
    )
    expect(page).to_have_url(re.compile("order=differing"))
    page.get_by_role("button", name="End search").click()
    labeling.wait()
    expect(page.locator(".frame .predicted")).to_be_hidden()
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("combobox", name="Show predictions of").click()
    page.get_by_role("option", name="resnet").click()
    item = labeling.item
    words = f"resnet predicts {'yes' if scores[item] > 0.5 else 'no'} {scores[item]:.2f}"
    expect(page.locator(".frame .predicted")).to_have_text(words)
    page.keyboard.press("Escape")
    labeling.press("n")
    item = labeling.item
    words = f"resnet predicts {'yes' if scores[item] > 0.5 else 'no'} {scores[item]:.2f}"
    expect(page.locator(".frame .predicted")).to_have_text(words)
