"""The report of a comparison of hash families as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.display.strategy_labels import FAMILY_LABELS
from closecall.app.experiments.compare.page import REPORT, drawing, write_page
from closecall.app.experiments.compare.results import machine, versions
from closecall.app.experiments.compare.similar.looks import look_of, outline
from closecall.app.experiments.compare.similar.names import STRUCTURES, lane_label, lessons, yardstick_label
from closecall.app.experiments.compare.similar.plan import MOST_SEARCHED, MOST_TIMED
from closecall.app.experiments.compare.similar.results import Floats, Lane, SimilarityResults
from closecall.app.experiments.compare.statistics import LEAST, Interval, interval
from closecall.app.experiments.compare.wording import figure, percent, points
from closecall.core.experiment.families import FITTED_TO, Lesson, lesson_of
from closecall.core.experiment.searching import WANTED
from closecall.core.experiment.similarity import TIMED_ROWS
from closecall.core.hashing import MetricLSH, RandomHyperplaneLSH

Cell = tuple[str, tuple[str, ...]]
"""Text of a table's cell: the number, and the small figures below it."""

BASELINE = RandomHyperplaneLSH.name
"""The family that all others are compared with; it was fixed before anything was measured.

In a draw, all families have the same queries, sample and labels, so differences are paired by draw.
"""

GOOD = 0.8
"""Recall@10 that counts as good.

The report states the share of the pool that a structure must search to reach this recall.
"""


def write_report(results: SimilarityResults, figures: dict[str, Path], out: Path) -> Path:
    """Write the report to the folder `out`, and return the path of the report.

    Parameters
    ----------
    results : SimilarityResults
        Results to report.
    figures : dict
        SVG file of each figure, by name; see `app.experiments.compare.similar.figures.draw_figures`.
    out : Path
        An existing folder.
    """
    plan = results.plan
    captions = _captions(results)
    return write_page(
        "similar/report.html",
        out / REPORT,
        headline=headline(results),
        rivals=_rivals(results),
        facts=_facts(results),
        rows=[_row(results, lane) for lane in results.lanes],
        refused=[
            (f"{FAMILY_LABELS.get(family, family)}{', ' if what else ''}{what}", reason)
            for (family, what), reason in results.refused.items()
        ],
        structure_names=[STRUCTURES[name] for name in _searched(results)],
        structures=_structures(results),
        figures=[
            drawing(figures[name], name, caption) for name, caption in captions.items() if name in figures
        ],
        R=results.first,
        told=results.told,
        neighbours=plan.neighbours,
        bits=max(plan.bits),
        good=100 * GOOD,
        wanted=WANTED,
        about_draws=_about_draws(results),
        about_building=_about_building(results),
        about_queries=_about_queries(results),
        about_fitting=_about_fitting(results),
        has_classes=results.has_classes,
        details=_details(results),
    )


def headline(results: SimilarityResults) -> str:
    """Return the main result in one sentence: the best family, and how many other families may be as good."""
    if not results.nearest:
        return "No family could be measured with the longest codes."
    best, R = best_of(results), results.first
    nearest = f"the nearest of {len(results.pool):,} items"
    recall, are_few = results.nearest[best].mean(), results.plan.queries < LEAST
    if recall == 0 or not (are_few or _beats_chance(results, best)):
        return f"No family clearly finds {nearest} more often than {counted(R, 'random item')} would."
    if are_few:
        others = "; there are too few queries to judge the others" if len(results.nearest) > 1 else ""
    else:
        n_near = len(rivals_of(results, best))
        others = f"; {n_near} other{'s' * (n_near > 1)} may be as good" if n_near else ""
    among = "first" if R == 1 else f"among the first {R:,}"
    return (
        f"{lane_label(best)}{',' if best.form else ''} finds {nearest} most often: {among} for "
        f"{percent(f'{100 * recall:.0f}')} of the queries{others}."
    )


def best_of(results: SimilarityResults) -> Lane:
    """Return the family and form with the highest recall@R of the longest codes."""
    return max(results.nearest, key=lambda lane: float(results.nearest[lane].mean()))


