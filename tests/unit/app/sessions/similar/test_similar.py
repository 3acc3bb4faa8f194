from __future__ import annotations

import base64
import io
import json
import shutil
import time
from itertools import cycle

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from closecall.app.api.cards import card_of, submit
from closecall.app.cli.main import main
from closecall.app.indexes.codes import built, coded, n_compared
from closecall.app.indexes.metric import Learning, learn, parameters, what_is_missing
from closecall.app.indexes.recipe import Recipe
from closecall.app.indexes.settings import CANDIDATES
from closecall.app.indexes.similar import KEPT_CODES
from closecall.app.projects.uploads import Uploads
from closecall.app.sessions.similar.query import PAGES, Like, queries_of
from closecall.app.sessions.similar.session import PAGE, SimilarSession
from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import unit_rows
from closecall.core.metric import ITML, Constraints
from closecall.core.metric.validation import GAMMAS
from closecall.core.similar import ByAngle, ExactSearch
from closecall.core.similar.answers import (
    LEAST,
    MAX_PASSES,
    PAIRS,
    SEED,
    check_contradictions,
    pairs_of,
    validated,
)
from closecall.core.similar.index import for_each
from closecall.core.similar.queries import MOST_QUERIES
from closecall.storage import Labels
from tests.projects import (
    answer,
    label,
    marks,
    new_project,
    open_workspace,
    tamper,
    truth_word,
    verified,
)
from tests.similar import settled
from tests.storage_kit import sit_down
from tests.yardsticks import explicit


@pytest.fixture
def similar(project) -> SimilarSession:
    return project.similar_to(project.session())


def look(similar, word, first=0):
    similar.look_for(Like.of(str(word)), first)
    return card_of(similar)


def truly(similar, card, n=PAGE):
    free = [cell for cell in card["cells"] if cell["selection"]][:n]
    return marks(free, [truth_word(similar.session.project, cell["id"]) for cell in free])


def of_class(project, name, n=1):
    pool = project.pool
    return pool.ids[pool.truth(pool.ids) == pool.classes.index(name)][:n].tolist()


def enough_labels(similar, *, each=False):
    """Label what is like a 7 and what is like a 1; learn a metric after both, or after each."""
    for name in ("7", "1"):
        submit(similar, truly(similar, look(similar, of_class(similar.session.project, name)[0]), 12))
        assert not each or similar.learning.wait(600)
    assert similar.learning.wait(600)


def png(project, item, **how):
    kept = io.BytesIO()
    project.pool.source.image(item, 256).save(kept, "PNG", **how)
    return kept.getvalue()


def sent(raw, name="seven.png"):
    return {"id": "u", "name": name, "data": base64.b64encode(raw).decode("ascii")}


def log_of(similar):
    return list(similar.session.project.log.selections(similar.session.concept.record.id))


def by_brute_force(pool, queries, exclude=()):
    """All items by their least angle to a query, in float64, and these angles."""
    X = pool.rows(np.arange(len(pool))).astype(np.float64)
    angles = np.degrees(
        np.arccos(np.clip(np.round((X @ queries.T.astype(np.float64)).max(axis=1), 12), -1, 1))
    )
    order = np.lexsort((pool.ids, angles))
    order = order[~np.isin(pool.ids[order], list(exclude))]
    return pool.ids[order].tolist(), angles[order]


def test_the_nearest_are_shown_with_their_angles(similar):
    """As brute force in float64 ranks them, without the item itself; each has a selection that says how."""
    pool, item = similar.session.project.pool, of_class(similar.session.project, "7")[0]
    card = look(similar, item)
    ids, angles = by_brute_force(pool, pool.rows_of([item]), {item})
    assert [cell["id"] for cell in card["cells"]] == ids[:PAGE]
    assert np.allclose([cell["value"] for cell in card["cells"]], angles[:PAGE])
    told = card["similar"]
    assert (told["like"]["name"], told["found"], told["total"]) == (f"digit {item}", PAGE * PAGES, len(pool))
    assert (told["search"]["recall"], told["search"]["compared"]) == (1.0, len(pool))
    records = log_of(similar)
    assert [record.id for record in records] == [cell["selection"] for cell in card["cells"]]
    assert {(record.why, record.strategy, record.items_scored) for record in records} == {
        ("similar", "similar", len(pool))
    }
    assert [record.parameters["similar"] for record in records] == [
        {
            "like": str(item),
            "method": "exact",
            "params": {},
            "items": len(pool),
            "metric": None,
            "place": place,
        }
        for place in range(PAGE)
    ]


