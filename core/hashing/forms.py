"""Forms of the similarity families: named sets of parameters that differ from a family's defaults.

Comparisons of families (`core.experiment.families`) and the page Find similar offer the forms in `FORMS`:

- Random hyperplanes: angles are measured from the mean, or from the origin as in an exact scan.
- The three families of kernelized LSH: angles are measured from the mean of the landmarks, or from the origin
  as published. The rank is full or low. A form of low rank may also transform the kernel [1]_. The caller
  chooses the rank and the scale of the transformation.
- Spectral hashing: the rows are assumed to fill a box. The box contains all rows, as published, or leaves out
  the fraction `TRIM` of the rows at each end of each edge.
- Min-Hash: with sets, or with weighted sets.
- Boosting and deep codes: neighbours are defined by distance, or by class.

References
----------
.. [1] K. Jiang, Q. Que, B. Kulis: Revisiting Kernelized Locality-Sensitive Hashing for Improved Large-Scale
   Image Retrieval, CVPR 2015.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from closecall.core.errors import InputError
from closecall.core.hashing.boosted import BoostedPSH
from closecall.core.hashing.deep import DeepCodes
from closecall.core.hashing.klsh import KernelizedLSH, KernelPCALSH, NystromLSH
from closecall.core.hashing.lsh import RandomHyperplaneLSH
from closecall.core.hashing.minhash import MinHash
from closecall.core.hashing.spectral import SpectralHash

TRIM = 0.01
"""Fraction of the rows that trimmed spectral hashing leaves out at each end of each edge of the box."""


@dataclass(frozen=True)
class Form:
    """A named variant of a similarity family.

    Parameters
    ----------
    params : mapping
        Parameters of the family that differ from its defaults.
    has_rank, has_scale : bool
        Whether the caller chooses the number of principal components, and whether the caller chooses the
        scale of the kernel's transformation.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    has_rank: bool = False
    has_scale: bool = False

    @property
    def by_class(self) -> bool:
        """Whether neighbours are defined by class, so that the family learns from labels."""
        return self.params.get("neighbours") == "class"


def _kernelized(published: str) -> Mapping[str, Form]:
    """Return the forms of a family of kernelized LSH by name; `published` names the original form."""
    origin = {"centred": False}
    return {
        "from the mean": Form(),
        "low rank, from the mean": Form(has_rank=True),
        "low rank, transformed, from the mean": Form(has_rank=True, has_scale=True),
        published: Form(origin),
        "low rank": Form(origin, has_rank=True),
        "low rank, transformed": Form(origin, has_rank=True, has_scale=True),
    }


_BY_NEIGHBOURS = {"by distance": Form(), "by class": Form({"neighbours": "class"})}

FORMS: Mapping[str, Mapping[str, Form]] = MappingProxyType(
    {
        RandomHyperplaneLSH.name: {"from the mean": Form(), "from the origin": Form({"centred": False})},
        KernelizedLSH.name: _kernelized("original"),
        KernelPCALSH.name: _kernelized("full rank"),
        NystromLSH.name: _kernelized("full rank"),
        SpectralHash.name: {"original": Form(), "trimmed": Form({"trim": TRIM})},
        MinHash.name: {"sets": Form(), "weighted": Form({"weighted": True})},
        BoostedPSH.name: _BY_NEIGHBOURS,
        DeepCodes.name: _BY_NEIGHBOURS,
    }
)
"""Forms of each family by name. The first form has the default parameters of the family. Families that are
not listed have only one form.
"""


def forms_named(family: str) -> Mapping[str, Form]:
    """Return the forms of a family by name, the default form first. If there is only one, its name is ""."""
    return FORMS.get(family, {"": Form()})


def form_named(family: str, name: str | None) -> Form:
    """Return the form of a family with the given name, or the default form if `name` is None.

    Raises
    ------
    InputError
        If there is no such form.
    """
    forms = forms_named(family)
    if name is None:
        return next(iter(forms.values()))
    if name not in forms:
        allowed = ", ".join(word for word in forms if word) or "left out"
        raise InputError(f"form of {family} must be one of {allowed}, got {name!r:.80}")
    return forms[name]