def rivals_of(results: SimilarityResults, best: Lane) -> list[Lane]:
    """Return the families that may be as good as the best one.

    Such a family meets two conditions. The 95 % interval of its difference to the best family, paired by
    query, contains 0. The family itself finds the nearest item clearly more often than random items would.
    Return an empty list if even the best family is not clearly better than random items, or if there are too
    few queries for intervals.
    """
    if not _beats_chance(results, best):
        return []
    ahead = {
        lane: _over_queries(results.nearest[best] - results.nearest[lane]).low
        for lane in results.lanes
        if lane in results.nearest and lane != best and _beats_chance(results, lane)
    }
    return [lane for lane, low in ahead.items() if low is not None and low <= 0]


def _rivals(results: SimilarityResults) -> str:
    """Return sentences about the families that may be as good as the best family; "" if there are none."""
    if not results.nearest or not (rivals := rivals_of(results, best := best_of(results))):
        return ""
    means = ", means over draws" if results.plan.draws > 1 else ""
    return (
        f"May be as good as {lane_label(best)}: {'; '.join(map(lane_label, rivals))}. Their difference in "
        f"the first column, paired by query (Student’s t{means}), has a {percent('95')} interval that "
        f"contains 0, and their own interval is above {_by_chance(results)}, what random items would find."
    )


def _by_chance(results: SimilarityResults) -> str:
    """Return R as a share of the pool, which is the recall@R of random items."""
    return percent(f"{100 * results.first / len(results.pool):.2g}")


def _beats_chance(results: SimilarityResults, lane: Lane) -> bool:
    """Return whether the whole interval of a family's recall@R is above the recall of R random items."""
    low = _over_queries(results.nearest[lane]).low
    return low is not None and low > results.first / len(results.pool)


def _over_queries(values: Floats) -> Interval:
    return interval(values, np.zeros(len(values)))


def _captions(results: SimilarityResults) -> dict[str, str]:
    """Return the caption of each figure."""
    R, limits = results.first, results.limits
    least, most = (percent(f"{100 * share:.3g}") for share in (limits[0], limits[-1]))
    limited = f"limits from {least} to {most}" if len(limits) > 1 else f"a limit of {most}"
    own = "Each family is held to the neighbours that it looks for"
    return {
        "bits": f"Against the length of the code: how often the nearest item is among the {R:,} whose codes "
        f"differ least ({_by_chance(results)} of the pool), and how many of the {results.plan.neighbours} "
        f"nearest are among {results.told:,} (the survey’s figure 11 b). {own}.",
        "retrieved": f"How many of the {results.plan.neighbours} true neighbours are among the items whose "
        f"codes differ least, against how many these are (the survey’s figure 11 a). {own}.",
        "angle": "The same with one yardstick for all: the nearest by the angle between the features.",
        "precision": "How many of the items whose codes differ least are of the query’s class.",
        "structures": f"Recall@{WANTED} of the exact neighbours against the share of the pool whose features "
        f"were read, with {limited}, by the structure that proposes them.",
        "times": "The same recall against the time of a whole query, over that of the exact scan by the same "
        "yardstick.",
    }


def _facts(results: SimilarityResults) -> str:
    plan, pool = results.plan, results.pool
    facts = [
        f"{pool.title}: {len(pool):,} items × {pool.n_features:,} features",
        "1 held-out query" if plan.queries == 1 else f"{plan.queries:,} held-out queries",
        f"{counted(plan.draws, 'draw')} of everything random",
    ]
    if _is_kernelized(results):
        facts.append(f"kernel {plan.kernel}, {plan.landmarks:,} landmarks")
    if learned := _learned(results):
        same = ", the same for every family that learns from them" if len(learned) > 1 else ""
        facts.append(f"at most {plan.labels:,} labels{same}")
    return f"{'; '.join(facts)}."


def _about_draws(results: SimilarityResults) -> str:
    """Return sentences about the small figures of the first table; "" if there are none."""
    draws, base = results.plan.draws, _baseline(results)
    if draws < LEAST:
        return ""
    intervals = f"{percent('95')} intervals over {draws} draws, which have the same queries (Student’s t)"
    if base is None or len(results.lanes) == 1:
        return f"Small figures: {intervals}."
    return (
        f"Small figures: {intervals}, and differences to {lane_label(base)}, paired by draw. A difference is "
        "open if its interval contains 0. The first column is the primary one."
    )


