"""Verdicts on claims about query strategies, from the results of a comparison.

Most claims are from the H-Hash paper [1]_, about its own methods; they are also judged for our weighted forms
of these methods. A sceptic adds a claim: that hashing beats a random subsample that takes the same time.

A claim consists of statements. Each statement says that a measured number is above a threshold. A statement
holds if the whole 95 % interval of the number is above the threshold. It does not hold if the whole interval
is below, and it is open otherwise. A claim holds if all its statements hold. It does not hold if one of
them does not hold, and it is open otherwise. Intervals need at least three classes, or three runs if
there is only one class. Without intervals, there is too little data for a verdict.

References
----------
.. [1] P. Jain, S. Vijayanarasimhan, K. Grauman: Hashing hyperplane queries to near points with applications
       to large-scale active learning, NIPS 2010.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.display.strategy_labels import name_of
from closecall.app.experiments.compare.measures import Measures
from closecall.app.experiments.compare.results import Floats
from closecall.app.experiments.compare.statistics import Interval
from closecall.app.experiments.compare.wording import (
    EXHAUSTIVE,
    RANDOM,
    SUBSAMPLE,
    figure,
    lane_label,
    points,
    times,
)
from closecall.core.selection import strategy_from
from closecall.core.selection.hashed import PAPERS

FORMS = {"": "Hashing", "-weighted": "Weighted hashing"}
"""Names in the titles of claims, by the suffix of the strategies' names.

Strategies without a suffix are the published methods. The suffix "-weighted" marks weighted forms of these
methods, which are not from the paper.
"""

CLOSE = 1.0
"""Maximum number of AUROC points that hashing may lose to the exhaustive scan and still count as close."""

PAPER = "Claimed by Jain, Vijayanarasimhan and Grauman (2010)"
"""Source of the claims about the published methods."""

SOURCES = {
    "": f"{PAPER}.",
    "-weighted": f"{PAPER} for the published methods; here of our weighted form.",
}
"""Sentence that says who made a claim, by the suffix of the strategies' names."""

SCEPTIC = "A sceptic’s question, not a paper’s claim."

ORDER = 10.0
"""Minimum factor that counts as "an order of magnitude"."""


class Verdict(Enum):
    """The verdict on a statement or claim."""

    HOLDS = "holds"
    DOES_NOT = "does not hold"
    OPEN = "open"
    TOO_FEW = "too few to judge"


@dataclass(frozen=True)
class Statement:
    """A statement that a number is above a threshold.

    Parameters
    ----------
    text : str
        The statement in words, with the measured number and its interval.
    measured : Interval
        The measured number with its interval.
    threshold : float
        The threshold.
    """

    text: str
    measured: Interval
    threshold: float

    @property
    def verdict(self) -> Verdict:
        """Verdict according to the interval. Without an interval, there is too little data for a verdict."""
        low, high = self.measured.low, self.measured.high
        if low is None or high is None:
            return Verdict.TOO_FEW
        if np.isnan(low) or low <= self.threshold <= high:
            return Verdict.OPEN
        return Verdict.HOLDS if low > self.threshold else Verdict.DOES_NOT


@dataclass(frozen=True)
class Claim:
    """A claim that consists of statements.

    Parameters
    ----------
    title : str
        The claim in a few words.
    meaning : str
        What is measured, and how strategies are compared.
    statements : tuple of Statement
    source : str
        Whose claim it is, in a sentence.
    """

    title: str
    meaning: str
    statements: tuple[Statement, ...]
    source: str

    @property
    def verdict(self) -> Verdict:
        """Verdict of all statements together."""
        verdicts = {statement.verdict for statement in self.statements}
        for decisive in (Verdict.DOES_NOT, Verdict.TOO_FEW):
            if decisive in verdicts:
                return decisive
        return Verdict.HOLDS if verdicts == {Verdict.HOLDS} else Verdict.OPEN


def claims(measures: Measures) -> list[Claim]:
    """Return the claims that can be judged from the strategies in `Measures.whole`.

    For each of `FORMS`, there is a separate set of claims about hashing.
    """
    there = {name_of(name): name for name in reversed(measures.whole)}
    subsamples = [name for name in measures.whole if name_of(name) == SUBSAMPLE]
    random, exhaustive = there.get(RANDOM), there.get(EXHAUSTIVE)
    found = []
    if random and exhaustive:
        scan = "Active learning by the full scan"
        found += [
            _beats_random(measures, random, [exhaustive], scan, SOURCES[""]),
            _ends_above_random(measures, random, [exhaustive], scan, SOURCES[""]),
        ]
    for form, called in FORMS.items():
        source = SOURCES[form]
        hashes = [there[family + form] for family in PAPERS if family + form in there]
        if random:
            found += [
                _beats_random(measures, random, hashes, called, source),
                _ends_above_random(measures, random, hashes, called, source),
            ]
        if exhaustive:
            found += [
                _close(measures, exhaustive, hashes, called, source),
                _faster(measures, exhaustive, hashes, called, source),
            ]
        h_hash, eh_hash = there.get(f"h-hash{form}"), there.get(f"eh-hash{form}")
        if h_hash and eh_hash:
            found.append(_trade_off(measures, h_hash, eh_hash, source))
        if random and exhaustive:
            found.append(_best_in_time(measures, random, exhaustive, hashes, called, source))
        found.append(_sceptic(measures, hashes, subsamples, called))
    return [claim for claim in found if claim.statements]


