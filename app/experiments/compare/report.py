"""The report of a comparison as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.display.strategy_labels import name_of
from closecall.app.display.theme import STRATEGY_COLOURS
from closecall.app.display.thumbnails import data_url
from closecall.app.experiments.compare.accuracy import KINDS, accuracy_after, reached
from closecall.app.experiments.compare.claims import SCEPTIC, Claim, Verdict, claims
from closecall.app.experiments.compare.figures import FIRST_CHOSEN
from closecall.app.experiments.compare.measures import Measures
from closecall.app.experiments.compare.page import REPORT, drawing, write_page
from closecall.app.experiments.compare.results import machine, versions
from closecall.app.experiments.compare.statistics import LEAST, Interval, holm, signed_rank
from closecall.app.experiments.compare.wording import (
    EXHAUSTIVE,
    RANDOM,
    figure,
    lane_label,
    percent,
    points,
    signed,
)
from closecall.core.duplicates import unrepeated_held_out
from closecall.core.errors import InputError
from closecall.core.simulation.drawing import MOST_CLASSES, SEEN_CLASSES, ItemsByClass
from closecall.core.sources.texts import Texts

_PAPER = (
    "the paper on H-Hash and EH-Hash (P. Jain, S. Vijayanarasimhan, K. Grauman, NIPS\N{NO-BREAK SPACE}2010)"
)

_MARKS = {
    Verdict.HOLDS: "holds",
    Verdict.DOES_NOT: "not",
    Verdict.OPEN: "undecided",
    Verdict.TOO_FEW: "undecided",
}

_WORDS_SHOWN = 16


def write_report(measures: Measures, figures: dict[str, Path], out: Path) -> Path:
    """Write the report to the folder `out`, and return the path of the report.

    Parameters
    ----------
    measures : Measures
        Measures to report.
    figures : dict
        SVG file of each figure, by the figure's name; see `app.experiments.compare.figures.draw_figures`.
    out : Path
        An existing folder.
    """
    results = measures.results
    plan, pool = results.plan, results.pool
    found = claims(measures)
    return write_page(
        "report.html",
        out / REPORT,
        headline=headline(measures, found),
        facts=_facts(measures),
        has_intervals=_n_means(measures) >= LEAST,
        about_claims=_about_claims(measures, found),
        about_intervals=_about_intervals(measures),
        claims=[_claim(claim) for claim in found],
        rows=[_row(measures, name) for name in results.names],
        after=[f"{n} labels" for n in reached(results)],
        kinds=list(KINDS.values()),
        accuracies=_accuracies(measures),
        figures=[
            drawing(figures[name], name, caption)
            for name, caption in _captions(measures, figures).items()
            if name in figures
        ],
        picked=_picked(measures),
        n_picked=min(FIRST_CHOSEN, plan.iterations),
        picked_class=pool.classes[results.units[0].positive],
        pairs=_pairs(measures),
        pair_names=[lane_label(name) for name in measures.whole[:-1]],
        n_units=len(results.units),
        n_strategies=len(results.names),
        about_pairs=_about_pairs(measures),
        begins_with=_begins_with(measures),
        noise=f", and is wrong for {percent(f'{100 * plan.noise:g}')} of the items" if plan.noise else "",
        details=_details(measures),
    )


def headline(measures: Measures, found: Sequence[Claim]) -> str:
    """Return the main result in one plain sentence."""
    bases = [name for name in measures.whole if name_of(name) == RANDOM]
    others = [name for name in measures.whole if name_of(name) != RANDOM]
    if not measures.whole:
        return "No strategy ran to the end."
    if not bases or not others:
        return f"{counted(len(measures.whole), 'query strategy', 'query strategies')} compared."
    gains = {name: measures.difference(measures.gain, name, bases[0]) for name in others}
    best = max(gains, key=lambda name: gains[name].mean)
    low, mean = gains[best].low, gains[best].mean
    if low is None:
        sentence = "There are too few races to judge whether a strategy beats random labels"
    elif low > 0:
        sentence = f"{lane_label(best)} gains most: {mean:.1f} points of AUROC more than random labels"
    else:
        sentence = "No strategy clearly beats random labels"
    claimed = [claim for claim in found if "orders of magnitude" in claim.title]
    for faster in (claim for claim in claimed if claim.verdict is Verdict.HOLDS):
        least = min(statement.measured.mean for statement in faster.statements)
        whose = faster.title.partition(" selects")[0].lower()
        return f"{sentence}; {whose} selects {figure(least)} times faster than a full scan."
    return f"{sentence}."


def _named(word: str) -> dict[str, Any]:
    """Return a strategy's name, colour and mark for the page."""
    name = name_of(word)
    known = name in STRATEGY_COLOURS
    return {
        "name": lane_label(word),
        "colour": f"var(--{name})" if known else "var(--second)",
        "glyph": f"s-{name}" if known else "s-other",
    }