def _about_building(results: SimilarityResults) -> str:
    """Return sentences about the time of building, and about the parameters that the table shows."""
    chosen = [
        *(("ranks", "scales") if _is_kernelized(results) else ()),
        *(["γ"] if "gamma" in results.measures else []),
    ]
    left_out = [
        *(["learning the metric"] if _learns_metric(results) else []),
        *([f"choosing {_listed(chosen)}"] if chosen else []),
    ]
    estimated = f", estimated from the first {TIMED_ROWS:,} items" if len(results.pool) > TIMED_ROWS else ""
    without = f", without {' and '.join(left_out)}" if left_out else ""
    each = ", in each draw" if results.plan.draws > 1 else ""
    sentences = [f"Building is fitting and hashing every item{estimated}{without}."]
    if _is_kernelized(results) and each:
        sentences.append("Ranks and scales are means over draws.")
    if "γ" in chosen:
        slack = "the slack of a learned metric or kernel"
        sentences.append(f"Cross-validation chooses γ, {slack}{each}.")
    return " ".join(sentences)


def _about_queries(results: SimilarityResults) -> str:
    """Return sentences about the queries."""
    n = results.plan.queries
    items = "is 1 held-out item" if n == 1 else f"are {n:,} held-out items"
    sentences = [f"{'The query' if n == 1 else 'Queries'} {items}, not in the pool."]
    if n > MOST_SEARCHED:
        sentences.append(f"Search structures answer the first {MOST_SEARCHED}.")
    if n > MOST_TIMED:
        sentences.append(f"Searches by codes alone and exact scans are timed with the first {MOST_TIMED}.")
    return " ".join(sentences)


def _about_fitting(results: SimilarityResults) -> str:
    """Return sentences about the rows that families are fitted to, and what families learn from the rows."""
    n, n_fitted = len(results.pool), _n_fitted(results)
    others = ", others in each draw" if results.plan.draws > 1 else ""
    rows = f"{n_fitted:,} random items of the pool{others}" if n_fitted < n else f"all {n:,} items"
    sentences = [f"A family is fitted to {rows}."]
    if _is_kernelized(results):
        sentences.append(
            "Ranks and scales of kernelized hashing are chosen with as many other held-out items, by the "
            "recall among the items that a family is fitted to."
        )
    if _learns_metric(results):
        sentences.append("The learned metric is learned from the classes of such items.")
    return " ".join(sentences)


def _n_fitted(results: SimilarityResults) -> int:
    return min(FITTED_TO, len(results.pool))


def _is_kernelized(results: SimilarityResults) -> bool:
    """Return whether kernelized LSH, the family that has a rank, was measured."""
    return "rank" in results.measures


def _learns_metric(results: SimilarityResults) -> bool:
    return any(lane.family == MetricLSH.name for lane in results.lanes)


def _learned(results: SimilarityResults) -> dict[str, Lesson]:
    """Return the numbers of labels and pairs that each supervised family learns from."""
    pool = results.pool
    if not results.has_classes:
        return {}
    known = min(results.plan.labels, _n_fitted(results)), len(pool.classes)
    learned = {lane.family: lesson_of(lane.family, *known, sparse=pool.is_sparse) for lane in results.lanes}
    return {name: lesson for name, lesson in learned.items() if lesson is not None}


def _listed(words: Sequence[str]) -> str:
    """Return a list in words: "ranks, scales and γ"."""
    return " and ".join([*([", ".join(words[:-1])] if len(words) > 1 else []), words[-1]])


def _named(lane: Lane) -> dict[str, Any]:
    """Return the name of a family's form for the tables, with the look of its line in the figures."""
    look = look_of(lane)
    return {
        "name": lane_label(lane),
        "colour": f"var(--{look.hue})",
        "mark": outline(look.mark),
        "hollow": look.hollow,
        "dash": " ".join(f"{2 * length:g}" for length in look.dash),
    }


def _row(results: SimilarityResults, lane: Lane) -> dict[str, Any]:
    """Return the row of a family's form in the first table, for the longest codes measured."""
    pool, bits = results.pool, results.longest(lane)
    cost = {
        name: results.mean(lane, name, bits=bits) or 0.0
        for name in ("fit seconds", "hash seconds", "query seconds", "bytes")
    }
    build = cost["fit seconds"] + cost["hash seconds"] * len(pool)
    return {
        **_named(lane),
        "chosen": _chosen(results, lane, bits),
        "yardstick": yardstick_label(results.yardsticks[lane]),
        "cells": [
            _percent(results, lane, "nearest", bits, results.first),
            _percent(results, lane, "neighbours", bits, results.told),
            *([_percent(results, lane, "precision", bits, results.told)] if results.has_classes else []),
            (figure(1000 * cost["query seconds"]), ()),
            (figure(build), ()),
            (f"{cost['bytes']:g}", ()),
        ],
    }


