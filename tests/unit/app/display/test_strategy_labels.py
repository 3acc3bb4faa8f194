from __future__ import annotations

import pytest

from closecall.app.display.strategy_labels import (
    LABELS,
    Shares,
    about,
    all_labels,
    fitting,
    label_of,
    name_of,
)
from closecall.core.selection import STRATEGIES, strategy_from


def test_every_strategy_has_a_label():
    """Of its own, whatever parameters it is given."""
    assert set(STRATEGIES) <= set(LABELS)
    assert len(set(LABELS.values())) == len(LABELS)
    assert label_of("mixture:likely=0.4,random=0.1") == label_of("mixture") == "Mixture"
    assert label_of("my-own:n=3") == "My own"
    assert name_of("h-hash:structure=scan") == "h-hash"


def test_a_strategy_in_use_is_listed_even_if_pages_do_not_offer_it():
    """Once, as the last."""
    offered = all_labels()
    assert "disagreement" not in offered
    assert list(all_labels("disagreement:shortlist=20").items()) == [
        *offered.items(),
        ("disagreement", "Disagreement"),
    ]
    assert all_labels("margin-index:budget=9000") == offered
    assert set(LABELS) > {"typiclust", "probcover"}


@pytest.mark.parametrize("method", ["H-Hash", "EH-Hash", "BH-Hash", "LBH-Hash"])
def test_published_and_weighted_forms_have_names_of_their_own(method):
    """The picker lists both; only ours is called weighted."""
    names = {label: name for name, label in all_labels().items()}
    assert names[method] == method.lower()
    assert names[f"{method}, weighted"] == f"{method.lower()}-weighted"


@pytest.mark.parametrize("shares", [Shares(50, 30, 20), Shares(0, 100, 0), Shares(7, 14, 79)])
def test_shares_make_a_mixture_and_are_read_from_it(shares):
    """There and back, and they are shares that can be drawn with."""
    mixture = strategy_from(shares.word)
    mixture.check()
    assert [100 * mixture.params()[part] for part in shares._fields] == pytest.approx(list(shares))
    assert Shares.of(shares.word) == shares


def test_only_mixtures_have_shares():
    """A mixture that was given none has the usual ones."""
    assert Shares.of("mixture") == Shares(50, 30, 20)
    assert Shares.of("margin-index:budget=9000") is None


@pytest.mark.parametrize(
    ("yes", "no", "expected"),
    [
        (0, 0, "margin-index"),
        (1, 1, "margin-index"),
        (0, 3, "likely-positive"),
        (2, 30, "likely-positive"),
        (5, 6, "margin-index"),
        (9, 27, "likely-positive"),
        (10, 500, "margin-index"),
    ],
)
def test_further_positives_come_first_while_they_are_few_and_rare(yes: int, no: int, expected: str) -> None:
    assert fitting("random", yes=yes, no=no) == expected
    assert fitting("auto", yes=yes, no=no) == "auto"


def test_each_strategy_says_what_it_selects() -> None:
    """In one line, and no two of them alike."""
    lines = [about(name) for name in STRATEGIES]
    assert all(line.endswith(".") and "\n" not in line and len(line) < 90 for line in lines)
    assert len(set(lines)) == len(lines)
    assert about("no-such-strategy") == ""
