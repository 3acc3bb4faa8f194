from __future__ import annotations

import pytest

from closecall.app.display import phrases as words
from closecall.core.pool.build_progress import Progress
from closecall.storage import ConceptRecord


def test_growth_says_how_far_how_fast_and_how_long() -> None:
    """The sentence that the start page shows."""
    progress = Progress(612_000, 1_000_000, per_second=4950.0, seconds_left=78.4)
    assert words.growth(progress) == "612,000 of 1,000,000 items, 4,950 items/s, about 1 min 18 s left"


def test_growth_promises_nothing_before_it_knows() -> None:
    """No rate and no time are made up."""
    assert words.growth(Progress(0, 2000)) == "0 of 2,000 items"


def test_a_build_that_stopped_does_not_look_as_if_it_went_on() -> None:
    """What nobody builds has no time left."""
    stopped = Progress(500, 2000, per_second=100.0, seconds_left=15.0, state="stopped")
    assert words.growth(stopped) == "500 of 2,000 items, stopped"
    assert words.short_growth(stopped) == "Preparing items: 25 %, stopped"
    assert words.short_growth(stopped, "text") == "Preparing texts: 25 %, stopped"


def test_one_thing_is_singular() -> None:
    """Figures are written with the number that they have."""
    assert [words.counted(n, "item") for n in (0, 1, 2000)] == ["0 items", "1 item", "2,000 items"]
    assert [words.counted(n, "query", "queries") for n in (0, 1, 2)] == ["0 queries", "1 query", "2 queries"]
    assert words.labels_kept(1) == "1 label stays in the log, for review, export and verify."


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "1 s"), (59.4, "59 s"), (60, "1 min 0 s"), (3900, "1 h 5 min")]
)
def test_durations_are_said_as_people_say_them(seconds: float, said: str) -> None:
    """Hours lose their seconds."""
    assert words.duration(seconds) == said


def test_the_share_of_an_empty_pool_is_nothing() -> None:
    """No division by an unknown total, and never more than all."""
    assert words.done_share(Progress(0, 0)) == 0
    assert words.done_share(Progress(2100, 2000)) == 1


@pytest.mark.parametrize(
    ("seconds", "n_bytes", "expected"),
    [
        (3.4, 40e6, "about 3 s and 40 MB"),
        (47, 350e6, "about 50 s and 0.3 GB"),
        (583, 4.24e9, "about 10 min and 4.2 GB"),
        (9000, 1e3, "about 2.5 h and 1 MB"),
    ],
)
def test_a_cost_is_rounded_to_what_can_be_known(seconds, n_bytes, expected) -> None:
    """An estimate has no more digits than that."""
    assert words.cost(seconds, n_bytes) == expected


def test_an_index_that_is_built_again_says_so() -> None:
    """What was ready before is not simply prepared."""
    assert words.preparation("Margin index", 0.454, again=False) == "Margin index is being prepared: 45 %"
    assert words.preparation("Margin index", 0, again=True) == "Margin index is being built again: 0 %"


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("Is this a 7?", "7"),
        ("Is it the moon?", "moon"),
        ("Is there a dog?", "dog"),
        ("Is there an open door in this picture?", "open door"),
        ("Are there any people in the photo?", "people"),
        ("Does this image show a red fox?", "red fox"),
        ("Does it contain text?", "text"),
        ("Can you see a boat here?", "boat"),
        ("is there a cat", "cat"),
        ("Would you eat it?", "Would you eat it"),
    ],
)
def test_a_class_is_called_by_what_its_question_asks_for(question: str, name: str) -> None:
    """Not by the words that every such question begins with; a name of its own stays."""
    assert words.of_class(question, question.strip(" ?")) == name
    assert words.of_class(question, "Fido") == "Fido"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["Does anyone wear a hat", "Does anyone wear a tie"], ["hat", "tie"]),
        (["Would you eat it", "Would you wear it", "Would you buy it"], ["eat", "wear", "buy"]),
        (["Would you eat it", "Has it fur"], ["Would you eat it", "Has it fur"]),
        (["Would you eat it"], ["Would you eat it"]),
        (["so", "so so"], ["so", "so so"]),
        ([], []),
    ],
)
def test_names_differ_at_a_glance(names: list[str], expected: list[str]) -> None:
    """What all have in common says nothing; no name is left empty."""
    assert words.told_apart(names) == expected


def test_questions_of_the_same_words_are_told_apart():
    """The one that is labeled now needs no addition; those before a reset are old, sides are not."""
    names = ("Is it a cat", "Is it a cat (2)", "Is it a cat (3)", "Is it a cat (blind 1 A)", "Felines")
    concepts = [ConceptRecord(id=i, name=name, question="Is it a cat?") for i, name in enumerate(names)]
    dog = ConceptRecord(id=9, name="Is it a dog", question="Is it a dog?")

    def named(now: set[int]) -> list[str]:
        return [words.name_of_question(one, [*concepts, dog], now) for one in (*concepts, dog)]

    assert named({2, 9}) == [
        "Is it a cat? (old)",
        "Is it a cat? (2, old)",
        "Is it a cat?",
        "Is it a cat? (blind 1 A)",
        "Is it a cat? (Felines)",
        "Is it a dog?",
    ]
    assert named({2, 4, 9})[2:5] == [
        "Is it a cat? (3)",
        "Is it a cat? (blind 1 A)",
        "Is it a cat? (Felines)",
    ]


def test_a_name_from_right_to_left_keeps_to_itself() -> None:
    """Marks isolate it, so that a following number stays where it belongs; other names have no marks."""
    assert words.isolated("עברית") == "\u2068עברית\u2069"
    assert words.isolated("فوتو 7") == "\u2068فوتو 7\u2069"
    assert words.isolated("Herbarium é 葉") == "Herbarium é 葉"
