"""Documents are labeled, in every mode, as images are."""

from __future__ import annotations

import json
import math
import shutil
import time
from datetime import UTC
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.api.cards import card_of, submit
from closecall.app.cli.main import main
from closecall.app.display.text_layout import opening, typeset
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.review import Asked, Review
from closecall.app.sessions.similar.query import Like
from closecall.app.sessions.similar.session import PAGE
from closecall.core.errors import InputError
from closecall.core.hashing import MinHash
from closecall.core.pool.build import build
from closecall.core.selection import STRATEGIES
from closecall.core.similar import ByAngle, ExactSearch, HashedSimilarity
from closecall.core.sources import source_from
from tests.projects import answer, new_project, open_workspace, truth_word, wait_for_index
from tests.scale import scaled
from tests.similar import settled

N_TEXTS = 240


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    """The pool of texts about ants and bees, which lie in a folder beside it."""
    folder, rng = tmp_path_factory.mktemp("texts"), np.random.default_rng(0)
    for number in range(N_TEXTS):
        topic = ("ant", "bee")[number % 2]
        file = folder / "texts" / topic / f"{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        words = [f"{topic}{word}" for word in rng.integers(0, 30, 3)]
        words += [f"word{word}" for word in rng.integers(0, 100, 30)]
        file.write_text(f"Subject: {number}\nFrom: me\n\n" + " ".join(rng.permutation(words)))
    build(source_from(f"texts:{folder / 'texts'}"), folder / "pool")
    return folder / "pool"


@pytest.fixture
def project(texts, tmp_path, monkeypatch) -> OpenProject:
    """A project of its own on a copy of that pool."""
    monkeypatch.setattr("closecall.app.indexes.strategies.CHEAP_SECONDS", math.inf)
    pool = shutil.copytree(texts, tmp_path / "pool")
    with open_workspace(tmp_path / "projects") as workspace:
        yield workspace.project(workspace.create(NewProject(str(pool), "Is it about a bee?")))


def label(session, n: int) -> None:
    """Answer n items truly."""
    for _ in range(n):
        card = card_of(session)
        submit(session, [answer(card, truth_word(session.project, card["item"]["id"], "bee"))])