def _beats_random(measures: Measures, random: str, active: Sequence[str], called: str, source: str) -> Claim:
    return Claim(
        f"{called} beats random labels.",
        "Improvement in AUROC over all rounds, race by race.",
        _above(measures, measures.gain, random, active),
        source,
    )


def _ends_above_random(
    measures: Measures, random: str, active: Sequence[str], called: str, source: str
) -> Claim:
    return Claim(
        f"{called} is ahead of random labels in the end.",
        f"Improvement in AUROC after {counted(measures.results.plan.iterations, 'label')}, race by race.",
        _above(measures, measures.last_gain, random, active),
        source,
    )


def _above(
    measures: Measures, of: Callable[[str], Floats], base: str, others: Sequence[str]
) -> tuple[Statement, ...]:
    """Return a statement for each of the strategies `others`: its measure is above the measure of `base`."""
    found = [(name, measures.difference(of, name, base)) for name in others]
    return tuple(
        Statement(f"{lane_label(name)} against {lane_label(base).lower()}: {points(more)}", more, 0.0)
        for name, more in found
    )


def _close(measures: Measures, exhaustive: str, hashes: Sequence[str], called: str, source: str) -> Claim:
    statements = []
    for name in hashes:
        more = measures.difference(measures.gain, name, exhaustive)
        statements.append(
            Statement(f"{lane_label(name)} against the full scan: {points(more)}", more, -CLOSE)
        )
    return Claim(
        f"{called} learns about as well as the exhaustive scan.",
        f"Improvement in AUROC over all rounds; no more than {CLOSE:g} point behind counts as close.",
        tuple(statements),
        source,
    )


def _faster(measures: Measures, exhaustive: str, hashes: Sequence[str], called: str, source: str) -> Claim:
    statements = []
    for name in hashes:
        ratio = measures.difference(measures.log_seconds, exhaustive, name).exp()
        statements.append(
            Statement(f"{lane_label(name)}: the full scan takes {times(ratio)} as long", ratio, ORDER)
        )
    return Claim(
        f"{called} selects one to two orders of magnitude faster.",
        f"Median processor times of selections in each race; {ORDER:g} times or more.",
        tuple(statements),
        source,
    )


def _trade_off(measures: Measures, h_hash: str, eh_hash: str, source: str) -> Claim:
    nearer = measures.difference(measures.log_margin, h_hash, eh_hash).exp()
    slower = measures.difference(measures.log_seconds, eh_hash, h_hash).exp()
    h, eh = lane_label(h_hash), lane_label(eh_hash)
    return Claim(
        f"{eh} finds nearer items than {h}, and takes longer.",
        "Medians of each race; times are processor times.",
        (
            Statement(f"|wᵀx| of {h} is {times(nearer)} that of {eh}", nearer, 1.0),
            Statement(f"{eh} takes {times(slower)} as long as {h}", slower, 1.0),
        ),
        source,
    )


def _best_in_time(
    measures: Measures, random: str, exhaustive: str, hashes: Sequence[str], called: str, source: str
) -> Claim:
    statements = []
    for name in hashes:
        for other in (exhaustive, random):
            more = measures.difference(measures.gain_in_time, name, other)
            text = f"{lane_label(name)} against {lane_label(other).lower()}: {points(more)}"
            statements.append(Statement(text, more, 0.0))
    return Claim(
        f"{called} gives the best accuracy for the time spent.",
        f"Improvement in AUROC over the seconds of selection (processor time) and labeling, "
        f"{measures.label_seconds:g} s per label, until the quickest strategy has all its labels.",
        tuple(statements),
        source,
    )


def _sceptic(measures: Measures, hashes: Sequence[str], subsamples: Sequence[str], called: str) -> Claim:
    """Compare each hashing strategy with a random subsample that takes about as long.

    A hashing strategy is compared with the smallest subsample that takes at least as long. If the strategy
    beats a slower subsample, it would also beat a subsample of equal time. If all subsamples are faster, the
    strategy is compared with the largest subsample.
    """
    statements = []
    most = len(measures.results.pool)
    sizes = {name: min(most, strategy_from(name).params()["n_scored"]) for name in subsamples}
    for name in hashes:
        longer = [
            other for other in subsamples if measures.difference(measures.log_seconds, other, name).mean >= 0
        ]
        rivals = longer or subsamples
        if not rivals:
            continue
        rival = min(rivals, key=sizes.__getitem__) if longer else max(rivals, key=sizes.__getitem__)
        ratio = measures.difference(measures.log_seconds, rival, name).exp()
        more = measures.difference(measures.gain, name, rival)
        nearer = measures.difference(measures.log_margin, rival, name).exp()
        whose = f"a subsample of {sizes[rival]:,}, which takes {figure(ratio.mean)} times as long"
        statements += [
            Statement(f"{lane_label(name)} against {whose}: {points(more)}", more, 0.0),
            Statement(f"|wᵀx| of that subsample is {times(nearer)} that of {lane_label(name)}", nearer, 1.0),
        ]
    return Claim(
        f"{called} beats a random subsample given the same time.",
        "Improvement in AUROC over all rounds, and |wᵀx|, against the smallest "
        "subsample that takes no less processor time; where all take less, against the largest.",
        tuple(statements),
        SCEPTIC,
    )
