"""The cost of a search by hashing before its index is built: memory, work, and the guarantee of its tables.

The memory is computed from the numbers of rows, functions, tables and orders. The building time is estimated
in `app.indexes.build_time`.
"""

from __future__ import annotations

from dataclasses import dataclass

from closecall.app.display.phrases import about, duration
from closecall.app.indexes.build_time import MEASURABLE, BuildTime
from closecall.app.indexes.recipe import Recipe
from closecall.core.errors import InputError
from closecall.core.files.sizes import bytes_in_words
from closecall.core.hashing import (
    FAMILIES,
    BoostedPSH,
    DeepCodes,
    LearnedKernelHash,
    MinHash,
    RandomHyperplaneLSH,
    ShiftInvariantHash,
    SimilarityHasher,
    SpectralHash,
)
from closecall.core.hashing.base import bytes_a_row
from closecall.core.hashing.pool import FIT_ROWS, fit_rows
from closecall.core.search import BucketTables, HammingBall, HashTable, PermutedOrders
from closecall.core.search.orders import PREFIX_BITS, order_rule
from closecall.core.search.tables import MOST_TABLES, Guarantee

LONG_SECONDS = 5.0
"""A list of families shows an estimated building time only if it is at least this many seconds."""

_BYTES_A_TABLE = 12
_BYTES_AN_ORDER = 8
_BYTES_A_NUMBER = 4


@dataclass(frozen=True)
class Cost:
    """The cost of a search by hashing.

    Parameters
    ----------
    codes, structure : int
        Memory of the codes and of the structure, in bytes.
    name : str
        Name of the structure.
    work : str
        What must be computed for the codes, in words.
    n_tables : int
        Number of bucket tables or permuted orders; 1 for other structures.
    """

    codes: int
    structure: int
    name: str
    work: str
    n_tables: int = 1

    def sentence(
        self, *, is_built: bool = False, seconds: float | None = None, time: BuildTime | None = None
    ) -> str:
        """Return the cost in words, for the page.

        Parameters
        ----------
        is_built : bool
            Whether the codes are built or being built. If so, the sentence leaves out the work for them.
        seconds : float or None
            Measured time to build the codes, if known.
        time : BuildTime or None
            Estimated time, if known.
        """
        beside = f", {self.name} {bytes_in_words(self.structure)}" if self.structure else ""
        if not is_built:
            takes = "" if time is None else f", {about(time.codes + time.structure)}"
            work = f" To compute: {self.work}{takes}."
        else:
            work = f" The codes took {duration(seconds)}." if seconds is not None else ""
            if time is not None and time.structure >= MEASURABLE:
                work += f" Building the {self.name} takes {about(time.structure)}."
        return f"Memory: codes {bytes_in_words(self.codes)}{beside}.{work}"


def cost_of(recipe: Recipe, n_rows: int, family: SimilarityHasher | None = None) -> Cost:
    """Return the cost of a recipe on a pool of `n_rows`.

    Parameters
    ----------
    recipe : Recipe
        The settings of the search.
    n_rows : int
        Number of rows in the pool.
    family : SimilarityHasher or None
        A family that gives near rows equal hash values about as often as the recipe's fitted family does.
        It is needed only for shift-invariant codes with a radius, whose kernel width γ depends on the rows.

    Raises
    ------
    InputError
        If `guarantee_of` raises it.
    """
    codes = bytes_a_row(recipe.value("functions"), recipe.value("bits")) * n_rows
    beside, n_tables = 0, 1
    if recipe.structure in (HashTable.name, HammingBall.name):
        beside = codes + _BYTES_A_NUMBER * n_rows  # codes again, in the order of the table
    elif recipe.structure == BucketTables.name:
        n_tables = _n_tables(recipe, n_rows, family)
        beside = n_tables * _BYTES_A_TABLE * n_rows
    elif recipe.structure == PermutedOrders.name:
        n_bytes = recipe.value("memory") * n_rows
        n_tables = order_rule(n_rows, n_bytes, recipe.epsilon)
        beside = n_tables * _BYTES_AN_ORDER * n_rows
    return Cost(codes, beside, recipe.structure, work_of(recipe, n_rows), n_tables)