def test_a_page_without_a_search_says_so(similar):
    """Nothing is chosen, and nothing written, before somebody picks something."""
    card = card_of(similar)
    assert (card["cells"], card["similar"]["like"], log_of(similar)) == ([], None, [])
    similar.go_to(None)
    assert similar.like is None


def test_what_lies_at_hand_is_looked_for_first(project, similar):
    """The item on Label; as soon as there is one, all yes answers."""
    item = card_of(similar.session)["item"]["id"]
    similar.go_to(None)
    assert similar.like == Like(item=item)
    card = card_of(similar)
    submit(similar, marks(card["cells"], ["yes"]))
    other = project.similar_to(project.session(annotator="bob"))
    other.go_to(None)
    assert other.like == Like()
    similar.ask({"id": "a", "like": "label", "first": 0})
    assert similar.like == Like(item=item)


def test_all_yes_answers_are_looked_for_by_the_nearest(similar):
    """An item is as near as the nearest of them; they themselves are not shown."""
    pool = similar.session.project.pool
    submit(similar, truly(similar, look(similar, of_class(similar.session.project, "7")[0])))
    yes = similar.session.concept.standing().labels
    yes = yes.items[yes.yes]
    assert len(yes) > 1
    card = look(similar, "yes")
    ids, angles = by_brute_force(pool, pool.rows_of(yes), set(yes.tolist()))
    assert [cell["id"] for cell in card["cells"]] == ids[:PAGE]
    assert np.allclose([cell["value"] for cell in card["cells"]], angles[:PAGE])
    assert (card["similar"]["like"]["n"], card["similar"]["like"]["of"]) == (len(yes), len(yes))


def seen(card):
    """What Label shows: the number of its round, the question, and the figures of its rounds."""
    return card["round"], card["item"]["selection"], card["history"]


def test_a_look_at_other_items_is_no_round_of_label(project, similar):
    """Label shows the same question again, with the same number, and draws its own rounds only."""
    session = similar.session
    label(session, 5)
    before = seen(card_of(session))
    for first in (0, PAGE):
        assert look(similar, of_class(project, "7")[0], first)["cells"]
        assert seen(card_of(session)) == before
    assert card_of(project.grid(session))["cells"]
    assert seen(card_of(session)) == before
    assert project.leases.has(session.id, session.shown.item)
    assert len(label(session, 1)["history"]["margin"]) == len(before[2]["margin"]) + 1
    assert verified(project)["problems"] == []


def test_a_question_is_chosen_again_after_answers_elsewhere(project, similar):
    """The hyperplane is another one; and so it is if another person got the item meanwhile."""
    session = similar.session
    label(session, 5)
    number, before, _ = seen(card_of(session))
    submit(similar, truly(similar, look(similar, of_class(project, "7")[0]), 3))
    assert seen(card_of(session))[1] != before
    assert seen(card_of(session))[0] > number
    item, before = session.shown.item, session.shown.id
    look(similar, of_class(project, "1")[0])
    bob = project.session(annotator="bob")
    free = project.leases.others(bob.id)
    assert not free.take([item])
    assert card_of(session)["item"]["id"] != item
    assert seen(card_of(session))[1] != before


def test_answers_for_the_audit_are_no_examples(project, similar):
    """What is labeled next must not depend on what the audit drew; the card counts what is left out."""
    session = similar.session
    label(session, 6)
    if not session.concept.counts().yes:
        submit(similar, truly(similar, look(similar, of_class(project, "7")[0]), 3))
    session.set_audit_share(1.0)
    while not (audited := audited_yes(session)):
        label(session, 5)
    yes = session.concept.standing().labels
    trained = yes.items[yes.yes].tolist()
    like = look(similar, "yes")["similar"]["like"]
    assert similar.result.queries.items.tolist() == trained
    assert (like["of"], like["audited"]) == (len(trained), len(audited))
    assert session.concept.counts().yes == like["of"] + like["audited"]
    bob = sit_down(project.database, session.concept.record, "bob")
    for item in trained:
        bob.says("no", item)
    look(similar, trained[0])
    assert look(similar, "yes")["similar"]["problem"].startswith("There are no yes answers yet")
    similar.like, item = None, card_of(session)["item"]["id"]
    similar.go_to(None)
    assert similar.like == Like(item=item)


