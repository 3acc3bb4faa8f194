"""A share of what ``python -m tests.fuzz`` tries, what it found once, and images that say they are huge."""

from __future__ import annotations

import io
import json

import pytest

from closecall.core.errors import InputError
from closecall.core.sources.images import MAX_PIXELS, read_image
from tests.fuzz.__main__ import KEPT, generator, run, run_here
from tests.fuzz.targets import OURS, TARGETS, bomb
from tests.scale import scaled

SHARE = {
    "image": 200,
    "upload": 100,
    "import": 150,
    "answers": 30,
    "backup": 80,
    "carried": 80,
    "project": 200,
}
"""Cases of each kind that `make test-all` tries; their seed is apart from that of the long run."""

FIRST = 1_000_000
PATIENCE = 300.0
"""Seconds in which a case must end on however busy a machine; how long each takes the long run measures."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", TARGETS)
def test_what_is_malformed_is_refused_in_a_sentence(kind, tmp_path):
    """It ends neither the program nor its patience, and writes nothing elsewhere.

    A quick run has a process for images alone: of the others, one would spend most of its time on loading.
    """
    share = SHARE[kind] // scaled(quick=16, all=1)
    if scaled(quick=kind == "image", all=True):
        report = run(kind, FIRST, share, PATIENCE)
    else:
        report = run_here(kind, FIRST, share, tmp_path)
    assert (report.tried, [case for case in report.wrong if "processor time" not in case[1]]) == (
        share,
        [],
    )


@pytest.mark.parametrize("case", json.loads(KEPT.read_text("utf-8")), ids=lambda case: f"{case[0]} {case[1]}")
def test_what_was_found_once_stays_mended(case, tmp_path):
    """Each of these once ended otherwise than by a sentence; the file says how."""
    kind, seed, _ = case
    attempt, said = TARGETS[kind](tmp_path), "it was taken"
    try:
        attempt(generator(kind, seed))
    except OURS as error:
        said = str(error)
    if hasattr(attempt, "finish"):
        attempt.finish()
    assert said
    assert "\n" not in said


@pytest.mark.parametrize("sizes", [(65_535, 65_535), (2**31 - 1, 2**31 - 1), (MAX_PIXELS + 1, 1)])
def test_an_image_that_says_it_is_huge_is_refused_unread(sizes):
    """A few bytes that would be gigabytes: nothing is unpacked to find out."""
    raw = bomb(*sizes, 1000)
    with pytest.raises(InputError):
        read_image(io.BytesIO(raw), 64)


def test_packed_data_of_more_than_an_image_needs_are_not_unpacked():
    """Megabytes of zeros behind a small image make it no larger."""
    zeros = scaled(quick=10_000_000, all=200_000_000)
    assert read_image(io.BytesIO(bomb(40, 30, zeros)), 64).size == (40, 30)