def work_of(recipe: Recipe, n_rows: int) -> str:
    """Return a phrase that says what must be computed for a recipe's codes."""
    n, sample = recipe.value("functions"), min(FIT_ROWS, len(fit_rows(n_rows)))
    taught = " and your answers" if recipe.learns else ""
    if recipe.applies("landmarks"):
        landmarks = recipe.landmarks or min(recipe.value("landmarks"), sample)
        most = LearnedKernelHash().n_constrained if recipe.family == LearnedKernelHash.name else 0
        more = f" to {landmarks + most}" if most else ""
        learned = (
            f"; {n} functions are learned from your answers" if FAMILIES[recipe.family].needs_labels else ""
        )
        return f"{landmarks}{more} kernel values per item{learned}"
    drawn = f"chosen on {BoostedPSH().n_pairs:,} pairs of {sample:,} items"
    return {
        SpectralHash.name: f"{n} cosines along principal directions per item",
        ShiftInvariantHash.name: f"{n} random cosines per item",
        MinHash.name: f"{n} minima per item",
        BoostedPSH.name: f"{n} thresholds, {drawn}{taught}",
        DeepCodes.name: f"a network for {n} bits, trained on {sample:,} items{taught}",
    }.get(recipe.family, f"{n} inner products per item")


def brief_of(recipe: Recipe, n_rows: int, time: BuildTime | None = None) -> str:
    """Return a short form of the phrase of `work_of`. It includes the building time `time` if this is long.

    The picker of hash families shows the result.
    """
    work = _brief(recipe, n_rows)
    if time is None or (seconds := time.codes + time.structure) < LONG_SECONDS:
        return work
    shorter = work.removeprefix("learned ").replace(" your ", " ").removesuffix(" per item")
    return f"{shorter}, {about(seconds)}"


def _brief(recipe: Recipe, n_rows: int) -> str:
    if FAMILIES[recipe.family].needs_labels:
        return "learned from your answers"
    if recipe.family == DeepCodes.name:
        return f"trained on {len(fit_rows(n_rows)):,} items"
    work = work_of(recipe, n_rows).partition(",")[0]
    return work.replace(" along principal directions", "")


def guarantee_of(
    recipe: Recipe, n_rows: int, family: SimilarityHasher | None = None, *, under_metric: bool = False
) -> str | None:
    """Return a sentence about the guarantee of bucket tables for a radius, or None if there is no radius.

    Parameters
    ----------
    recipe : Recipe
        The settings of the search.
    n_rows : int
        Number of rows in the pool.
    family : SimilarityHasher or None
        See `cost_of`.
    under_metric : bool
        Whether the recipe is for codes under a learned metric.

    Raises
    ------
    InputError
        If a row at (1 + ε) times the radius shares a hash value with the query at least as often as a row at
        the radius.
    """
    if (rule := _rule(recipe, n_rows, family)) is None:
        return None
    n_tables = _n_tables(recipe, n_rows, family)
    width = min(rule.width, recipe.value("functions"))
    independent = max(1, min(n_tables, recipe.value("functions") // width))
    built = rule.of_tables(width, independent)
    probability = f"a probability of at least {100 * built.success:.0f} %"
    if recipe.family == ShiftInvariantHash.name and not hasattr(family, "gamma_"):
        probability = f"a probability of at least about {100 * built.success:.0f} %"
    sentence = (
        f"{n_tables} tables of {width} functions: an item {_within(recipe, under_metric)} shares a "
        f"bucket with {probability}."
    )
    if independent < rule.n_tables:
        sentence += (
            f" The rule needs {rule.n_tables:,} tables: {rule.n_functions:,} functions and "
            f"{rule.n_tables * _BYTES_A_TABLE:,} bytes per item."
        )
    return sentence


def _within(recipe: Recipe, under_metric: bool) -> str:
    """Return a phrase for the items within the radius."""
    assert recipe.radius is not None
    if recipe.radius_of == "overlap":
        return f"with an overlap of at least {100 - recipe.radius:g} %"
    has_centre = recipe.family == RandomHyperplaneLSH.name and not recipe.own_form.params
    seen = ", as seen from the mean," if has_centre else ""
    return f"within {recipe.radius:g}°{' under the metric' if under_metric else ''}{seen}"


def _rule(recipe: Recipe, n_rows: int, family: SimilarityHasher | None) -> Guarantee | None:
    if recipe.reaches is None:
        return None
    if family is None or family.radius_of is None:
        family = FAMILIES[recipe.family](**({"bits": recipe.value("bits")} if recipe.applies("bits") else {}))
    near, far = map(family.agreement_within, recipe.reaches)
    if not far < near:
        raise InputError(
            f"at a radius of {recipe.radius:g}°, {recipe.family} codes can't tell nearer items from farther "
            f"ones: enter a smaller radius"
        )
    return Guarantee.by_rule(n_rows, near, far).of_width(PREFIX_BITS // recipe.value("bits"))


def _n_tables(recipe: Recipe, n_rows: int, family: SimilarityHasher | None) -> int:
    rule = _rule(recipe, n_rows, family)
    most = MOST_TABLES if rule is None else rule.n_tables
    return min(most, max(1, int(recipe.value("memory")) // _BYTES_A_TABLE))