def audited_yes(session):
    with session.concept.lock:
        labels = session.concept.catch_up().audit_labels()
    return labels.items[labels.yes].tolist()


def test_the_first_metric_may_come_while_a_search_is_made(similar, monkeypatch):
    """The page asks once more, and has it."""
    searched = SimilarSession._searched

    def before_it_came(self, pool, labels):
        with monkeypatch.context() as then:
            then.setattr(Learning, "newest", lambda *_: None)
            found = searched(self, pool, labels)
        assert self.learning.wait(600)
        while not self.checked.is_done:
            time.sleep(0.01)
        return found

    with monkeypatch.context() as slow:
        slow.setattr(SimilarSession, "_searched", before_it_came)
        for name in ("7", "1"):
            card = look(similar, of_class(similar.session.project, name)[0])
            card = submit(similar, truly(similar, card, 12))
    assert card["similar"]["among"]["rows"].keys() == {"original"}
    assert card["similar"]["pending"]
    card = settled(similar)
    assert card["similar"]["among"]["rows"].keys() == {"original", "learned"}


def test_of_very_many_yes_answers_some_are_looked_for(project):
    """Spread evenly; all of them are left out of what is found."""
    items = project.pool.ids[: 2 * MOST_QUERIES]
    labels = Labels(items, np.ones(len(items), dtype=np.bool_), 1)
    queries = queries_of(Like(), project.pool, labels, Uploads(project.folder))
    assert (queries.X.shape[0], queries.n_known) == (MOST_QUERIES, 2 * MOST_QUERIES)
    assert queries.items.tolist() == items.tolist()


def test_nothing_answered_yes_is_a_sentence(similar):
    """Until something was."""
    card = look(similar, "yes")
    assert card["similar"]["problem"].startswith("There are no yes answers yet")
    assert card["cells"] == []


@pytest.mark.parametrize("word", ["", "seven", "-1", "upload-", "upload-../../x", "1" * 30, "١"])
def test_an_address_that_means_nothing_is_told(similar, word):
    """In one sentence, with what is allowed."""
    with pytest.raises(InputError, match="like must be the number of an item"):
        similar.go_to(word)


def test_an_item_that_is_not_there_is_told(similar):
    """Numbers beyond the pool."""
    assert "can't be searched for" in look(similar, 10**6)["similar"]["problem"]


def test_a_held_out_item_is_neither_looked_for_nor_shown(similar):
    """An item that was seen no longer tests anything; another search works as before."""
    project = similar.session.project
    held_out = int(project.pool.held_out.ids[0])
    card = look(similar, held_out)
    assert card["similar"]["problem"] == (
        f"Item {held_out} can't be searched for: it is held out to test the classifier"
    )
    assert card["cells"] == []
    shown = json.dumps(card)
    assert project.pictures.tile(held_out) not in shown
    assert card["similar"]["like"] == card["similar"]["like"] | {"name": str(held_out), "pictures": []}
    assert len(look(similar, int(project.pool.ids[0]))["cells"]) == PAGE


def test_answers_train_and_stay_in_view(similar):
    """The same items, some answered; the next round knows their labels. Sent again, nothing changes."""
    card = look(similar, of_class(similar.session.project, "7")[0])
    given = marks(card["cells"], ["yes", "no", None, "yes"])
    after = submit(similar, given)
    assert (after["acked"], after["refused"]) == ([one["id"] for one in given], [])
    assert [cell["id"] for cell in after["cells"]] == [cell["id"] for cell in card["cells"]]
    assert [cell.get("stands") for cell in after["cells"]][:4] == ["yes", "no", None, "yes"]
    assert after["round"] == card["round"] + 1
    assert log_of(similar)[-1].n_labels == 3
    again = submit(similar, given)
    assert again["acked"] == [one["id"] for one in given]
    assert len(list(similar.session.project.log.answers_after(similar.session.concept.record.id))) == 3


