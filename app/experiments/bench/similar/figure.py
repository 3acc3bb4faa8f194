"""Base classes of the measurements of ``closecall bench similar``, which reproduce figures of papers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, ClassVar

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.experiments.bench.experiment import Experiment, Row, about
from closecall.app.experiments.bench.report import show_table, spread
from closecall.app.experiments.compare.similar.names import lane_label, lessons
from closecall.app.experiments.compare.similar.plan import usual_kernels
from closecall.app.experiments.compare.similar.results import Lane
from closecall.core.errors import InputError
from closecall.core.experiment.families import Draw, Lesson, families_named
from closecall.core.experiment.kernelized import nearest
from closecall.core.experiment.queries import Items, held_out_queries
from closecall.core.experiment.similarity import Truths
from closecall.core.mercer.kernel import Kernel, kernel_from
from closecall.core.pool.pool import Pool

DEFAULT_BITS = 256

DEFAULT_LABELS = 2_000

FITTED_TO = 50_000
"""Maximum number of rows to fit kernelized LSH to. Its rank and scale are chosen on the same rows."""


@dataclass(frozen=True)
class Figure(Experiment[Pool]):
    """A measurement of similarity search that reproduces a figure or table of a paper, on one thread.

    A draw is one repetition with its own random numbers.

    Parameters
    ----------
    draws : int
        Number of draws; their seeds are 0 … draws − 1.
    queries : int
        Number of held-out items that serve as queries. Equally many other held-out items serve to choose
        parameters.
    bits : tuple of int
        Numbers of bits per code; `DEFAULT_BITS` if empty.
    """

    name: ClassVar[str]
    """Name of the measurement, used as its value of ``--what`` and in the column ``figure``."""

    several_bits: ClassVar[bool] = False
    """Whether several code lengths can be requested."""

    threads = 1

    draws: int
    queries: int
    bits: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check the options that don't need the pool."""
        if len(self.bits) > 1 and not self.several_bits:
            raise InputError(
                f"one number of bits is measured for {self.name}, got {', '.join(map(str, self.bits))}: "
                "several are for --what precision and rectangles, and for --what neighbours with --figures"
            )

    @property
    def n_bits(self) -> int:
        """Number of bits per code, for measurements with a single code length."""
        return self.bits[0] if self.bits else DEFAULT_BITS

    def conclude(self, rows: Sequence[Row]) -> None:
        """See `Experiment.conclude`."""
        self.show_tables(rows)
        click.echo(f"\n{self.legend(rows)}")

    @abstractmethod
    def show_tables(self, rows: Sequence[Row]) -> None:
        """Print tables with means and standard deviations over random draws."""

    @abstractmethod
    def legend(self, rows: Sequence[Row]) -> str:
        """Return a text that explains the columns of the tables."""

    def about(self, pool: Pool) -> Row:
        """Return the columns that begin each row of results: what was measured, and on which pool."""
        return {"figure": self.name, **about(pool), "queries": self.queries}


def single_labels(given: Sequence[int], name: str) -> int:
    """Return the only element of `given`, a number of labels; `DEFAULT_LABELS` if `given` is empty.

    `name` is the name of the measurement, for the error message.

    Raises
    ------
    InputError
        If several numbers are given.
    """
    if len(given) > 1:
        raise InputError(
            f"one number of labels is measured for {name}, got {', '.join(f'{n:,}' for n in given)}: several "
            "are for --figures"
        )
    return given[0] if given else DEFAULT_LABELS


def labels_among(given: Sequence[int], usual: Sequence[int], n_known: int) -> tuple[int, ...]:
    """Return the numbers of labels to measure with.

    If no number is given, return the default numbers that do not exceed `n_known`. If all of them exceed
    `n_known`, return only `n_known`.

    Parameters
    ----------
    given : sequence of int
        Numbers that the user requested; may be empty.
    usual : sequence of int
        Default numbers.
    n_known : int
        Number of items of known class.

    Raises
    ------
    InputError
        If a given number is greater than `n_known`.
    """
    if given and max(given) > n_known:
        raise InputError(
            f"{max(given):,} labels are to be learned from, and the classes of {n_known:,} items are known"
        )
    return tuple(given or [n for n in usual if n <= n_known] or [n_known])