def test_a_session_of_texts_is_labeled_with_every_strategy_and_verified(project):
    """Selections are remade from the log, margins and hyperplanes to the last bit."""
    session = project.session()
    while not (session.concept.counts().yes and session.concept.counts().no):
        label(session, 1)
    for strategy in STRATEGIES:
        wait_for_index(project, strategy)
        session.set_strategy(strategy)
        label(session, scaled(quick=2, all=4))
    session.set_audit_share(0.5)
    label(session, scaled(quick=8, all=12))
    assert session.concept.standing().audited.size
    result = CliRunner().invoke(main, ["verify", str(project.folder), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert not found["problems"]


def test_a_card_of_texts_has_the_text(project):
    """In view and ahead; its thumbnails are pictures of the first lines."""
    session = project.session()
    label(session, 8)
    card = card_of(session)
    read = {kind for part in card["item"]["text"] for kind in [part["kind"]]}
    assert read == {"head", "plain"}
    assert card["item"]["src"].startswith("data:image/png")
    patience = time.monotonic() + 120
    while card["next_is_coming"]:
        assert time.monotonic() < patience
        card = card_of(session)
    for view in card["next"].values():
        assert view["item"]["text"]
    assert all(entry["src"] for entry in card["strip"])


def test_texts_are_hashed_by_codes_of_sparse_rows_only(project, tmp_path):
    """Min-Hash is offered for texts and not for images, kernels for images alone, hyperplanes for both."""
    with open_workspace(tmp_path / "images") as workspace:
        of_images = new_project(workspace).similar.codes
    assert "min-hash" in project.similar.codes
    assert "lsh" in project.similar.codes
    assert "klsh" not in project.similar.codes
    assert "lsh" in of_images
    assert "klsh" in of_images
    assert "min-hash" not in of_images


def overlaps(project: OpenProject, item: int) -> tuple[list[int], np.ndarray]:
    """All other items by the share of common members, computed by Python's sets."""
    pool = project.pool
    X = pool.rows(np.arange(len(pool)))
    sets = [frozenset(X.indices[a:b].tolist()) for a, b in pairwise(X.indptr)]
    own = pool.row_of([item])[0]
    shares = np.array([len(sets[own] & one) / len(sets[own] | one) for one in sets])
    order = np.argsort(-shares, kind="stable")
    order = order[order != own]
    return pool.ids[order].tolist(), shares[order]


@pytest.mark.parametrize("method", ["scan", "table", "orders"])
def test_texts_are_ranked_by_the_overlap_of_their_words(project, method):
    """As brute force and `core` rank them, and verify finds the same; so few rows are all compared."""
    similar, item = project.similar_to(project.session()), int(project.pool.ids[3])
    similar.set_method(method)
    similar.set_codes("min-hash")
    similar.look_for(Like(item=item))
    card = settled(similar)
    assert card["similar"]["search"]["awaited"] is None
    assert (card["similar"]["search"]["measure"], card["similar"]["search"]["taught"]) == ("overlap", None)
    shown = [cell["id"] for cell in card["cells"]]
    ids, shares = overlaps(project, item)
    assert shown == ids[:PAGE]
    assert np.allclose([cell["value"] for cell in card["cells"]], shares[:PAGE])
    pool = project.pool
    family = MinHash(n_functions=256).fit(pool.rows(np.arange(len(pool))))
    query = pool.rows(pool.row_of([item]))
    in_core = HashedSimilarity.built(pool, family, structure=method, n_candidates=500)
    assert in_core.neighbours(query, PAGE, exclude=[item]).ids.tolist() == shown
    by_angle = ExactSearch(ByAngle(pool)).neighbours(query, PAGE, exclude=[item]).ids.tolist()
    assert shown != by_angle
    result = CliRunner().invoke(main, ["verify", str(project.folder), "--json"])
    assert json.loads(result.output)["problems"] == []


FEW = 30
"""Number of candidates, an eighth of the texts."""


@pytest.mark.parametrize("method", ["scan", "table", "tables", "ball"])
def test_few_candidates_are_the_texts_whose_codes_disagree_least(project, monkeypatch, method):
    """Function by function; bit by bit, they would be others. In a ball, a function has only one bit."""
    similar = project.similar_to(project.session())
    similar.set_method(method)
    similar.set_codes("min-hash")
    similar.look_for(Like(item=int(project.pool.ids[3])))
    assert settled(similar)["similar"]["search"]["awaited"] is None
    search = project.similar.method(similar.recipe, project.pool, None, similar.session.concept).search
    bit_by_bit = HashedSimilarity(
        search.family, search.structure, search.nearness, n_compared=search.n_compared, measure="weights"
    )
    n = len(project.pool)
    for one in (search, bit_by_bit):
        monkeypatch.setattr(one, "n_candidates", FEW)
    assert all(disagrees_least(search, row) for row in range(n))
    assert all(disagrees_least(bit_by_bit, row) for row in range(n)) == (method == "ball")


def disagrees_least(search: HashedSimilarity, row: int) -> bool:
    """Whether the `FEW` texts ranked for a row are those whose codes differ in the fewest functions.

    Of texts that differ in as many functions as the last one, any may be left out. Of bucket tables, only the
    texts in the buckets that are read count.
    """
    X, ranked = search.pool.rows(np.arange(len(search.pool))), []
    with pytest.MonkeyPatch.context() as patch:
        nearest_of = search.nearness.nearest_of

        def spied(queries, rows, n):
            ranked.append(rows)
            return nearest_of(queries, rows, n)

        patch.setattr(search.nearness, "nearest_of", spied)
        search.neighbours(X[[row]], 1)
    (found,) = ranked
    values = search.family.hash_points(X).unpacked().reshape(len(search.pool), -1, search.family.bits)
    differing = (values != values[row]).any(axis=2).sum(axis=1)
    read = np.arange(len(search.pool))
    if search.structure.name == "tables":
        (code,) = search.family.queries(X[[row]])
        read, _ = search.structure.probed(code, len(search.pool))
    last = np.sort(differing[read])[min(FEW, len(read)) - 1]
    surely = read[differing[read] < last]
    return (
        len(found) == min(FEW, len(read)) and np.isin(surely, found).all() and differing[found].max() <= last
    )


def test_a_grid_of_texts_is_not_too_alike(project):
    """Diversity, marks and a retrain for all together."""
    session = project.session()
    label(session, 8)
    grid = project.grid(session)
    grid.resize(12)
    card = card_of(grid)
    assert len(card["cells"]) == 12
    assert all(cell["src"] for cell in card["cells"])


def test_texts_are_reviewed_and_doubted(project):
    """Leave-one-out of sparse rows, and items found by their names."""
    session = project.session()
    label(session, 20)
    review = Review(session)
    patience = time.monotonic() + 120
    while True:
        page = review.page(Asked(view="all"), UTC)
        if page["judged"]:
            break
        assert time.monotonic() < patience
    assert len(page["rows"]) == 20
    assert len(project.search("bee/1")) > 0


def test_example_images_are_refused_in_one_sentence(project):
    """A text is no image."""
    with pytest.raises(InputError, match="this pool contains texts"):
        project.session().add_examples([b"x"])


def test_texts_are_found_with_how_they_open_and_all_that_is_read(project):
    """In place of pictures, also of what is looked for: one text, and all that were answered yes."""
    similar = project.similar_to(project.session())
    item = int(project.pool.ids[3])
    similar.look_for(Like(item=item))
    card = card_of(similar)
    assert card["similar"]["kind"] == "text"
    assert card["similar"]["like"]["openings"] == [opening(typeset(project.pool.source.text(item)))]
    for cell in card["cells"]:
        parts = typeset(project.pool.source.text(cell["id"]))
        assert (cell["src"], cell["text"], cell["opening"]) == ("", parts, opening(parts))
        assert cell["opening"]["title"].isdecimal()  # the subject
    given = [
        answer({"item": {"id": cell["id"], "selection": cell["selection"]}}, "yes")
        for cell in card["cells"][:3]
    ]
    submit(similar, given)
    similar.look_for(Like())
    like = card_of(similar)["similar"]["like"]
    assert like["pictures"] == []
    assert sorted(one["title"] for one in like["openings"]) == sorted(
        cell["opening"]["title"] for cell in card["cells"][:3]
    )


def test_a_text_that_is_gone_cannot_be_shown(project, texts):
    """Its place stays, and it may still be answered."""
    similar = project.similar_to(project.session())
    similar.look_for(Like(item=int(project.pool.ids[3])))
    name = card_of(similar)["cells"][0]["alt"]
    project.pictures.text.cache_clear()
    project.pictures.opening.cache_clear()
    file = texts.parent / "texts" / name
    file.rename(texts.parent / "gone")
    try:
        cell = card_of(similar)["cells"][0]
    finally:
        (texts.parent / "gone").rename(file)  # for the other tests
    assert (cell["alt"], cell["src"]) == (name, "")
    assert "opening" not in cell
    assert cell["selection"]
