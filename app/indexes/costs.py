"""The cost of a recipe before anything is built: memory, what must be computed, and what tables guarantee.

Memory follows from the numbers of rows, functions, tables and orders. The time is given only for codes that
were built already, because it depends on the machine and on the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from closecall.app.display.phrases import bytes_in_words, duration
from closecall.app.indexes.recipe import Recipe
from closecall.core.hashing import (
    FAMILIES,
    BoostedPSH,
    DeepCodes,
    LearnedKernelHash,
    MinHash,
    ShiftInvariantHash,
    SpectralHash,
)
from closecall.core.hashing.base import bytes_a_row
from closecall.core.hashing.pool import FIT_ROWS, fit_rows
from closecall.core.search import BucketTables, HammingBall, HashTable, PermutedOrders
from closecall.core.search.orders import PREFIX_BITS, order_rule
from closecall.core.search.tables import MOST_TABLES, Guarantee

_BYTES_A_TABLE = 12
_BYTES_AN_ORDER = 8
_BYTES_A_NUMBER = 4


@dataclass(frozen=True)
class Cost:
    """The cost of a search by hashing.

    Parameters
    ----------
    codes, structure : int
        Memory of the codes, and of the structure beside them, in bytes.
    name : str
        Name of the structure.
    work : str
        What must be computed for the codes, in words.
    """

    codes: int
    structure: int
    name: str
    work: str

    def sentence(self, *, is_built: bool = False, seconds: float | None = None) -> str:
        """Return the cost in words, for the page.

        Parameters
        ----------
        is_built : bool
            Whether the codes are built or being built; then the work is left out.
        seconds : float or None
            The time that built codes took, if known.
        """
        beside = f", {self.name} {bytes_in_words(self.structure)}" if self.structure else ""
        work = f" To compute: {self.work}."
        if is_built:
            work = f" The codes took {duration(seconds)}." if seconds is not None else ""
        return f"Memory: codes {bytes_in_words(self.codes)}{beside}.{work}"


def cost_of(recipe: Recipe, n_rows: int) -> Cost:
    """Return the cost of a recipe on a pool of `n_rows`."""
    codes = bytes_a_row(recipe.value("functions"), recipe.value("bits")) * n_rows
    beside = 0
    if recipe.structure in (HashTable.name, HammingBall.name):
        beside = codes + _BYTES_A_NUMBER * n_rows  # codes again, in the order of the table
    elif recipe.structure == BucketTables.name:
        beside = _n_tables(recipe, n_rows) * _BYTES_A_TABLE * n_rows
    elif recipe.structure == PermutedOrders.name:
        n_bytes = recipe.value("memory") * n_rows
        beside = order_rule(n_rows, n_bytes, recipe.epsilon) * _BYTES_AN_ORDER * n_rows
    return Cost(codes, beside, recipe.structure, work_of(recipe, n_rows))


def work_of(recipe: Recipe, n_rows: int) -> str:
    """Return in words what must be computed for the codes."""
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


def brief_of(recipe: Recipe, n_rows: int) -> str:
    """Return a short form of `work_of`, for a list of families."""
    if FAMILIES[recipe.family].needs_labels:
        return "learned from your answers"
    if recipe.family == DeepCodes.name:
        return f"trained on {len(fit_rows(n_rows)):,} items"
    work = work_of(recipe, n_rows).partition(",")[0]
    return work.replace(" along principal directions", "")


def guarantee_of(recipe: Recipe, n_rows: int) -> str | None:
    """Return in a sentence what bucket tables for a radius guarantee; None without a radius."""
    if (rule := _rule(recipe, n_rows)) is None:
        return None
    n_tables = _n_tables(recipe, n_rows)
    independent = max(1, min(n_tables, recipe.value("functions") // rule.width))
    built = rule.of_tables(rule.width, independent)
    seen = "" if recipe.own_form.params else ", as seen from the mean,"
    sentence = (
        f"{n_tables} tables of {rule.width} functions: an item within {recipe.radius:g}°{seen} shares a "
        f"bucket with a probability of at least {100 * built.success:.0f} %."
    )
    if independent < rule.n_tables:
        sentence += (
            f" The rule needs {rule.n_tables:,} tables: {rule.n_functions:,} functions and "
            f"{rule.n_tables * _BYTES_A_TABLE:,} bytes per item."
        )
    return sentence


def _rule(recipe: Recipe, n_rows: int) -> Guarantee | None:
    radius = recipe.radius_in_radians
    if radius is None:
        return None
    return Guarantee.for_angles(n_rows, radius, recipe.value("epsilon")).of_width(PREFIX_BITS)


def _n_tables(recipe: Recipe, n_rows: int) -> int:
    rule = _rule(recipe, n_rows)
    most = MOST_TABLES if rule is None else rule.n_tables
    return min(most, max(1, int(recipe.value("memory")) // _BYTES_A_TABLE))