def test_submissions_are_taken_back_one_after_the_other(similar):
    """Each as a whole, the last one first; the items are open again."""
    card = look(similar, of_class(similar.session.project, "7")[0])
    first = marks(card["cells"], ["yes"] * 3)
    card = submit(similar, first)
    second = marks([cell for cell in card["cells"] if cell["selection"]], ["no"] * 2)
    card = submit(similar, second)
    for expected in (second, first):
        undo = card["similar"]["undo"]
        assert {one["undoes"] for one in undo} == {one["id"] for one in expected}
        card = submit(
            similar,
            [
                answer({"item": {"id": one["item"], "selection": None}}, "undo", undoes=one["undoes"])
                for one in undo
            ],
        )
        assert card["refused"] == []
    assert card["similar"]["undo"] == []
    assert all(cell["selection"] for cell in card["cells"])
    assert similar.session.concept.counts().answered == 0


def test_a_page_that_is_answered_gives_way_to_the_next(similar):
    """And the pages can be turned, but not beyond the last."""
    item = of_class(similar.session.project, "7")[0]
    card = look(similar, item)
    after = submit(similar, truly(similar, card))
    assert (after["similar"]["first"], after["refused"]) == (PAGE, [])
    assert after["cells"][0]["place"] == PAGE
    assert look(similar, item, 10**6)["similar"]["first"] == PAGE * (PAGES - 1)
    assert {cell["stands"] for cell in look(similar, item, -3)["cells"]} <= {"yes", "no"}


def test_what_others_have_in_view_is_held(project, similar):
    """It can't be answered by two at the same time."""
    item = of_class(project, "7")[0]
    other = project.similar_to(project.session(annotator="bob"))
    theirs = {cell["id"] for cell in look(other, item)["cells"]}
    card = look(similar, item)
    assert {cell["id"] for cell in card["cells"]} == theirs
    assert {cell["stands"] for cell in card["cells"]} == {"held"}
    assert card["similar"]["search"]["recall"] == 1.0


def test_an_upload_is_kept_and_looked_for(project, similar):
    """By its digest: the same image is one upload, and the item that it shows is the nearest."""
    item = of_class(project, "7")[0]
    similar.upload(sent(png(project, item)))
    card = card_of(similar)
    assert card["similar"]["problem"] is None
    assert card["cells"][0]["id"] == item
    like = similar.like
    similar.upload(sent(png(project, item), "again.png"))
    assert similar.like == like
    assert len(list((project.folder / "uploads").iterdir())) == 2
    assert log_of(similar)[0].parameters["similar"]["like"] == f"upload-{like.digest}"


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (b"", "“it.png” can't be used: the file is empty"),
        (b"Dear Sir or Madam", "“it.png” can't be used: it is not an image of a supported format"),
        ("long", "“it.png” can't be used: it is too large (20,000,000 bytes at most, got 20,000,001)"),
        ("corrupt", "“it.png” can't be used: the image is damaged or incomplete"),
        ("wide", "“it.png” can't be used: it has more than 100,000,000 pixels"),
    ],
)
def test_what_is_no_image_is_a_sentence(project, similar, raw, complaint):
    """What was looked for before stays; nothing is kept."""
    before = look(similar, of_class(project, "7")[0])
    if raw == "long":
        raw = bytes(20_000_001)
    elif raw == "corrupt":
        raw = png(project, 0)[:-300]
    elif raw == "wide":
        kept = io.BytesIO()
        Image.new("1", (20_000, 9_000)).save(kept, "PNG")
        raw = kept.getvalue()
    similar.upload(sent(raw, "it.png"))
    card = card_of(similar)
    assert complaint in card["similar"]["problem"]
    assert [cell["id"] for cell in card["cells"]] == [cell["id"] for cell in before["cells"]]
    assert not (project.folder / "uploads").exists()


@pytest.mark.parametrize(
    "wrong", [{"id": "c"}, {"id": "d", "like": 7, "first": 0}, {"id": "e", "like": "7", "first": "x"}]
)
def test_what_a_browser_asks_for_is_checked(similar, wrong):
    """And heard once: it says the same at each run of the page."""
    with pytest.raises(InputError, match="must have like and first"):
        similar.ask(wrong)
    similar.ask({"id": "a", "like": "7", "first": 0})
    similar.look_for(Like(item=8))
    similar.ask({"id": "a", "like": "7", "first": 0})
    assert similar.like == Like(item=8)
    similar.upload("nothing")
    assert similar.problem is None
    similar.upload({"name": "x.png", "data": "§"})
    assert similar.problem is not None


