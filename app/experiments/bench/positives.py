"""Number of labels needed to find positives of rare classes, by query strategy or the page Find similar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import click
import numpy as np

from closecall.app.experiments.bench.contenders import StrategyContender, contenders
from closecall.app.experiments.bench.experiment import Experiment, Row, about
from closecall.app.experiments.bench.report import show_table
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
"""Default strategies.

These are the three strategies that a mixture draws from, the default mixture, and mixtures of two of the
three.
"""

SIMILAR = "similar"
"""Word that names the page Find similar (`core.experiment.similar`) among strategies.

Like the name of a strategy, this word may be followed by parameters.
"""

COURSE = (50, 100, 200, 500, 1000, 2000, 5000)
"""Numbers of answers after which the number of positives found is reported.

Numbers above the maximum length of a search are left out.
"""


@dataclass(frozen=True)
class Positives(Experiment[Pool]):
    """An experiment that searches for positives of rare classes with several strategies, on one thread.

    All strategies search for the same classes.

    Parameters
    ----------
    words : tuple of str
        Strategies (see `core.selection.words`) or `SIMILAR`; `DEFAULT_WORDS` if empty.
    searches : int
        Number of searches with each strategy. All classes are searched for equally often, up to a difference
        of one.
    wanted : int
        Number of positives to find.
    most : int
        Number of answers after which a search ends.
    batch : int
        Number of items selected for one hyperplane. Find similar has its own page size.
    share : float
        Maximum prevalence of a class, as a share of the pool.
    seed : int
        Seed of the classes and of the items that searches begin with.
    """

    threads = 1

    words: tuple[str, ...]
    searches: int
    wanted: int
    most: int
    batch: int
    share: float
    seed: int

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield one row for each strategy; see `row_of`.

        Raises
        ------
        InputError
            If `ways` raises it, or if no class qualifies.
        """
        positives = classes_to_search(pool, self.searches, self.wanted, self.share, seed=self.seed)
        for word, way in ways(pool, self.words or DEFAULT_WORDS, self.batch, self.seed).items():
            start = perf_counter()
            found = self._search(pool, word, way, positives)
            seconds = perf_counter() - start
            yield [{"strategy": word, **about(pool), "seconds": seconds, **row_of(found, self)}]

    def _search(self, pool: Pool, word: str, way: Way, positives: Sequence[int]) -> list[Search]:
        with click.progressbar(length=len(positives), label=word, show_pos=True) as bar:
            return search_positives(
                pool,
                way,
                positives,
                wanted=self.wanted,
                most=self.most,
                seed=self.seed,
                progress=lambda ended, _: bar.update(ended - bar.pos),
            )

    def conclude(self, rows: Sequence[Row]) -> None:
        """Print all rows as a table; the strategy that needs the fewest labels comes first."""
        first = rows[0]
        click.echo(
            f"\n{first['data']}, {first['items']:,} × {first['dim']}: {first['searches']} searches for "
            f"{self.wanted} positives, {first['classes']} classes of {100 * first['prevalence']:.2g} %, "
            f"{self.batch} answer{'s' if self.batch > 1 else ''} to a hyperplane."
        )
        course = list(first["found_after"])
        head = ["strategy", "labels", "median", "reached", "fewer", *(f"after {n}" for n in course)]
        by_labels = sorted(rows, key=lambda row: row["labels_needed"])
        show_table(head, [_cells(row, course) for row in by_labels])
        click.echo(
            f"\nlabels: answers until {self.wanted} positives are found; geometric mean and its 95 % "
            f"interval over classes. Searches that found fewer after {self.most:,} answers are assumed to go "
            "on with random items. fewer: how many times fewer than with random items only, whose mean is "
            "known exactly. found after: mean number of positives."
        )


def ways(pool: Pool, words: Sequence[str], batch: int, seed: int) -> dict[str, Way]:
    """Return, for each of `words`, a way to choose items: by a query strategy, or by Find similar.

    Raises
    ------
    InputError
        If a word names neither a strategy nor `SIMILAR`, or has an unknown parameter.
    """
    strategies = [word for word in words if parts_of(word)[0] != SIMILAR]
    taking_part = {
        one.word: one.strategy
        for one in contenders(strategies, pool, None, seed)
        if isinstance(one, StrategyContender)
    }
    return {
        word: ByStrategy(taking_part[word], batch) if word in taking_part else _similar(pool, word)
        for word in dict.fromkeys(words)
    }


def _similar(pool: Pool, word: str) -> FindSimilar:
    name, texts = parts_of(word)
    params = values_of(name, texts, FindSimilar)
    try:
        return FindSimilar(pool, **params)
    except TypeError as error:
        raise InputError(f"{name} has the parameters metric, page, gamma; got {', '.join(params)}") from error


def row_of(found: Sequence[Search], plan: Positives) -> Row:
    """Return the results of one strategy.

    ``labels_needed`` is the geometric mean over searches of `Search.labels_needed`, and
    ``labels_needed_median`` the median. ``reached`` is the share of searches that found all wanted positives.
    ``fewer_than_random`` is the geometric mean of a ratio: the number of labels that random selection is
    expected to need, divided by the number that the strategy needed. ``found_after`` is the mean number of
    positives found after each number of answers in `COURSE`.

    Both geometric means have 95 % intervals, in the columns that end in ``_low`` and ``_high``.
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