def _facts(measures: Measures) -> str:
    results = measures.results
    plan, pool = results.plan, results.pool
    weight = ", balanced" if plan.class_weight else ""
    each = " of each" if len(plan.classes) > 1 else ""
    rare = f", {percent(f'{100 * plan.prevalence:g}')} of the items positive" if plan.prevalence else ""
    return (
        f"{pool.title}: {len(pool):,} items × {pool.n_features:,} features, "
        f"{len(unrepeated_held_out(pool)):,} held out; "
        f"{counted(len(plan.classes), 'class', 'classes')}, {counted(plan.runs, 'run')}{each}, "
        f"{counted(plan.iterations, 'label')} chosen one by one, C = {plan.C:g}{weight}{rare}."
    )


def _captions(measures: Measures, figures: Collection[str]) -> dict[str, str]:
    """Return the caption of each figure; `figures` has the names of the figures that were drawn."""
    results, has_intervals = measures.results, _n_means(measures) >= LEAST
    plan = results.plan
    several = (len(plan.classes) > 1, "classes"), (plan.runs > 1, "runs")
    over = " and ".join(words for are_several, words in several if are_several)
    mean = f", the mean over {over}" if over else ""
    shown = "table above and the next figure show" if "above-random" in figures else "table above shows"
    with_intervals = f" The {shown} the intervals." if has_intervals else ""
    bars = f"; bars are {percent('95')} intervals" if has_intervals else ""
    scans = [name for name in results.names if name_of(name) == EXHAUSTIVE]
    has_scan = any(np.isfinite(results.of(results.margin, name)).any() for name in scans)
    dotted = ", the dotted line being the full scan’s median" if has_scan else ""
    races = " and races" if len(results.units) > 1 else ""
    return {
        "learning": f"Improvement in AUROC on the held-out items with each label chosen{mean} (the H-Hash "
        f"paper’s figures 1a and 2a).{with_intervals}",
        "above-random": "How much more each strategy gains than random labels, the mean over all rounds, "
        f"race by race{bars}.",
        "times": f"Processor times of selections{dotted}, and |wᵀx| of what was selected (that paper’s "
        "figures 1b, 1c, 2b, 2c and 4): quartiles, median, and whiskers from the 5th to the 95th "
        f"percentile of all rounds{races}.",
        "spent": "Improvement in AUROC with the time spent on selection (processor time) and labeling (its "
        "figure 3b).",
    }


def _about_claims(measures: Measures, found: Sequence[Claim]) -> str:
    """Return sentences that say whose claims these are, and when they hold; "" without claims."""
    if not found:
        return ""
    of_sceptic = [claim.source == SCEPTIC for claim in found]
    whose = [
        *([] if all(of_sceptic) else [f"claims of {_PAPER}"]),
        *(["a sceptic’s question"] if any(of_sceptic) else []),
    ]
    known = "; below each claim stands whose it is" if len(whose) > 1 else ""
    classes = "these classes" if len(measures.results.plan.classes) > 1 else "this class"
    sentences = [
        f"Judged here: {', and '.join(whose)}{known}. The verdicts are about this pool and {classes}."
    ]
    if _n_means(measures) >= LEAST:
        sentences.append(
            f"A statement holds if its whole {percent('95')} interval supports it, does not hold if the "
            "whole interval contradicts it, and is open otherwise. A claim holds if all its "
            "statements do."
        )
    return " ".join(sentences)


