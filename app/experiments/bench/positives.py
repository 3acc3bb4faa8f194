"""How many labels it takes to find the positives of rare classes: by query strategy, or by Find similar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import click
import numpy as np
from threadpoolctl import threadpool_limits

from closecall.app.experiments.bench.contenders import StrategyContender, contenders
from closecall.app.experiments.bench.statistics import mean_ratio
from closecall.core.errors import InputError
from closecall.core.experiment.positives import ByStrategy, Search, Way, classes_to_search, search_positives
from closecall.core.experiment.similar import FindSimilar
from closecall.core.pool.pool import Pool
from closecall.core.selection.words import parts_of, values_of

DEFAULT_WORDS = (
    "random",
    "margin-index",
    "likely-positive",
    "mixture",
    "mixture:margin=0.8,likely=0,random=0.2",
    "mixture:margin=0,likely=0.8,random=0.2",
    "mixture:margin=0.5,likely=0.5,random=0",
)
"""What takes part where nothing is named: the parts, and mixtures of each two of them and of all three."""

SIMILAR = "similar"
"""The word for the page Find similar, `core.experiment.similar`, with its parameters."""

COURSE = (50, 100, 200, 500, 1000, 2000, 5000)
"""After so many answers it is told how many positives were found, as far as the searches go."""

LEGEND = (
    "labels: answers until {wanted} positives are found; geometric mean and its 95 % interval over classes. "
    "Searches that found fewer after {most:,} answers are taken to go on with random items. fewer: how many "
    "times fewer than with random items only, whose mean is known exactly. found after: positives, the mean."
)

Row = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is measured, and how.

    Parameters
    ----------
    words : sequence of str
        Strategies, see `core.selection.words`, and `SIMILAR`.
    searches : int
        Of each strategy, for as many classes as there are.
    wanted : int
        Positives to be found.
    most : int
        Answers after which a search is given up.
    batch : int
        Items selected for one hyperplane; Find similar has pages of its own.
    most_share : float
        Classes that make up more of the pool are left out.
    seed : int
        Draws the classes and the items that searches begin with.
    """

    words: Sequence[str]
    searches: int
    wanted: int
    most: int
    batch: int
    most_share: float
    seed: int


def measure_positives(pool: Pool, plan: Plan, done: Callable[[Row], None]) -> list[Row]:
    """Search for the same classes in each way.

    Returns
    -------
    list of dict
        One row a strategy, see `row_of`; `done` is given each as soon as there is one.

    Raises
    ------
    InputError
        As of `ways`, or if there is nothing to search for.
    """
    positives = classes_to_search(pool, plan.searches, plan.wanted, plan.most_share, seed=plan.seed)
    rows = []
    with threadpool_limits(1, user_api="blas"):
        for word, way in ways(pool, plan).items():
            start = perf_counter()
            found = _search(pool, word, way, positives, plan)
            row = {
                "strategy": word,
                "data": pool.path.resolve().name,
                "items": len(pool),
                "dim": pool.n_features,
                "seconds": perf_counter() - start,
                **row_of(found, plan),
            }
            rows.append(row)
            done(row)
    return rows


def ways(pool: Pool, plan: Plan) -> dict[str, Way]:
    """How items are chosen, by the words of the plan.

    Raises
    ------
    InputError
        If a word names neither a strategy nor `SIMILAR`, or a parameter that there is not.
    """
    strategies = [word for word in plan.words if parts_of(word)[0] != SIMILAR]
    taking_part = {
        one.word: one.strategy
        for one in contenders(strategies, pool, None, plan.seed)
        if isinstance(one, StrategyContender)
    }
    return {
        word: ByStrategy(taking_part[word], plan.batch) if word in taking_part else _similar(pool, word)
        for word in dict.fromkeys(plan.words)
    }


def _similar(pool: Pool, word: str) -> FindSimilar:
    name, texts = parts_of(word)
    params = values_of(name, texts, FindSimilar)
    try:
        return FindSimilar(pool, **params)
    except TypeError as error:
        raise InputError(f"{name} has the parameters metric, page, gamma; got {', '.join(params)}") from error


