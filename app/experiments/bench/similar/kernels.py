"""Recall of the nearest item with several forms of kernelized LSH (KLSH): table 1 of [1]_.

References
----------
.. [1] K. Jiang, Q. Que, B. Kulis: Revisiting Kernelized Locality-Sensitive Hashing for Improved Large-Scale
   Image Retrieval, CVPR 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.display.phrases import counted
from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.report import each, heading, show_table, spread
from closecall.app.experiments.bench.similar.figure import RecallFigure
from closecall.core.experiment.families import Draw
from closecall.core.experiment.kernelized import Form, retrieve_together
from closecall.core.experiment.queries import Items
from closecall.core.hashing import KernelPCALSH, NystromLSH
from closecall.core.pool.pool import Pool

FORMS = {
    "plain": "KLSH",
    "low_rank": "low rank",
    "transformed": "low rank, transformed",
    "both": "and the rank again",
    "kpca": "KPCA+LSH, low rank",
    "nystrom_low_rank": "Nyström, low rank",
    "nystrom": "Nyström",
}
"""The forms of KLSH, with their names in the table.

The first four forms are defined in `core.experiment.kernelized.Choice`. ``kpca`` is the form ``low_rank``
with Gaussian vectors. ``nystrom_low_rank`` is like ``kpca``, but with principal components about the origin
instead of the mean. ``nystrom`` is like ``nystrom_low_rank``, but with all components instead of the first
few.
"""


@dataclass(frozen=True)
class Kernels(RecallFigure):
    """Measurement of the recall of the nearest item with each form of KLSH.

    Each form is measured with angles from the origin and with angles from the mean.

    Parameters
    ----------
    draws, queries, bits, kernels, share, landmarks
        See `KernelizedFigure`. Ranks in `core.experiment.kernelized.RANKS` below `landmarks` are tried.
    """

    name: ClassVar[str] = "kernels"

    def about(self, pool: Pool) -> Row:
        """See `Figure.about`; the column ``figure`` has the value "kernelized"."""
        return {**super().about(pool), "figure": "kernelized"}

    def measure_draw(
        self, pool: Pool, draw: Draw, queries: Items, neighbours: NDArray[np.int64]
    ) -> list[Row]:
        """Return the rows of one draw.

        A row has ``centred`` (whether angles are from the mean), ``form`` (a key of `FORMS`), ``rank``,
        ``scale``, ``recall`` and ``recall_when_chosen``. The last is the recall on the queries that serve to
        choose parameters; None if the form was not tried on these queries.
        """
        params: dict[str, Any] = {"n_functions": self.n_bits}
        forms: dict[tuple[bool, str], Form] = {}
        when_chosen: dict[Form, float] = {}
        for centred in (False, True):
            choice = draw.chosen(centred=centred, **params)
            when_chosen |= choice.recalls
            every = {
                **{name: form for name, form in vars(choice).items() if name in FORMS},
                "kpca": replace(choice.low_rank, family=KernelPCALSH),
                "nystrom_low_rank": replace(choice.low_rank, family=NystromLSH),
                "nystrom": replace(choice.plain, family=NystromLSH),
            }
            forms |= {(centred, name): form for name, form in every.items()}
        different = list(dict.fromkeys(forms.values()))
        hashers = [form.hasher(**draw.landmarks, **params).fit(draw.sample) for form in different]
        found = retrieve_together(hashers, pool.blocks(), queries.X, neighbours)
        R = [self.share * len(pool)]
        recalls = {
            form: float(retrieval.nearest_found(R).mean())
            for form, retrieval in zip(different, found, strict=True)
        }
        return [
            {
                "centred": centred,
                "form": name,
                "rank": form.rank,
                "scale": form.scale,
                "recall": recalls[form],
                "recall_when_chosen": when_chosen.get(form),
            }
            for (centred, name), form in forms.items()
        ]

    def show_tables(self, rows: Sequence[Row]) -> None:
        """See `Figure.show_tables`; prints a line for each kernel and form."""
        grouped: dict[tuple[str, bool, str], list[Row]] = {}
        for row in rows:
            grouped.setdefault((row["kernel"], row["centred"], row["form"]), []).append(row)
        lines = []
        for (kernel, centred, form), own in grouped.items():
            recall, plain = (
                np.array([row["recall"] for row in some]) for some in (own, grouped[kernel, centred, "plain"])
            )
            chosen = (each(row[name] for row in own) for name in ("rank", "scale"))
            seen_from = "mean" if centred else "origin"
            lines.append([kernel, seen_from, FORMS[form], spread(recall), spread(recall - plain), *chosen])
        click.echo(heading(rows[0], "recall of the nearest item.\n"))
        show_table(["kernel", "seen from", "form", "recall", "gain", "ranks", "scales"], lines, n_left=3)

    def legend(self, rows: Sequence[Row]) -> str:
        """See `Figure.legend`."""
        return (
            f"recall: share of {self.queries:,} held-out queries whose nearest item by the kernel is among "
            f"the {rows[0]['R']:,.0f} items ({100 * self.share:g} % of the pool) whose {self.n_bits} bits "
            f"differ least; mean and standard deviation over {counted(self.draws, 'draw')} of "
            f"{self.landmarks:,} "
            "landmarks and of the vectors. gain: over the original, in points. Rank and scale are chosen on "
            "as many other queries."
        )
