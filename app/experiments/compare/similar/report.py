"""The report of a comparison of hash families as one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from closecall.app.display.strategy_labels import FAMILY_LABELS
from closecall.app.experiments.compare.claims import figure, percent
from closecall.app.experiments.compare.page import REPORT, drawing, write_page
from closecall.app.experiments.compare.results import machine, versions
from closecall.app.experiments.compare.similar.looks import look_of, outline
from closecall.app.experiments.compare.similar.names import STRUCTURES, lane_label, lessons, yardstick_label
from closecall.app.experiments.compare.similar.results import Lane, SimilarityResults
from closecall.core.experiment.families import FITTED_TO, lesson_of
from closecall.core.experiment.similarity import SEARCHED, WANTED

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
        draws=plan.draws,
        queries=plan.queries,
        fitted_to=min(FITTED_TO, len(results.pool)),
        has_classes=results.has_classes,
        details=_details(results),
    )


def headline(results: SimilarityResults) -> str:
    """Return the main result in one sentence: the best family, and how many others may be as good."""
    bits, R = max(results.plan.bits), results.first
    found = {lane: results.mean(lane, "nearest", bits=bits, retrieved=R) for lane in results.lanes}
    known = {lane: value for lane, value in found.items() if value is not None}
    if not known:
        return "No family could be measured with the longest codes."
    best = max(known, key=lambda lane: known[lane])
    n_near = sum(known[best] - value < _chance(results, known[best]) for value in known.values()) - 1
    others = f"; {n_near} other{'s' * (n_near > 1)} may be as good" if n_near else ""
    among = "first" if R == 1 else f"among the first {R:,}"
    return (
        f"{lane_label(best)}{',' if best.form else ''} finds the nearest of {len(results.pool):,} items most "
        f"often: {among} for {percent(f'{100 * known[best]:.0f}')} of the queries{others}."
    )


def _chance(results: SimilarityResults, recall: float) -> float:
    """Return twice the standard error of the difference between two recalls, both approximately `recall`."""
    n = results.plan.queries
    return 2 * float(np.sqrt(2 * max(recall * (1 - recall), 1 / n) / n))


def _captions(results: SimilarityResults) -> dict[str, str]:
    """Return the caption of each figure."""
    R, share = results.first, percent(f"{100 * results.plan.share:g}")
    own = "Each family is held to the neighbours that it looks for"
    return {
        "bits": f"Against the length of the code: how often the nearest item is among the {R:,} whose codes "
        f"differ least ({share} of the pool), and how many of the {results.plan.neighbours} nearest are "
        f"among {results.told:,} (the survey’s figure 11 b). {own}.",
        "retrieved": f"How many of the {results.plan.neighbours} true neighbours are among the items whose "
        f"codes differ least, against how many these are (the survey’s figure 11 a). {own}.",
        "angle": "The same with one yardstick for all: the nearest by the angle between the features.",
        "precision": "How many of the items whose codes differ least are of the query’s class.",
        "structures": f"Recall@{WANTED} of the exact neighbours against the share of the pool whose features "
        f"were read, from {percent(f'{100 * SEARCHED[0]:g}')} to {percent(f'{100 * SEARCHED[-1]:g}')}, by "
        "the structure that proposes them.",
        "times": "The same recall against the time of a whole query, over that of the exact scan by the same "
        "yardstick.",
    }


def _facts(results: SimilarityResults) -> str:
    plan, pool = results.plan, results.pool
    draws = "1 draw" if plan.draws == 1 else f"{plan.draws} draws"
    return (
        f"{pool.title}: {len(pool):,} items × {pool.n_features:,} features; {plan.queries:,} held-out "
        f"queries; {draws} of vectors and landmarks; kernel {plan.kernel}, {plan.landmarks:,} landmarks; "
        f"at most {plan.labels:,} labels, the same for every family that learns from them."
    )


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
            (figure(1000 * cost["query seconds"]), ""),
            (figure(build), ""),
            (f"{cost['bytes']:g}", ""),
        ],
    }


def _chosen(results: SimilarityResults, lane: Lane, bits: int) -> str:
    """Return the parameters that were chosen by the data, as text.

    Rank and scale are means over draws. For γ, all chosen values are listed.
    """
    means = {name: results.mean(lane, name, bits=bits) for name in ("rank", "scale")}
    parts = [f"{name} {value:g}" for name, value in means.items() if value is not None]
    gammas = [f"{gamma:g}" for gamma in np.unique(results.draws(lane, "gamma", bits=bits))]
    return ", ".join([*parts, *([f"γ {' and '.join(gammas)}"] if gammas else [])])


def _percent(results: SimilarityResults, lane: Lane, measure: str, bits: int, k: int) -> tuple[str, str]:
    """Return a measure in percent: its mean and its range over the random draws."""
    values = 100 * results.draws(lane, measure, bits=bits, retrieved=k)
    if not len(values):
        return "", ""
    spread = f"{values.min():.1f} to {values.max():.1f}" if len(values) > 1 else ""
    return f"{values.mean():.1f}", spread


def _structures(results: SimilarityResults) -> list[dict[str, Any]]:
    """Return the rows of the second table: the share that each structure must search for a good recall."""
    names = _searched(results)
    return [
        {**_named(lane), "cells": [_enough(results, lane, name) for name in names]} for lane in results.lanes
    ]


def _searched(results: SimilarityResults) -> list[str]:
    there = set(results.table["structure"].to_pylist())
    return [name for name in STRUCTURES if name in there]


def _enough(results: SimilarityResults, lane: Lane, structure: str) -> tuple[str, str]:
    """Return the least share of the pool to search for a recall of `GOOD`, and the time for it.

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
    known = min(plan.labels, FITTED_TO, len(pool)), len(pool.classes)
    measured = dict.fromkeys(lane.family for lane in results.lanes)
    learned = {name: lesson_of(name, *known, sparse=pool.is_sparse) for name in measured}
    return [
        ("pool", f"{pool.title}, digest {pool.digest}"),
        ("families", ", ".join(plan.families)),
        ("bits", ", ".join(map(str, plan.bits))),
        *([("labels", lessons(learned))] if results.has_classes and any(learned.values()) else []),
        (
            "structures",
            f"{names}; searched {percent(', '.join(f'{100 * share:g}' for share in SEARCHED))} of the pool",
        ),
        ("seeds", ", ".join(str(plan.seed + draw) for draw in range(plan.draws))),
        ("machine", f"{here['processor']}, {here['cores']} cores, {here['system']}; one thread"),
        ("versions", ", ".join(f"{name} {number}" for name, number in versions().items())),
    ]
