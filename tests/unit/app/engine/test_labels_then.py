"""Labels at earlier positions of the log, of a pool that had fewer rows then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from closecall.app.engine.labels_then import LabelsThen
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from closecall.storage import AnswerRecord, LabelState
from tests.pools import small_pool


@pytest.fixture(scope="module")
def pool(tmp_path_factory) -> Pool:
    path: Path = tmp_path_factory.mktemp("pool") / "pool"
    return small_pool(path, source_from("digits:200"))


def given(rng: np.random.Generator, n: int) -> list[AnswerRecord]:
    """Answers about random items, some of which are in no pool; some are undone."""
    answers: list[AnswerRecord] = []
    for seq in range(3, 3 * n, 3):
        open_ = [one for one in answers if one.answer != "undo" and one.id not in {a.undoes for a in answers}]
        undone = open_[rng.integers(len(open_))] if open_ and rng.random() < 0.2 else None
        answers.append(
            AnswerRecord(
                id=str(seq),
                session_id="s",
                concept_id=1,
                item=undone.item if undone else int(rng.integers(260)),
                annotator=undone.annotator if undone else str(rng.choice(["ada", "bob"])),
                answer="undo" if undone else str(rng.choice(["yes", "no", "skip"])),
                undoes=undone.id if undone else None,
                browser_time=0,
                seq=seq,
            )
        )
    return answers


@pytest.mark.parametrize("is_ordered", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_labels_are_those_that_counted_then(pool, seed, is_ordered):
    """They equal the fold of the log with the snapshot of that time, also if a snapshot had fewer rows."""
    rng = np.random.default_rng(seed)
    answers = given(rng, 300)
    labels = LabelsThen(1, answers, pool)
    positions = rng.integers(0, 900, 60)
    for through in (np.sort(positions) if is_ordered else positions).tolist():
        n_rows = int(rng.choice([0, 1, 20, 70, len(pool)]))
        expected = LabelState(1, pool.prefix(n_rows).has_row) if n_rows else LabelState(1, lambda _: False)
        expected.fold(answer for answer in answers if answer.seq <= through)
        found = labels.at(through, n_rows)
        assert found.seq == expected.seq
        assert found.counts == expected.counts
        assert np.array_equal(found.labels().items, expected.labels().items)
        assert np.array_equal(found.labels().yes, expected.labels().yes)
        assert np.array_equal(found.answered_items(), expected.answered_items())
