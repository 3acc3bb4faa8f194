"""Sets of items as ascending arrays, compared with dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from closecall.storage.ascending import Ascending
from tests.scale import examples

MARKS = st.sampled_from([True, False, None])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 9), MARKS),
        st.tuples(st.just("read")),
        st.tuples(st.just("suppose"), st.dictionaries(st.integers(0, 9), MARKS, max_size=3)),
    ),
    max_size=40,
)


@settings(max_examples=examples(400))
@given(STEPS)
def test_it_has_what_a_dictionary_has(steps):
    """Whatever is put, read and supposed in between; what was read before never changes."""
    kept, plain, read = Ascending(), {}, []
    for step in steps:
        if step[0] == "put":
            _, item, mark = step
            kept.put(item, mark)
            plain[item] = mark
            continue
        expected = plain | (step[1] if step[0] == "suppose" else {})
        there = sorted(item for item, mark in expected.items() if mark is not None)
        items, marks = kept.read(step[1]) if step[0] == "suppose" else kept.read()
        assert items.tolist() == there
        assert marks.tolist() == [expected[item] for item in there]
        assert not any(array.flags.writeable for array in (items, marks))
        read.append((items, marks, items.copy(), marks.copy()))
    for items, marks, as_read, as_marked in read:
        assert np.array_equal(items, as_read)
        assert np.array_equal(marks, as_marked)


def test_other_marks_of_the_same_item_need_no_copy_of_the_items():
    """The look-ahead supposes each answer to one item; then the item gets one of them."""
    kept = Ascending()
    for item in range(0, 100, 2):
        kept.put(item, True)
    before, _ = kept.read()
    no, yes = kept.read({51: False}), kept.read({51: True})
    assert no[0] is yes[0]
    assert kept.read({51: None})[0] is before
    kept.put(51, False)
    after, marks = kept.read()
    assert after is no[0]
    assert np.array_equal(marks, no[1])
    assert kept.read()[0] is after