def _chosen(results: SimilarityResults, lane: Lane, bits: int) -> str:
    """Return the parameters that were chosen from the data, as text.

    Rank and scale are means over draws. For γ, all chosen values are listed. If the plan has longer codes
    than `bits`, the text begins with `bits`.
    """
    means = {name: results.mean(lane, name, bits=bits) for name in ("rank", "scale")}
    parts = [f"{bits} bits"] if bits < max(results.plan.bits) else []
    parts += [f"{name} {value:g}" for name, value in means.items() if value is not None]
    gammas = [f"{gamma:g}" for gamma in np.unique(results.draws(lane, "gamma", bits=bits))]
    return ", ".join([*parts, *([f"γ {' and '.join(gammas)}"] if gammas else [])])


def _percent(results: SimilarityResults, lane: Lane, measure: str, bits: int, k: int) -> Cell:
    """Return the mean of a measure in percent, its interval over the draws, and its difference to LSH."""
    values = 100 * results.draws(lane, measure, bits=bits, retrieved=k)
    if not len(values):
        return "", ()
    mean, base = interval(values, np.zeros(len(values))), _baseline(results)
    if mean.low is None:
        return f"{mean.mean:.1f}", ()
    small = [f"{mean.low:.1f} to {mean.high:.1f}"]
    if base is not None and base != lane:
        gain = results.gain(lane, base, measure, bits=bits, retrieved=k)
        if gain is not None:
            small.append(f"{points(gain.scaled(100))}{', open' if gain.is_open else ''}")
    return f"{mean.mean:.1f}", tuple(small)


def _baseline(results: SimilarityResults) -> Lane | None:
    """Return the family that the others are compared with, in its usual form; None if it was not measured."""
    return next((lane for lane in results.lanes if lane.family == BASELINE), None)


def _structures(results: SimilarityResults) -> list[dict[str, Any]]:
    """Return the rows of the second table.

    A row has, for each structure, the share of the pool to search for a good recall.
    """
    names = _searched(results)
    return [
        {**_named(lane), "cells": [_enough(results, lane, name) for name in names]} for lane in results.lanes
    ]


def _searched(results: SimilarityResults) -> list[str]:
    there = set(results.table["structure"].to_pylist())
    return [name for name in STRUCTURES if name in there]


def _enough(results: SimilarityResults, lane: Lane, structure: str) -> tuple[str, str]:
    """Return the least share of the pool to search for a recall of `GOOD`, and the time of this search.

    If no measured share suffices, return a dash and the best recall.
    """
    bits = results.longest(lane)

    def curve(measure: str) -> Any:
        return results.by_retrieved(lane, measure, bits=bits, structure=structure)[1]

    recall, searched, ratio = curve("recall"), curve("searched"), curve("scan ratio")
    enough = np.flatnonzero(recall >= GOOD)
    if not len(enough):
        return "–", f"at most {percent(f'{100 * recall.max():.0f}')} found"
    place = enough[0]
    time = f"1/{figure(1 / ratio[place])}" if ratio[place] < 0.5 else figure(ratio[place])
    return percent(f"{100 * searched[place]:.1f}"), f"{time} of a scan’s time"


def _details(results: SimilarityResults) -> list[tuple[str, str]]:
    plan, pool, here = results.plan, results.pool, machine()
    names = ", ".join(STRUCTURES.get(name, name) for name in _searched(results))
    learned = _learned(results)
    limits = ", ".join(f"{100 * share:.3g}" for share in results.limits)
    return [
        ("pool", f"{pool.title}, digest {pool.digest}"),
        ("families", ", ".join(plan.families)),
        ("bits", ", ".join(map(str, plan.bits))),
        *([("labels", lessons(learned))] if learned else []),
        ("structures", f"{names}; at most {percent(limits)} of the pool ranked exactly"),
        ("seeds", ", ".join(str(plan.seed + draw) for draw in range(plan.draws))),
        ("machine", f"{here['processor']}, {here['cores']} cores, {here['system']}; one thread"),
        ("versions", ", ".join(f"{name} {number}" for name, number in versions().items())),
    ]