def _about_pairs(measures: Measures) -> str:
    """Return sentences about the table of pairs."""
    plan, n_units = measures.results.plan, len(measures.results.units)
    more = "How many points more the row’s strategy gains than the column’s, the mean over all rounds"
    if n_units == 1:
        return f"{more}."
    holm = ", adjusted by Holm for all pairs" if len(measures.whole) > 2 else ""
    sentences = [f"{more}; below it p of Wilcoxon’s signed-rank test over the {n_units} races{holm}."]
    if len(plan.classes) > 1 and plan.runs > 1:
        intervals = "; the intervals above are not" if _n_means(measures) >= LEAST else ""
        sentences.append(
            "Races of one class resemble each other, so these p are smaller than they would be for as many "
            f"classes{intervals}."
        )
    return " ".join(sentences)


def _begins_with(measures: Measures) -> str:
    """Return a description of the labels that a race begins with."""
    results = measures.results
    first, n_classes = results.plan.first, len(ItemsByClass(results.pool, results.plan.first).classes)
    drawn = ""
    if n_classes > MOST_CLASSES:
        n_classes, drawn = SEEN_CLASSES, f", the one to learn and {SEEN_CLASSES - 1} others drawn at random"
    each = ", drawn separately for each race" if len(results.units) > 1 else ""
    same = ", the same for all strategies" if len(results.names) > 1 else ""
    return f"{counted(first, 'right label')} of each of {n_classes} classes{drawn}{each}{same}"


def _n_means(measures: Measures) -> int:
    """Return the number of values behind an interval: class means, or runs if there is only one class."""
    plan = measures.results.plan
    return len(plan.classes) if len(plan.classes) > 1 else plan.runs


def _about_intervals(measures: Measures) -> str:
    plan, n_means = measures.results.plan, _n_means(measures)
    if 1 < n_means < LEAST:
        kind = "classes" if len(plan.classes) > 1 else "runs of the one class"
        return f"There are only {n_means} {kind}, too few to judge: intervals need at least {LEAST}."
    if len(plan.classes) > 1:
        return (
            "Intervals are Student’s t over the classes, each with the mean of its runs: they say what to "
            "expect of another class of this kind."
        )
    if plan.runs > 1:
        return (
            "Intervals are Student’s t over the runs of the one class: they say nothing about other classes."
        )
    return "There is one race only, so nothing can be concluded: more runs or classes give intervals."


def _claim(claim: Claim) -> dict[str, Any]:
    return {
        "title": claim.title,
        "source": claim.source,
        "meaning": claim.meaning,
        "verdict": claim.verdict.value,
        "mark": _MARKS[claim.verdict],
        "statements": [
            {"text": one.text, "verdict": one.verdict.value, "mark": _MARKS[one.verdict]}
            for one in claim.statements
        ],
    }


def _row(measures: Measures, name: str) -> dict[str, Any]:
    """Return a strategy's row of the table.

    If the strategy did not reach the last round, the row has the reason instead of numbers.
    """
    results = measures.results
    row: dict[str, Any] = {**_named(name), "reason": None, "cells": []}
    reasons = results.failures.get(name, {})
    if reasons:
        done = np.isfinite(results.of(results.margin, name)).sum()
        rounds = f"{done:,} of {len(results.units) * results.plan.iterations:,} rounds"
        row["reason"] = f"Can’t run here: {next(iter(reasons.values()))}. It had {rounds}."
        return row
    if name not in measures.whole:
        row["reason"] = "It ran out of items before the last round."
        return row
    scan = next((one for one in measures.whole if name_of(one) == EXHAUSTIVE), None)
    of_scan = measures.difference(measures.log_seconds, scan, name).exp() if scan else None
    train = 1000 * np.median(results.of(results.train_cpu_seconds, name))
    answers = results.yes_share(name)
    row["cells"] = [
        _signed(measures.mean(measures.gain, name)),
        _signed(measures.mean(measures.last_gain, name)),
        _plain(measures.mean(measures.log_seconds, name).exp().scaled(1000)),
        _plain(of_scan) if of_scan and name != scan else ("", ""),
        (figure(measures.mean(measures.log_margin, name).exp().mean), ""),
        _plain(measures.mean(measures.log_rank, name).exp()),
        (f"{np.median(results.of(results.scored, name)):,.0f}", ""),
        (figure(float(train)), ""),
        (percent(f"{100 * answers:.0f}"), ""),
    ]
    return row


