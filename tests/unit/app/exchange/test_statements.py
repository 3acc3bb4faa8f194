"""What a file says of each subject is kept in columns, and is what a plain dictionary would hold."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from closecall.app.exchange.statements import Statement, Statements
from closecall.storage.records import ANSWERS, PURPOSES

lines = st.lists(
    st.tuples(
        st.builds(
            Statement,
            st.integers(1, 2),
            st.sampled_from([0, 1, 2**63 - 1]),
            st.sampled_from(["Ada", "Möwe", ""]),
            st.sampled_from(ANSWERS[:2]),
            st.sampled_from(PURPOSES),
            st.booleans(),
            st.booleans(),
            st.sampled_from(["", "a-long-id"]),
            st.sampled_from(["", "ls:0:1:2"]),
            st.sampled_from([None, 0, -1, 2**63 - 1]),
            st.sampled_from([None, 0, 2**31 - 1]),
        ),
        st.booleans(),
    ),
    max_size=30,
)


def said_in(given_lines) -> Statements:
    said = Statements()
    for number, (saying, replaces) in enumerate(given_lines):
        said.add(saying, f"line {number + 2:,}", replaces=replaces)
    return said


@given(lines)
def test_the_last_saying_of_each_subject_counts(given_lines):
    """In the order in which subjects come up first; a decision is one subject, whoever made it."""
    known: dict[tuple, int] = {}
    wrong = None
    for number, (saying, replaces) in enumerate(given_lines):
        by = None if saying.purpose == "decision" else saying.annotator
        subject = (saying.concept, saying.item, by)
        before = known.get(subject)
        if before is not None and given_lines[before][0].word != saying.word and not replaces:
            wrong = wrong or (before, number)
        known[subject] = number
    said = said_in(given_lines)
    assert len(said) == len(given_lines)
    assert said.contradiction() == wrong
    assert said.settled().tolist() == list(known.values())
    assert list(said.at(said.settled())) == [given_lines[number][0] for number in known.values()]
    assert said.concepts() == sorted({saying.concept for saying, _ in given_lines})
    assert [said.place(number) for number in range(len(said))] == [
        f"line {number + 2:,}" for number in range(len(said))
    ]


def test_a_line_takes_some_bytes_and_no_objects():
    """Eighty at most, with room to grow, where an answer as an object takes half a thousand."""
    n = 50_000
    tracemalloc.start()
    try:
        said = said_in((Statement(1, item, "Ada", "yes", "import"), False) for item in range(n))
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        settled = said.settled()
        assert sum(1 for _ in said.at(settled)) == n
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 80 * n
    assert peak < 200 * n
    assert np.array_equal(settled, np.arange(n))
