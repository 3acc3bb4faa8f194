"""Simulated audits that measure how often intervals contain the true value while the classifier learns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from closecall.core.audit import LEVEL, Audited, Frame, Interval, estimate, inclusion
from closecall.core.errors import InputError
from closecall.core.evaluation.stopping import is_checkpoint
from closecall.core.experiment.sampled import Annotator, SampledConcept
from closecall.core.pool.pool import Pool
from closecall.core.simulation.drawing import ItemsByClass

MEASURES = ("precision", "recall", "found", "prevalence")
"""Measures that an audit estimates; see `core.audit.Audited`."""


@dataclass(frozen=True)
class AuditedSession:
    """Estimates of one simulated audit, and the true values.

    Parameters
    ----------
    audited : Audited
        Estimates from the stratified audit.
    plain : Audited
        Estimates from a simple random sample of the same size.
    truth : dict of str to float
        True value of each measure in `MEASURES`, computed from all items; NaN if the denominator is 0.
    frames : int
        Number of sampling frames (`core.audit.Frame`) that the audited items were drawn from.
    passed : int
        Number of audited items that the strategy selected later. The estimates leave these items out.
    """

    audited: Audited
    plain: Audited
    truth: dict[str, float]
    frames: int
    passed: int

    def interval(self, measure: str, *, plain: bool = False) -> Interval:
        """Return the interval of a measure: from the simple random sample if `plain`, else from the audit."""
        interval: Interval = getattr(self.plain if plain else self.audited, measure)
        return interval

    def holds(self, measure: str, *, plain: bool = False) -> bool:
        """Return whether the interval contains the true value; True if the true value is undefined."""
        interval, truth = self.interval(measure, plain=plain), self.truth[measure]
        return bool(np.isnan(truth) or interval.low - 1e-12 <= truth <= interval.high + 1e-12)


def audited_sessions(
    pool: Pool,
    n_sessions: int,
    *,
    prevalence: float,
    n_items: int = 20_000,
    n_labels: int = 200,
    n_audited: int = 200,
    level: float = LEVEL,
    seed: int = 0,
) -> Iterator[AuditedSession]:
    """Simulate labeling sessions, each with an audit, one positive class and its own random items.

    The positive class changes from session to session. Training answers and audit answers come in random
    order. At every checkpoint, the audit stratifies the items by the current classifier. The audited items
    therefore come from the strata of several classifiers, but the estimates describe the last classifier.

    Parameters
    ----------
    pool : Pool
        Pool whose classes are known.
    n_sessions : int
        Number of sessions.
    prevalence : float, 0 … 1
        Share of positives among the items of each session.
    n_items, n_labels, n_audited : int
        Numbers of items, training answers and audit answers in each session.
    level : float
        Nominal coverage of the intervals.
    seed : int
        Seed of all random choices; not negative.

    Raises
    ------
    InputError
        If prevalence is not between 0 and 1, if there are more answers than items, or if fewer than two
        classes have enough items.
    """
    if not 0 < prevalence < 1:
        raise InputError(f"prevalence must be between 0 and 1, got {prevalence}")
    if n_labels + n_audited > n_items:
        raise InputError(f"{n_labels} + {n_audited} answers need as many items, got {n_items}")
    items = ItemsByClass(pool, max(round(prevalence * n_items), 1))
    most = len(items) - items.largest()
    if n_items * (1 - prevalence) > most:
        raise InputError(f"n_items must be at most {int(most / (1 - prevalence))} here, got {n_items}")
    for number, positive in enumerate(items.positives(np.random.default_rng(seed), n_sessions)):
        rng = np.random.default_rng([seed, number])
        concept = SampledConcept.draw(pool, items, positive, n_items, rng, prevalence=prevalence)
        yield _audited(concept, n_labels, n_audited, level, rng)


def _audited(
    concept: SampledConcept, n_labels: int, n_audited: int, level: float, rng: np.random.Generator
) -> AuditedSession:
    annotator = Annotator(concept, rng)
    audited = np.empty(0, dtype=np.int64)
    frame_of: list[int] = []
    frames: list[Frame] = []
    framed = 0
    train = np.arange(n_labels - len(annotator.rows) + n_audited) >= n_audited
    for trains in rng.permutation(train):
        if trains:
            annotator.go_on(audited=audited)
            continue
        answered = np.concatenate([annotator.rows, audited])
        if not frames or is_checkpoint(framed, len(annotator.rows)):
            framed = len(annotator.rows)
            seed = int(rng.integers(2**63))
            frames.append(Frame(concept.pool, annotator.hyperplane, exclude=answered, seed=seed))
        drawn = frames[-1].draw(exclude=answered, seed=int(rng.integers(2**63)))
        audited = np.concatenate([audited, drawn.ids])
        frame_of.append(len(frames) - 1)
    chance = inclusion(
        [frame.strata for frame in frames], np.array(frame_of), audited, concept.pool.rows(audited)
    )
    scores, y = concept.pool.scores(annotator.hyperplane), concept.y
    asked = np.union1d(annotator.rows, annotator.passed)
    kept = np.isin(audited, asked, invert=True)
    audited, chance = audited[kept], chance[kept]
    rest = np.setdiff1d(np.arange(len(y)), asked)
    plain = rng.choice(rest, len(audited), replace=False)
    judge = partial(estimate, scores, asked=asked, asked_yes=int(y[asked].sum()), level=level)
    predicted = scores[rest] > 0
    return AuditedSession(
        audited=judge(audited, y[audited], chance),
        plain=judge(plain, y[plain], np.ones(len(plain))),
        truth={
            "precision": _share(y[rest], predicted),
            "recall": _share(predicted, y[rest]),
            "found": _share(np.isin(np.arange(len(y)), asked) | (scores > 0), y),
            "prevalence": float(y.mean()),
        },
        frames=len(frames),
        passed=len(annotator.passed),
    )


def _share(of: NDArray[np.bool_], among: NDArray[np.bool_]) -> float:
    return float(of[among].mean()) if among.any() else float("nan")