def _accuracies(measures: Measures) -> list[dict[str, Any]]:
    """Return the table of the accuracy after some numbers of labels: one row for each strategy in `whole`.

    A cell has the mean, and the difference to random labels with its interval.
    """
    results = measures.results
    base = next((name for name in measures.whole if name_of(name) == RANDOM), None)
    rows = []
    for name in measures.whole:
        cells = []
        for n_labels, kind in product(reached(results), KINDS):
            values = partial(accuracy_after, results, kind, n_labels=n_labels)
            more = "" if base in (None, name) else points(measures.difference(values, name, str(base)))
            cells.append((f"{measures.mean(values, name).mean:.1f}", more.replace(" points", "")))
        rows.append({**_named(name), "cells": cells})
    return rows


def _signed(measured: Interval) -> tuple[str, str]:
    return _with_bounds(measured, signed)


def _plain(measured: Interval) -> tuple[str, str]:
    return _with_bounds(measured, figure)


def _with_bounds(measured: Interval, sentence: Callable[[float], str]) -> tuple[str, str]:
    if measured.low is None or measured.high is None:
        return sentence(measured.mean), ""
    return sentence(measured.mean), f"{sentence(measured.low)} to {sentence(measured.high)}"


def _picked(measures: Measures) -> list[dict[str, Any]]:
    """Return the first items that each strategy selected in the first race, for display."""
    results = measures.results
    positive = results.units[0].positive
    rows = []
    for name in results.names:
        items = [int(item) for item in results.of(results.item, name)[0, :FIRST_CHOSEN] if item >= 0]
        truth = results.pool.truth(items)
        row: dict[str, Any] = {**_named(name), "images": [], "texts": []}
        try:
            source = results.pool.source
            if isinstance(source, Texts):
                row["texts"] = [
                    {"words": _first_words(source.text(item)), "yes": bool(own == positive)}
                    for item, own in zip(items, truth, strict=True)
                ]
            else:
                row["images"] = [
                    {
                        "url": data_url(source.image(item, 96)),
                        "name": source.name(item),
                        "yes": bool(own == positive),
                    }
                    for item, own in zip(items, truth, strict=True)
                ]
        except InputError:
            return []
        rows.append(row)
    return rows


def _first_words(text: str) -> str:
    words = text.split()
    return " ".join(words[:_WORDS_SHOWN]) + (" …" if len(words) > _WORDS_SHOWN else "")


def _pairs(measures: Measures) -> list[dict[str, Any]]:
    """Return a table of the mean difference in gain for each pair of strategies.

    The row of a strategy has the differences between this strategy and each strategy before it. The p-values
    are from Wilcoxon's signed-rank test over races, adjusted by Holm's method.
    """
    names = measures.whole
    pairs = list(combinations(range(len(names)), 2))
    p = [signed_rank(measures.gain(names[b]) - measures.gain(names[a])) for a, b in pairs]
    adjusted = holm([1.0 if one is None else one for one in p])
    cells: dict[tuple[int, int], dict[str, Any]] = {}
    for (a, b), own, value in zip(pairs, p, adjusted, strict=True):
        more = measures.difference(measures.gain, names[b], names[a])
        sentence = "" if own is None else "p < 0.001" if value < 0.001 else f"p = {value:.2g}"
        cells[b, a] = {"value": _signed(more)[0], "p": sentence, "sure": own is not None and value < 0.05}
    return [
        {**_named(names[b]), "cells": [cells.get((b, a)) for a in range(len(names) - 1)]}
        for b in range(1, len(names))
    ]


def _details(measures: Measures) -> list[tuple[str, str]]:
    results = measures.results
    plan, pool, here = results.plan, results.pool, machine()
    return [
        ("pool", f"{pool.title}, digest {pool.digest}"),
        ("classes", ", ".join(pool.classes[positive] for positive in plan.classes)),
        ("strategies", ", ".join(plan.names)),
        ("seed", str(plan.seed)),
        ("time limit", f"{plan.limit:g} s per selection"),
        ("processes at once", f"{' or '.join(map(str, results.workers))}, one thread each"),
        ("machine", f"{here['processor']}, {here['cores']} cores, {here['system']}"),
        ("versions", ", ".join(f"{name} {number}" for name, number in versions().items())),
    ]