def _search(pool: Pool, word: str, way: Way, positives: Sequence[int], plan: Plan) -> list[Search]:
    with click.progressbar(length=len(positives), label=word, show_pos=True) as bar:
        return search_positives(
            pool,
            way,
            positives,
            wanted=plan.wanted,
            most=plan.most,
            seed=plan.seed,
            progress=lambda ended, _: bar.update(ended - bar.pos),
        )


def row_of(found: Sequence[Search], plan: Plan) -> Row:
    """The figures of one strategy.

    ``labels_needed`` is the geometric mean over searches of `Search.labels_needed`, with its 95 % interval,
    and ``labels_needed_median`` the median; ``reached`` is the share of searches that did find all that were
    wanted. ``fewer_than_random`` is the geometric mean of (labels needed at random, the mean of their
    distribution) / (labels needed), with its interval. ``found_after`` has the mean number of positives
    found after so many answers, as far as every search goes, or has found all that were wanted.
    """
    needed = np.array([search.labels_needed(plan.wanted) for search in found])
    at_random = np.array([search.labels_needed_at_random(plan.wanted) for search in found])
    classes = [search.positive for search in found]
    labels, labels_low, labels_high = mean_ratio(np.log(needed), classes, plan.seed)
    fewer, fewer_low, fewer_high = mean_ratio(np.log(at_random / needed), classes, plan.seed)
    return {
        "searches": len(found),
        "classes": len(set(classes)),
        "prevalence": float(np.mean([search.n_positive / search.n_items for search in found])),
        "wanted": plan.wanted,
        "most": plan.most,
        "batch": plan.batch,
        "labels_needed": labels,
        "labels_needed_low": labels_low,
        "labels_needed_high": labels_high,
        "labels_needed_median": float(np.median(needed)),
        "reached": float(np.mean([len(search.found_at) >= plan.wanted for search in found])),
        "fewer_than_random": fewer,
        "fewer_than_random_low": fewer_low,
        "fewer_than_random_high": fewer_high,
        "found_after": {
            str(n): float(np.mean([min(search.found_after(n), plan.wanted) for search in found]))
            for n in COURSE
            if n <= plan.most
        },
        "labels_needed_each": needed.tolist(),
    }


def show_positives(rows: Sequence[Row], plan: Plan) -> None:
    """Print all rows as a table, what took the fewest labels first."""
    first = rows[0]
    click.echo(
        f"\n{first['data']}, {first['items']:,} × {first['dim']}: {first['searches']} searches for "
        f"{plan.wanted} positives, {first['classes']} classes of {100 * first['prevalence']:.2g} %, "
        f"{plan.batch} answer{'s' if plan.batch > 1 else ''} to a hyperplane."
    )
    course = list(first["found_after"])
    head = ["strategy", "labels", "median", "reached", "fewer", *(f"after {n}" for n in course)]
    table = [head, *(_cells(row, course) for row in sorted(rows, key=lambda row: row["labels_needed"]))]
    widths = [max(len(line[column]) for line in table) for column in range(len(head))]
    for line in table:
        cells = [text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True)]
        click.echo("  ".join([line[0].ljust(widths[0]), *cells]))
    click.echo(f"\n{LEGEND.format(wanted=plan.wanted, most=plan.most)}")


def _cells(row: Row, course: Sequence[str]) -> list[str]:
    return [
        row["strategy"],
        f"{row['labels_needed']:,.0f}{_interval(row, 'labels_needed', ',.0f')}",
        f"{row['labels_needed_median']:,.0f}",
        f"{100 * row['reached']:.0f} %",
        f"{row['fewer_than_random']:.1f}{_interval(row, 'fewer_than_random', '.1f')}",
        *(f"{row['found_after'][n]:.1f}" for n in course),
    ]


def _interval(row: Row, name: str, form: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return "" if low is None else f" ({low:{form}}–{high:{form}})"