@dataclass(frozen=True)
class KernelizedFigure(Figure):
    """A measurement of kernelized LSH.

    Parameters
    ----------
    draws, queries, bits
        See `Figure`.
    kernels : tuple of str
        Names of kernels; see `core.mercer.kernel.kernel_from`. If empty, `usual_kernels` of the pool.
    share : float
        R of recall@R, as a share of the pool.
    landmarks : int
        Number m of landmarks.
    """

    kernels: tuple[str, ...]
    share: float
    landmarks: int

    def about(self, pool: Pool) -> Row:
        """See `Figure.about`."""
        return {**super().about(pool), "landmarks": self.landmarks, "bits": self.n_bits}

    def draw_of(self, pool: Pool, choosing: Items, kernel: Kernel, seed: int) -> Draw:
        """Draw the rows that codes are fitted to, and the landmarks; see `Draw.of`.

        `choosing` are the items that serve to choose parameters.
        """
        return Draw.of(
            pool,
            choosing.X,
            kernel=kernel,
            n_landmarks=self.landmarks,
            share=self.share,
            seed=seed,
            n_sample=FITTED_TO,
        )


@dataclass(frozen=True)
class RecallFigure(KernelizedFigure):
    """A measurement that compares forms of kernelized LSH by their recall of the nearest item.

    Parameters
    ----------
    draws, queries, bits, kernels, share, landmarks
        See `KernelizedFigure`.
    """

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield the rows that `measure_draw` returns for each kernel and draw.

        The columns ``kernel``, ``seed``, ``R`` (of recall@R) and ``seconds_of_draw`` are added.

        Raises
        ------
        InputError
            If there is no such kernel, if it does not apply to the features, if there are fewer items than
            landmarks, or if too few items are held out.
        """
        kernels = [kernel_from(word) for word in self.kernels or usual_kernels(pool)]
        queries, choosing = held_out_queries(pool, self.queries, self.queries)
        for kernel in kernels:
            neighbours, _ = nearest(kernel, pool.blocks(), queries.X)
            for seed in range(self.draws):
                start = perf_counter()
                draw = self.draw_of(pool, choosing, kernel, seed)
                found = self.measure_draw(pool, draw, queries, neighbours)
                words = {"kernel": kernel.word, "seed": seed, "R": self.share * len(pool)}
                seconds = perf_counter() - start
                yield [{**self.about(pool), **words, **row, "seconds_of_draw": seconds} for row in found]

    @abstractmethod
    def measure_draw(
        self, pool: Pool, draw: Draw, queries: Items, neighbours: NDArray[np.int64]
    ) -> list[Row]:
        """Return the rows of one draw.

        Parameters
        ----------
        pool : Pool
            The pool to search.
        draw : Draw
            The sample that codes are fitted to, landmarks, seed, and queries that serve to choose parameters.
        queries : Items
            Queries to measure with.
        neighbours : array of shape (n_queries,), int64
            For each query, its nearest row by the kernel.
        """


@dataclass(frozen=True)
class FamilyFigure(Figure):
    """A measurement that compares hash families.

    Parameters
    ----------
    families : tuple of str
        Names in `core.hashing.FAMILIES`; all families if empty.
    kernels : tuple of str
        Names of kernels; kernelized families use only the first. If empty, `usual_kernels` of the pool.
    landmarks : int
        Number m of landmarks of kernelized families.
    refused : dict
        Reasons why families or forms do not apply, by name; filled by `measure`.
    """

    known: ClassVar[bool] = False
    """Whether the classes of queries must be known."""

    families: tuple[str, ...]
    kernels: tuple[str, ...]
    landmarks: int
    refused: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """See `Figure.__post_init__`."""
        super().__post_init__()
        families_named(self.families)

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield, for each draw and each family that takes part, a list of rows.

        Raises
        ------
        InputError
            If the pool has too few items or too few held-out items, or if no family applies to it.
        """
        self.check(pool)
        truths, choosing = self.asked(pool)
        about, n_rows = self.about(pool), 0
        for seed, own in enumerate(truths):
            for draw in self.draws_of(pool, choosing, seed):
                for name in self.names:
                    if not self.takes_part(name, draw):
                        continue
                    lesson = draw.lesson(name)
                    learned = {"learned_from": None if lesson is None else lesson._asdict()}
                    rows = [{**about, **learned, **row} for row in self.measure_family(name, draw, own)]
                    n_rows += len(rows)
                    yield rows
            if not n_rows:
                reasons = "; ".join(self.refused.values())
                raise InputError(f"no family applies to the pool {pool.path}: {reasons}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the families."""
        return families_named(self.families)

    def asked(self, pool: Pool) -> tuple[list[Truths], Items]:
        """Return the queries of each random draw, and the items that serve to choose parameters.

        By default, all draws have the same queries.
        """
        queries, choosing = held_out_queries(pool, self.queries, self.queries, known=self.known)
        return [Truths(pool, queries, self.n_neighbours, 1)] * self.draws, choosing

    def draws_of(self, pool: Pool, choosing: Items, seed: int) -> Iterator[Draw]:
        """Yield, for one seed, the samples that families are fitted to; by default, one labeled sample."""
        yield self.draw_of(pool, choosing, seed, **self.sampling)

    def draw_of(self, pool: Pool, choosing: Items, seed: int, **sampling: Any) -> Draw:
        """Return one draw. The arguments `sampling` are passed on to `Draw.of`."""
        words: dict[str, Any] = {"n_landmarks": self.landmarks, "seed": seed}
        return Draw.of(pool, choosing.X, kernel=self.kernel_on(pool), **words, **sampling)

    def kernel_on(self, pool: Pool) -> str:
        """Return the name of the kernel of kernelized families."""
        return (self.kernels or usual_kernels(pool))[0]

    def takes_part(self, name: str, draw: Draw) -> bool:  # noqa: ARG002
        """Return whether a family is measured in this draw."""
        return True

    @property
    def n_neighbours(self) -> int:
        """Number of true neighbours per query."""
        return 0

    @property
    @abstractmethod
    def sampling(self) -> dict[str, Any]:
        """Additional arguments of `draw_of`."""

    @abstractmethod
    def check(self, pool: Pool) -> None:
        """Raise InputError if the pool is too small."""

    @abstractmethod
    def measure_family(self, name: str, draw: Draw, truths: Truths) -> list[Row]:
        """Return the rows of one family in all its forms; record forms that don't apply in `refused`."""

    def lessons(self, rows: Sequence[Row]) -> str:
        """Return a sentence about the labels that each supervised family learned from.

        The sentence begins with a space, to be appended to a legend. If no family is supervised, return "".
        """
        learned = {row["family"]: row["learned_from"] for row in rows}
        told = lessons({name: Lesson(**own) for name, own in learned.items() if own is not None})
        return f" {told}" if told else ""

    def show_lanes(
        self, rows: Sequence[Row], title: str, columns: Mapping[str, Callable[[Row], float | None]]
    ) -> None:
        """Print a line for each family and form.

        Parameters
        ----------
        rows : sequence of dict
            All rows.
        title : str
            Heading of the first column.
        columns : dict of callable
            The headings of the other columns, each with a function that returns a row's value or None. A cell
            shows the mean and standard deviation of the values over all rows of the family and form.
        """
        lanes: dict[Lane, list[Row]] = {}
        for row in rows:
            lanes.setdefault(Lane(row["family"], row["form"]), []).append(row)
        lines = []
        for lane, own in lanes.items():
            values = ([column(row) for row in own] for column in columns.values())
            cells = [spread([value for value in some if value is not None]) for some in values]
            lines.append([lane_label(lane), *cells])
        show_table([title, *columns], lines)