@pytest.mark.parametrize("name", ["scan", "table", "tables", "orders"])
def test_hashed_searches_rank_exactly_what_they_retrieve(project, name):
    """Angles are exact, ascending, and those of the items; with all rows compared nothing near is lost."""
    pool = project.pool
    search = built(Recipe(name), pool, *coded(pool, None, lambda done, of: None))  # noqa: ARG005
    X = pool.rows(np.array([3]))
    found = search.neighbours(X, 50, exclude=pool.ids[3:4])
    exact = ExactSearch(ByAngle(pool)).neighbours(X, 50, exclude=pool.ids[3:4])
    assert found.ids.tolist() == exact.ids.tolist()
    assert found.values.tolist() == exact.values.tolist()
    assert (found.compared, found.items) == (len(pool), len(pool))


@pytest.mark.parametrize(
    ("structure", "n_queries", "expected"),
    [
        ("table", 1, 100_000),
        ("table", 9, 100_000),
        ("table", 20, 50_000),
        ("table", 99, 20_000),
        ("tables", 1, 20_000),
        ("orders", 7, 20_000),
    ],
)
def test_many_examples_divide_what_a_table_compares(structure, n_queries, expected):
    """A tenth of a million items each, as long as that is no more than all; but never less than others."""
    candidates, compared = for_each(
        CANDIDATES, n_compared(10**6, Recipe(structure).value("share")), n_queries, 10**6
    )
    assert (candidates, compared) == (max(CANDIDATES // n_queries, 256), expected)


def test_an_index_is_built_beside_the_page(similar):
    """Until it is there the exact scan stands in and says so; what is then told is of the index."""
    similar.set_method("tables")
    card = look(similar, of_class(similar.session.project, "7")[0])
    if (awaited := card["similar"]["search"]["awaited"]) is not None:
        assert awaited["label"] == "Hashing, bucket tables"
        assert card["similar"]["search"]["method"] == "Exact scan"
    card = settled(similar)
    told = card["similar"]["search"]
    assert (told["method"], told["awaited"], told["recall"]) == ("Hashing, bucket tables", None, 1.0)
    assert log_of(similar)[-1].parameters["similar"]["method"] == "tables"
    with pytest.raises(
        InputError, match="method must be one of exact, scan, table, tables, orders, ball, got 'tree'"
    ):
        similar.set_method("tree")


def test_other_codes_may_be_compared(similar):
    """The log says whose; what can't be fitted is told, and the exact scan goes on."""
    similar.set_method("scan")
    look(similar, of_class(similar.session.project, "7")[0])
    settled(similar)
    similar.set_codes("klsh")
    assert settled(similar)["similar"]["search"]["recall"] == 1.0
    assert log_of(similar)[-1].parameters["similar"]["params"]["family"] == "klsh"
    with pytest.raises(InputError, match=r"codes must be one of lsh, .*, got 'md5'"):
        similar.set_codes("md5")


def test_indexes_of_few_families_are_kept(similar):
    """Each takes memory: those that were asked for last stay."""
    similar.set_method("scan")
    for codes in ("spectral", "klsh", "shift-invariant", "lsh"):
        similar.set_codes(codes)
        look(similar, of_class(similar.session.project, "7")[0])
        settled(similar)
    kept = similar.session.project.similar._plain
    assert len(kept) == KEPT_CODES
    assert list(kept)[-1] == (Recipe("scan"), None)


def test_codes_may_learn_from_the_answers(similar):
    """From five of each on; again when there are a quarter more. Which answers it was, the log says."""
    similar.set_method("scan")
    similar.set_codes("ksh")
    item = of_class(similar.session.project, "7")[0]
    look(similar, item)
    awaited = settled(similar)["similar"]["search"]["awaited"]
    assert awaited["problem"].endswith("need at least 5 yes and 5 no answers, got 0 and 0")
    submit(similar, truly(similar, look(similar, item), 12))
    look(similar, item)
    taught = settled(similar)["similar"]["search"]["taught"]
    assert taught == {"used": 12, "of": 12, "paired": None, "pairs": None}
    found_by = log_of(similar)[-1].parameters["similar"]["params"]
    assert (found_by["family"], found_by["labels"]) == ("ksh", 12)
    label(similar.session, 6)
    for other in cycle(of_class(similar.session.project, "2", 2)):
        look(similar, other)
        settled(similar)
        if log_of(similar)[-1].parameters["similar"]["params"]["labels"] > 12:
            break  # till then the old codes serve


def test_who_asks_again_sends_the_last_answers_again(similar):
    """The index is taken up all the same, and no page is turned for answers that are known."""
    item = of_class(similar.session.project, "7")[0]
    given = truly(similar, look(similar, item), 3)
    submit(similar, given)
    similar.set_method("orders")
    patience = time.monotonic() + 600
    while (card := submit(similar, given))["similar"]["pending"]:
        assert time.monotonic() < patience
        time.sleep(0.01)
    assert card["similar"]["search"]["method"] == "Hashing, permuted orders"
    rest = truly(similar, card)
    assert submit(similar, rest)["similar"]["first"] == PAGE
    assert submit(similar, rest)["similar"]["first"] == PAGE
    similar.look_for(similar.like, 0)
    assert submit(similar, rest)["similar"]["first"] == 0


def test_a_metric_is_learned_as_soon_as_there_are_labels(similar):
    """Before that a sentence says what is missing; afterwards both metrics can be compared."""
    card = look(similar, of_class(similar.session.project, "7")[0])
    assert card["similar"]["metric"]["missing"].endswith(f"{LEAST} yes and {LEAST} no are missing")
    similar.set_view("learned")
    assert {cell["list"] for cell in card_of(similar)["cells"]} == {"original"}
    enough_labels(similar, each=True)
    card = card_of(similar)
    assert (card["similar"]["metric"]["labels"], card["similar"]["metric"]["newer"]) == (12, True)
    assert {cell["list"] for cell in card["cells"]} == {"learned"}
    card = look(similar, of_class(similar.session.project, "7", 2)[1])
    assert card["similar"]["metric"]["labels"] == 24
    assert card["similar"]["among"]["rows"].keys() == {"original", "learned"}
    told = log_of(similar)[-1].parameters["similar"]["metric"]
    assert (told["labels"], told["gamma"]) == (24, card["similar"]["metric"]["gamma"])
    assert told["gamma"] in GAMMAS
    similar.set_view("both")
    card = card_of(similar)
    assert [cell["list"] for cell in card["cells"]] == ["original"] * PAGE + ["learned"] * PAGE
    one = {cell["id"]: cell["selection"] for cell in card["cells"]}
    assert all(cell["selection"] == one[cell["id"]] for cell in card["cells"])
    with pytest.raises(InputError, match="view must be one of"):
        similar.set_view("sideways")


def test_angles_under_the_metric_are_those_of_the_mapped_rows(project, similar):
    """Cos θ = qᵀAx / (‖Gq‖‖Gx‖), by G itself; the scan's norms are those of all rows."""
    enough_labels(similar)
    learned, pool = similar.learning.newest(project.pool), project.pool
    G = explicit(learned.metric).G
    X = unit_rows(pool.rows(np.arange(len(pool))).astype(np.float64) @ G.T)
    found = learned.exact.neighbours(pool.rows(np.array([5])), 40, exclude=pool.ids[5:6])
    ids, angles = by_brute_force_of(X, pool.ids, 5)
    assert found.ids.tolist() == ids[:40]
    assert np.allclose(found.degrees, angles[:40], atol=1e-3)
    hashed = built(Recipe("scan"), pool, *coded(pool, learned, lambda done, of: None), metric=learned)  # noqa: ARG005
    found = hashed.neighbours(pool.rows(np.array([5])), 40, exclude=pool.ids[5:6])
    assert found.ids.tolist() == ids[:40]


def by_brute_force_of(X, ids, row):
    angles = np.degrees(np.arccos(np.clip(X.astype(np.float64) @ X[row], -1, 1)))
    order = np.argsort(angles, kind="stable")
    order = order[order != row]
    return ids[order].tolist(), angles[order]


def test_the_slack_is_chosen_once_and_then_the_logs(project, similar):
    """By cross-validation while learning; by the log's γ, which was always 1 in earlier versions, again."""
    enough_labels(similar)
    labels, pool = similar.session.concept.standing().labels, project.pool
    X = pool.rows(np.arange(20))
    chosen = learn(pool, labels, parameters())
    assert chosen.params()["gamma"] == validated(pool.rows_of(labels.items), labels.yes).gamma
    again = learn(pool, labels, chosen.params())
    assert again.params() == chosen.params()
    assert np.array_equal(again.metric.inner(X, X), chosen.metric.inner(X, X))
    assert np.array_equal(again.row_norms, chosen.row_norms)
    former = learn(pool, labels, {**chosen.params(), "gamma": 1.0})
    rows = pool.rows_of(labels.items)
    near, far = pairs_of(labels.yes, PAIRS, SEED)
    plain = ITML(gamma=1.0, max_passes=MAX_PASSES, random_state=SEED).fit(
        rows, Constraints.from_pairs(rows, near, far, random_state=SEED)
    )
    assert former.params()["gamma"] == 1.0
    assert np.array_equal(former.metric.inner(X, X), plain.metric_.inner(X, X))


def test_a_metric_needs_labels_of_both_kinds():
    """The sentence counts what is missing."""
    labels = Labels(np.arange(9), np.arange(9) < 4, 1)
    assert what_is_missing(labels).endswith("answers: 1 yes is missing")
    labels = Labels(np.arange(9), np.arange(9) < 6, 1)
    assert what_is_missing(labels).endswith("answers: 2 no are missing")
    assert what_is_missing(Labels(np.arange(10), np.arange(10) < 5, 1)) is None


def test_contradictory_labels_are_told_with_their_items(project):
    """Two items with the same features, one yes and one no: no metric can part them."""
    X = project.pool.rows(np.array([0, 1, 2, 1]))
    labels = Labels(np.array([10, 11, 12, 13]), np.array([True, True, False, False]), 4)
    with pytest.raises(InputError, match="Items 11 and 13 have the same features"):
        check_contradictions(X, labels)
    check_contradictions(X[:3], Labels(labels.items[:3], labels.yes[:3], 3))


def test_learning_needs_labels_and_a_known_way(project):
    """Each in a sentence."""
    few = Labels(project.pool.ids[:4], np.arange(4) < 2, 4)
    with pytest.raises(InputError, match="3 yes and 3 no are missing"):
        learn(project.pool, few, parameters())
    many = Labels(project.pool.ids[:20], np.arange(20) < 10, 20)
    with pytest.raises(InputError, match="learned by itml, got 'magic'"):
        learn(project.pool, many, {**parameters(), "name": "magic"})


def test_pairs_are_of_yes_with_yes_and_yes_with_no():
    """Each once, none of two no answers, no more than wanted."""
    labels = Labels(np.arange(60), np.arange(60) % 3 == 0, 1)
    for wanted in (100, 400, 10_000):
        near, far = pairs_of(labels.yes, wanted, 0)
        assert labels.yes[near].all()
        assert labels.yes[far[:, 0]].all()
        assert not labels.yes[far[:, 1]].any()
        for pairs, most in ((near, 190), (far, 800)):
            assert len(np.unique(np.sort(pairs, axis=1), axis=0)) == len(pairs) == min(wanted // 2, most)


def test_the_search_is_there_again_after_a_restart(tmp_path):
    """The same page with the same selections."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        similar = project.similar_to(project.session())
        similar.upload(sent(png(project, of_class(project, "7")[0])))
        similar.look_for(similar.like, PAGE)
        before = card_of(similar)
        key, session_id = project.key, similar.session.id
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        similar = project.similar_to(project.session(session_id))
        similar.go_to(None)
        after = card_of(similar)
        assert after["cells"] == before["cells"]
        assert submit(similar, marks(after["cells"], ["no"]))["refused"] == []


@pytest.mark.parametrize("view", ["similar", "grid"])
def test_a_selection_that_was_sent_ahead_may_have_the_number_of_a_batch(tmp_path, view):
    """It was on its way to another tab when the batch was shown; both views are there after a restart."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session()
        card = label(session, 1)
        while "yes" not in card["next"]:
            card = card_of(session)
        if view == "similar":
            batch = look(project.similar_to(session), of_class(project, "7")[0])
        else:
            batch = card_of(project.grid(session))
        ahead = card["next"]["yes"]
        assert batch["round"] == ahead["round"]
        session.store([answer(card, "yes", next=ahead["item"]["selection"])])
        assert project.log.last_selection(session.id).round == batch["round"]
        key, session_id = project.key, session.id
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        session = project.session(session_id)
        again = project.similar_to(session) if view == "similar" else project.grid(session)
        assert card_of(again)["round"] > batch["round"] or not card_of(again)["cells"]


def test_label_and_grid_take_turns_with_it(project, similar):
    """Each chooses anew: no item that was answered in the other comes back as open."""
    session = similar.session
    label(session, 2)
    grid = project.grid(session)
    item = card_of(grid)["cells"][0]["id"]
    card = look(similar, item)
    given = marks(card["cells"], ["no"] * 5)
    submit(similar, given)
    assert not {one["item"] for one in given} & {cell["id"] for cell in card_of(grid)["cells"]}
    assert card_of(session)["item"] is not None
    assert look(similar, item)["round"] > card["round"]


@pytest.fixture(scope="module")
def searched_once(tmp_path_factory):
    """A project labeled by all kinds of searches, and by other means between."""
    with open_workspace(tmp_path_factory.mktemp("searched")) as workspace:
        project = new_project(workspace)
        session = project.session()
        similar = project.similar_to(session)
        card_of(project.session(annotator="bob"))
        similar.upload(sent(png(project, of_class(project, "7")[0])))
        submit(similar, truly(similar, card_of(similar), 3))
        enough_labels(similar)
        label(session, 4)
        for method, codes, view in (
            ("tables", "lsh", "both"),
            ("scan", "ksh", "original"),
            ("orders", "spectral", "learned"),
            ("exact", "lsh", "both"),
        ):
            similar.set_method(method)
            similar.set_codes(codes)
            similar.set_view(view)
            look(similar, "yes")
            card = settled(similar)
            assert similar.learning.wait(600)
            submit(similar, truly(similar, card, 2))
        similar.set_view("original")
        card = look(similar, of_class(project, "2")[0], PAGE)
        submit(similar, truly(similar, card, 2))
        card = card_of(similar)
        undo = card["similar"]["undo"]
        submit(
            similar,
            [
                answer({"item": {"id": one["item"], "selection": None}}, "undo", undoes=one["undoes"])
                for one in undo
            ],
        )
        label(session, 2)
    return project.folder


@pytest.fixture
def searched(searched_once, tmp_path):
    """A copy of it."""
    return shutil.copytree(searched_once, tmp_path / searched_once.name)


def test_verify_makes_searches_again(searched):
    """By every method and metric, every item is found at the place that the log says."""
    result = CliRunner().invoke(main, ["verify", str(searched), "--json"])
    findings = json.loads(result.output)
    assert findings["problems"] == []
    assert findings["choices"] > 10
    assert "similar" not in findings["ranks"]


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("json_set(parameters, '$.similar.like', '5')", "what is like 5 has item"),
        ("json_set(parameters, '$.similar.place', 239)", "at place 239, the log has item"),
        (
            "json_set(parameters, '$.similar.like', 'upload-00000000000000000000000000000000')",
            "isn't kept in",
        ),
        ("json_set(parameters, '$.similar.metric.gamma', 0.001)", "at place"),
        ("json_set(parameters, '$.similar.params.seed', 7)", "other parameters today"),
    ],
)
def test_verify_notices_what_was_not_found_so(searched, statement, complaint):
    """Another query, place, metric or method."""
    parts = {".metric": "metric.gamma", ".params": "params.functions"}
    part = next((part for start, part in parts.items() if start in statement), "like")
    where = f"why = 'similar' AND json_extract(parameters, '$.similar.{part}') IS NOT NULL"
    tamper(searched, f"UPDATE selections SET parameters = {statement} WHERE {where}")
    assert any(complaint in problem for problem in problems(searched))


def test_a_log_of_an_earlier_version_still_holds(searched):
    """Which doesn't say what candidates were ranked by, nor how many answers codes could learn from."""
    keys = "'$.similar.params.ranked', '$.similar.params.most_taught'"
    where = "json_extract(parameters, '$.similar.params.family') = 'ksh'"
    tamper(searched, f"UPDATE selections SET parameters = json_remove(parameters, {keys}) WHERE {where}")
    result = CliRunner().invoke(main, ["verify", str(searched), "--json"])
    assert json.loads(result.output)["problems"] == []


def test_verify_notices_items_that_were_not_free(searched):
    """And distances that were not so."""
    tamper(
        searched, "UPDATE selections SET leased = json_array(item), margin = margin + 1 WHERE why = 'similar'"
    )
    found = problems(searched)
    assert any("had an answer or was in another session's view" in problem for problem in found)
    assert any("wᵀx" in problem for problem in found)


def problems(folder):
    result = CliRunner().invoke(main, ["verify", str(folder), "--json"])
    assert result.exit_code == 1
    return json.loads(result.output)["problems"]
