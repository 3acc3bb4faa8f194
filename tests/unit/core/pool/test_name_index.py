from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import closecall.core.pool.name_index
from closecall.core.pool.build import build
from closecall.core.pool.name_index import Names
from closecall.core.sources import source_from
from tests.fakes import FakeSource
from tests.projects import new_project, open_workspace

LETTERS = "aBéß/.1 "
WORDS = st.text(LETTERS, max_size=4)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Forty items, every fifth of them held out."""
    folder = tmp_path_factory.mktemp("names") / "pool"
    return build(FakeSource(40, 2, held_out=range(0, 40, 5)), folder)


def named(monkeypatch, names: list[str]) -> None:
    """Let item i be called names[i]."""
    monkeypatch.setattr(FakeSource, "name", lambda _, item: names[item])


def brute_force(pool, names: list[str], text: str) -> list[int]:
    """The definition: every word is in the name, large or small letters being the same."""

    def plain(word: str) -> str:
        return unicodedata.normalize("NFC", unicodedata.normalize("NFC", word).casefold())

    words = [plain(word) for word in text.split()]
    ids = pool.ids.tolist() if words else []
    return [item for item in ids if all(word in plain(names[item]) for word in words)]


@given(names=st.lists(st.text(LETTERS, max_size=8), min_size=40, max_size=40), text=WORDS, more=WORDS)
def test_a_search_finds_what_contains_every_word(built, names, text, more):
    """Parts of words, too, in any order, of the items that can be selected, and no others."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        named(monkeypatch, names)
        monkeypatch.setattr(closecall.core.pool.name_index, "BLOCK_ITEMS", 7)
        found = Names(built)
        for words in (text, f"{text} {more}", f" {more}  {text}\t"):
            assert found.search(words).tolist() == brute_force(built, names, words)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("caf\u00e9", [1, 2]),
        ("CAFE\u0301", [1, 2]),
        ("strasse", [3]),
        ("STRASSE jpg", [3]),
        ("\udcff", []),
        ("\x00", []),
        ("b c", [4]),
        ("bc", []),
    ],
)
def test_letters_match_however_they_are_written(built, monkeypatch, text, expected):
    """Large or small, accents in one piece or in two; no word reaches from one name into the next."""
    names = [f"{item}" for item in range(40)]
    names[1:5] = ["Caf\u00e9.jpg", "cafe\u0301.jpg", "Stra\u00dfe.jpg", "ab c"]
    names[6:8] = ["x/ab", "c"]
    named(monkeypatch, names)
    assert Names(built).search(text).tolist() == expected


def test_names_are_asked_for_once(tmp_path, monkeypatch):
    """When the pool grows only the new items' names are, and the older names stay as they were."""
    pool = build(FakeSource(300, 2), tmp_path / "pool")
    asked: list[int] = []
    monkeypatch.setattr(FakeSource, "name", lambda _, item: asked.append(item) or f"item-{item}.png")
    young = Names(pool.prefix(100))
    grown = young.extended(pool.prefix(101)).extended(pool)
    assert asked == pool.ids.tolist()
    assert (len(young), len(grown)) == (100, 300)
    assert young.search("item-29").tolist() == [29]
    assert grown.search("item-29").tolist() == [29, *range(290, 300)]
    assert Names(pool).search("item-29").tolist() == grown.search("item-29").tolist()


@pytest.mark.parametrize("word", ["digits:300", "enlarged:3:digits:300"])
def test_names_are_those_that_a_person_sees(tmp_path, word):
    """What is found has the words in the name that its source tells."""
    pool = build(source_from(word), tmp_path / "pool")
    found = Names(pool).search("12 igit")
    told = {item: pool.source.name(item) for item in pool.ids.tolist()}
    assert found.tolist() == [item for item, name in told.items() if "igit" in name and "12" in name]
    assert found.dtype == np.int64


def test_a_project_is_searched(tmp_path):
    """By the words of the items' names."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        pool = project.pool
        item = int(pool.ids[77])
        assert item in project.search(f"DIGIT {item}")
        assert len(project.search("digit")) == len(pool)
        assert project.search("").tolist() == project.search("photograph").tolist() == []
