"""The survey's comparison of binary codes: what they find, by how many bits, and among how many items.

Its figures 11 and 15 [1]_: of the 50 true neighbours of each query, the share that is among the first items
by Hamming distance, against how many these are, and against the length of the code. Items whose codes differ
as much are as good as each other (`core.experiment.retrieval`).

**The true neighbours** are those by the Euclidean distance between features, the same for all families, also
for those that look for others. The survey takes them so for figure 15; for figure 11 it takes them by the
objects that people have outlined in the photographs, for which items of one class each have no substitute:
how many items are of the class is `core.experiment.similarity`'s precision.

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from closecall.core.experiment.families import Draw
from closecall.core.experiment.similarity import Truths, measure_family

LEAST_BITS = 8

_STEPS = (1, 2, 5)


def found_by_codes(
    name: str, draw: Draw, truths: Truths, *, bits: Sequence[int], retrieved: Sequence[int]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """What the codes of one family find, for one draw of whatever is random.

    Parameters
    ----------
    name : str
        One of `core.hashing.FAMILIES`; it takes part in all its forms.
    draw : Draw
        What it is made with and fitted to.
    truths : Truths
        With the pool, the queries, and how many neighbours are to be found.
    bits, retrieved : sequence of int, ascending
        Lengths of code, and among how many items is counted.

    Returns
    -------
    rows : list of dict
        For each form and length of code: ``family``, ``form``, ``bits``, ``retrieved`` (a list), ``found``
        (the share of the true neighbours among so many, 0 … 1, a list), ``yardstick`` (by what the family
        itself looks for neighbours) and ``seed``.
    refused : dict
        Why the family, or what form of it, does not apply, by its name.
    """
    measured = measure_family(
        name, truths.pool, draw, truths, bits=bits, retrieved=retrieved, n_searched=0, structures=()
    )
    by_angle = (value for value in measured.values if value.measure == "neighbours by angle")
    rows = [
        {
            "family": name,
            "form": form,
            "bits": n,
            "retrieved": list(retrieved),
            "found": [value.value for value in values],
            "yardstick": measured.yardsticks[form],
            "seed": draw.seed,
        }
        for (form, n), values in groupby(by_angle, key=lambda value: (value.form, value.bits))
    ]
    return rows, {f"{name}, {what}" if what else name: why for what, why in measured.refused.items()}


def lengths(most: int) -> list[int]:
    """Eight bits, twice as many again and again while these are fewer than `most`, and `most`."""
    doubled = [LEAST_BITS << i for i in range(most.bit_length()) if LEAST_BITS << i < most]
    return [*doubled, most]


def numbers_retrieved(n_neighbours: int, n_rows: int) -> list[int]:
    """1, 2, 5, 10, … as far as they are between the number of true neighbours and that of rows, and both."""
    round_ones = [step * 10**i for i in range(len(str(n_rows))) for step in _STEPS]
    return sorted({n_neighbours, n_rows, *(n for n in round_ones if n_neighbours < n < n_rows)})
