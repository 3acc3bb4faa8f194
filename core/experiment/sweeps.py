"""Sweeps over the parameters of kernelized LSH: figures 1 to 3 of the paper [1]_, and one more sweep.

A sweep varies one parameter:

======  ==========================================  ======================================
figure  varied                                      compared with
======  ==========================================  ======================================
1       rank r of KLSH                              all components
2a      rank r of Nyström                           all components
2b      form: original, low rank, transformed, …    nothing
2c      scale s; the results are eigenvalues        nothing
3       scale s of exp(s(κ − 1)), at the best rank  κ itself at this rank
t       number t of landmarks, at the best rank     Gaussian vectors: the limit of large t
======  ==========================================  ======================================

κ is the kernel, and t is the number of sampled landmarks in the additional sweep. The best rank is the rank
with the best recall on validation queries, which are used for nothing else
(`core.experiment.kernelized.Trials`).

References
----------
.. [1] K. Jiang, Q. Que, B. Kulis: Revisiting Kernelized Locality-Sensitive Hashing for Improved Large-Scale
   Image Retrieval, CVPR 2015, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from closecall.core.experiment.kernelized import Form, Trials
from closecall.core.hashing.klsh import KernelPCALSH, NystromLSH

SAMPLED = (1, 3, 10, 30, 50, 100, 300)
"""Default numbers of sampled landmarks; the paper uses 50."""


@dataclass(frozen=True)
class Sweep:
    """The forms of kernelized LSH (`core.experiment.kernelized.Form`) that one figure compares.

    Parameters
    ----------
    figure : str
        Number of the figure in Jiang et al. 2015; "t" for the sweep over the number of sampled landmarks.
    forms : tuple of Form
        The forms, in the order of the parameter that varies.
    base : Form or None
        The form that all other forms are compared with.
    chosen : Form or None
        The form that is best on the validation queries.
    """

    figure: str
    forms: tuple[Form, ...]
    base: Form | None = None
    chosen: Form | None = None

    @property
    def every(self) -> tuple[Form, ...]:
        """All forms to measure."""
        return self.forms if self.base is None else (self.base, *self.forms)


def sweeps(
    trials: Trials,
    *,
    ranks: Sequence[int],
    scales: Sequence[float],
    sampled: Sequence[int],
    centred: bool,
) -> list[Sweep]:
    """Choose the fixed parameters, and return the sweeps 1, 2a, 2b, 3 and "t" of this module's table.

    Parameters
    ----------
    trials : Trials
        Trials by which parameters are chosen. Afterwards, `trials.fitted` has the fitted family of each form.
    ranks, scales, sampled : sequence
        Ranks, scales and numbers of sampled landmarks, at least one of each.
    centred : bool
        See `core.experiment.kernelized.Form`.

    Raises
    ------
    InputError
        If a value is out of range, or if a family does not apply to the rows.
    """
    plain = Form(trials.kernel, centred=centred)
    nystrom = replace(plain, family=NystromLSH)

    def sweep(figure: str, base: Form, forms: list[Form]) -> tuple[Sweep, Form]:
        trials.best([base, *forms])
        best = trials.best(forms)
        return Sweep(figure, tuple(forms), base, best), best

    by_rank, low_rank = sweep("1", plain, [replace(plain, rank=rank) for rank in ranks])
    of_nystrom, low_nystrom = sweep("2a", nystrom, [replace(nystrom, rank=rank) for rank in ranks])
    by_scale, transformed = sweep("3", low_rank, [replace(low_rank, scale=scale) for scale in scales])
    gaussian = replace(low_rank, family=KernelPCALSH)
    by_sampled, _ = sweep("t", gaussian, [replace(low_rank, n_sampled=t) for t in sampled])
    forms = Sweep("2b", (plain, low_rank, transformed, nystrom, low_nystrom))
    return [by_rank, of_nystrom, forms, by_scale, by_sampled]
