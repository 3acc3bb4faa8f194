"""The settings of a search by hashing: the codes, the structure over them, the number of codes compared.

A `Recipe` is an immutable value. Each session has a recipe. Indexes in memory have recipes as their keys, and
the folders of saved indexes are named after recipes. A setting of None means the setting's default, which
depends on the family and the structure. A setting that equals its default is replaced by None, so that equal
searches have equal recipes.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import blake2b
from math import radians
from typing import Any, Self

from closecall.app.indexes.settings import (
    BYTES_A_ROW,
    CANDIDATES,
    EPSILON,
    EXACT,
    FARTHEST,
    LANDMARKS,
    N_FUNCTIONS,
    N_TAUGHT,
    OF_CODES,
    OF_STRUCTURE,
    OFFERED,
    RANGES,
    RANK,
    SCALE,
    SHARE,
    SHARE_OF_TABLE,
    STRUCTURES,
    USUAL,
    check_bits,
    check_kernel,
    check_number,
)
from closecall.core.errors import InputError
from closecall.core.hashing import FAMILIES, MinHash
from closecall.core.hashing.forms import Form, form_named, forms_named
from closecall.core.hashing.pool import fit_rows
from closecall.core.mercer.kernel import Transformed, kernel_from
from closecall.core.search import BucketTables, HammingBall, HammingScan, HashTable, PermutedOrders
from closecall.core.search.orders import PREFIX_BITS

_BUILT_IN = ("radius", "epsilon", "memory")
_IN_EVERY_LOG = ("functions", "share", "candidates", "landmarks")
_IN_SOME = ("form", "rank", "scale", "kernel", "bits", "radius", "epsilon", "memory")


@dataclass(frozen=True)
class Recipe:
    """A search method with its settings; None means a setting's default.

    Parameters
    ----------
    structure : str
        One of `STRUCTURES`.
    family : str
        One of `OFFERED`.
    form : str or None
        See `core.hashing.forms`.
    rank : int or None
        Number of principal components of low-rank forms.
    scale : float or None
        Scale of transformed kernels.
    kernel : str or None
        Kernel of kernelized families, such as "chi2" or "rbf:gamma=2". By default, supervised families use an
        RBF kernel, whose width is computed from the rows.
    landmarks : int or None
        Number of landmarks, or anchors, of families with a kernel.
    functions : int or None
        Number of functions in a code.
    bits : int or None
        Bits per function of Min-Hash.
    share : float or None
        Share of the codes that a query is compared with, 0 … 1, if the structure need not compare all codes.
    candidates : int or None
        Number of candidates that are ranked exactly.
    radius : float or None
        The radius r: bucket tables are built to find rows within the radius (`core.search.tables.Guarantee`).
        It is an angle in degrees, or for Min-Hash 100 % minus the overlap. A family can have a radius only if
        it guarantees how often two rows within the radius share a hash value (`SimilarityHasher.radius_of`).
        Kernelized codes give no such guarantee: their bits depend on the angle between the rows' projections
        on the landmarks, not on the kernel itself.
    epsilon : float or None
        ε of bucket tables or of permuted orders. Tables find a row within 1 + ε times the radius. Orders find
        a row within 1 + ε times the distance of the nearest row. A smaller ε needs more memory.
    memory : int or None
        Memory of tables and orders in bytes per row, codes not included.
    """

    structure: str = EXACT
    family: str = USUAL
    form: str | None = None
    rank: int | None = None
    scale: float | None = None
    kernel: str | None = None
    landmarks: int | None = None
    functions: int | None = None
    bits: int | None = None
    share: float | None = None
    candidates: int | None = None
    radius: float | None = None
    epsilon: float | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        if self.structure not in STRUCTURES:
            raise InputError(f"method must be one of {', '.join(STRUCTURES)}, got {self.structure!r:.80}")
        if self.family not in OFFERED:
            raise InputError(f"codes must be one of {', '.join(OFFERED)}, got {self.family!r:.80}")
        if not isinstance(self.form, str | None):
            raise InputError(f"form must be a word, got {self.form!r:.80}")
        for name in (*OF_CODES, *OF_STRUCTURE, "candidates"):
            if getattr(self, name) == self.default(name):
                object.__setattr__(self, name, None)

    @classmethod
    def of_log(cls, structure: str, params: Mapping[str, Any]) -> Self:
        """Return the recipe of a search in the log, from its method and parameters.

        Raises
        ------
        InputError
            If a setting is out of range or does not apply.
        """
        if structure == EXACT:
            return cls()
        told = {name: params[name] for name in (*_IN_EVERY_LOG, *_IN_SOME) if name in params}
        recipe = cls(structure, params.get("family", USUAL), **told)
        recipe.check()
        return recipe

    def told(self) -> dict[str, Any]:
        """Return the settings that are logged because they differ from their defaults.

        Settings that every log entry has are left out.
        """
        return {name: value for name in _IN_SOME if (value := getattr(self, name)) is not None}

    def value(self, name: str) -> Any:
        """Return the value of a setting, or the setting's default if the value is None."""
        own = getattr(self, name)
        return self.default(name) if own is None else own

    def default(self, name: str) -> Any:
        """Return a setting's default for this family and structure, or None if there is no default."""
        in_ball = self.structure == HammingBall.name
        match name:
            case "form":
                return next(iter(forms_named(self.family)))
            case "kernel":
                return _parameters(self.family).get("kernel")
            case "functions":
                usual = N_TAUGHT if FAMILIES[self.family].needs_labels else N_FUNCTIONS
                return PREFIX_BITS if in_ball else usual
            case "bits":
                return 1 if in_ball else _parameters(self.family).get("bits", 1)
            case "share":
                return SHARE_OF_TABLE if self.structure == HashTable.name else SHARE
            case "epsilon":
                has_radius = self.structure == BucketTables.name and self.radius is not None
                return EPSILON.get(self.radius_of or "") if has_radius else None
        return {
            "rank": RANK,
            "scale": SCALE,
            "landmarks": LANDMARKS,
            "candidates": CANDIDATES,
            "memory": BYTES_A_ROW,
        }.get(name)

    def applies(self, name: str) -> bool:
        """Return whether a setting has an effect for this family, form and structure."""
        match name:
            case "form":
                return len(forms_named(self.family)) > 1
            case "rank":
                return self.own_form.has_rank
            case "scale":
                return self.own_form.has_scale
            case "kernel" | "landmarks":
                return "kernel" in _parameters(self.family)
            case "bits":
                return self.family == MinHash.name
            case "share":
                return self.structure not in (EXACT, HammingScan.name)
            case "radius":
                return self.structure == BucketTables.name and self.radius_of is not None
            case "epsilon":
                of_tables = self.applies("radius") and self.radius is not None
                return of_tables or self.structure == PermutedOrders.name
            case "memory":
                return self.structure in (BucketTables.name, PermutedOrders.name)
        return self.structure != EXACT

    @property
    def forms(self) -> tuple[str, ...]:
        """Names of the family's forms."""
        return tuple(forms_named(self.family))

    @property
    def own_form(self) -> Form:
        """The family's form with the name `form`, or the default form if there is no form of this name."""
        forms = forms_named(self.family)
        return forms.get(self.value("form")) or next(iter(forms.values()))

    @property
    def learns(self) -> bool:
        """Whether the codes learn from answers."""
        return FAMILIES[self.family].needs_labels or self.own_form.by_class

    @property
    def codes(self) -> Recipe:
        """The recipe of the codes alone, which is the same for all structures. It is the key of an index."""
        sizes = {"functions": self.value("functions"), "bits": self.value("bits")}
        settings = {name: getattr(self, name) for name in OF_CODES} | sizes
        return Recipe(HammingScan.name, self.family, **settings)

    def by(self, structure: str) -> Recipe:
        """Return the recipe with another structure, and with the default settings of that structure.

        If the new structure is a Hamming ball and the codes are too long for it, their length returns to
        the default.
        """
        changed = self._with(dict.fromkeys(OF_STRUCTURE), structure=structure)
        if structure == HammingBall.name and changed.n_bits > PREFIX_BITS:
            return replace(changed, functions=None, bits=None)
        return changed

    def of(self, family: str) -> Recipe:
        """Return the recipe with codes of another family, and with the default settings of that family."""
        return self._with(dict.fromkeys((*OF_CODES, "radius", "epsilon")), family=family)

    @property
    def under_metric(self) -> Recipe:
        """The recipe for searches under a learned metric, where codes are always of the default family."""
        if self.family == USUAL:
            return self
        unused = dict.fromkeys(name for name in OF_CODES if name != "functions")
        if self.radius_of != "angle" and self.structure == BucketTables.name:
            unused |= dict.fromkeys(("radius", "epsilon"))
        return self._with(unused, family=USUAL)

    def having(self, **settings: Any) -> Recipe:
        """Return the recipe with changed settings. Settings that no longer apply return to their defaults."""
        changed = self._with(settings)
        idle = (name for name in (*OF_CODES, *OF_STRUCTURE) if not changed.applies(name))
        return changed._with(dict.fromkeys(idle))

    def _with(self, settings: Mapping[str, Any], **others: Any) -> Recipe:
        return replace(self, **{**settings, **others})

    @property
    def n_bits(self) -> int:
        """Number of bits in a code."""
        return int(self.value("functions") * self.value("bits"))

    @property
    def radius_of(self) -> str | None:
        """What the family's radius limits: "angle" or "overlap"; None if the family has no radius."""
        return FAMILIES[self.family].radius_of

    @property
    def reaches(self) -> tuple[float, float] | None:
        """The radius r and (1 + ε)r, or None if there is no radius.

        See `SimilarityHasher.agreement_within` for the unit.
        """
        if self.radius is None:
            return None
        radius = radians(self.radius) if self.radius_of == "angle" else self.radius / 100
        return radius, (1 + self.value("epsilon")) * radius

    def limits(self, name: str) -> tuple[float, float]:
        """Return the minimum and the maximum of a numeric setting."""
        least, most = RANGES[name]
        if name == "radius" and self.radius_of is not None:
            most = FARTHEST[self.radius_of] - least
        return least, most

    def params(self, n_rows: int) -> dict[str, Any]:
        """Return the family's parameters for a pool of `n_rows`, except the code's length and the seed."""
        form = self.own_form
        how = dict(form.params)
        kernel = self.kernel
        if form.has_rank:
            how["rank"] = self.value("rank")
        if form.has_scale:
            kernel = Transformed(kernel_from(self.value("kernel")), self.value("scale")).word
        if kernel is not None:
            how["kernel"] = kernel
        known = _parameters(self.family)
        for word in ("n_landmarks", "n_anchors"):
            if word in known:
                how[word] = self.landmarks or min(LANDMARKS, len(fit_rows(n_rows)))
        if self.value("bits") != known.get("bits", 1):
            how["bits"] = self.value("bits")
        return how

    def check(self, n_rows: int | None = None) -> None:
        """Check that each setting is in range and has an effect, and that all settings fit together.

        Parameters
        ----------
        n_rows : int, optional
            Number of rows in the pool. If given, the number of landmarks is checked against it.

        Raises
        ------
        InputError
            If a setting is wrong. If several settings are wrong, the message describes the first.
        """
        form_named(self.family, self.form)
        for name in (*OF_CODES, *OF_STRUCTURE, "candidates"):
            if (value := getattr(self, name)) is not None:
                self._check(name, value)
        if self.structure == HammingBall.name and (self.value("bits") != 1 or self.n_bits > PREFIX_BITS):
            raise InputError(
                f"a Hamming ball needs codes of at most {PREFIX_BITS} functions of 1 bit, got "
                f"{self.value('functions')} functions of {self.value('bits')} bits"
            )
        self._check_radius()
        if not self.applies("landmarks"):
            return
        landmarks = self.value("landmarks")
        if self.landmarks is not None and n_rows is not None and landmarks > len(fit_rows(n_rows)):
            raise InputError(
                f"landmarks must be at most {len(fit_rows(n_rows)):,}, the number of rows that codes are "
                f"fitted to, got {landmarks:,}"
            )
        if self.applies("rank") and not self.value("rank") < landmarks:
            raise InputError(
                f"rank must be less than the number of landmarks, {landmarks}, got {self.value('rank')}"
            )

    def _check_radius(self) -> None:
        """Check that (1 + ε) times the radius is a distance that rows can have."""
        if self.radius is None or self.radius_of is None:
            return
        epsilon = self.value("epsilon")
        if not (1 + epsilon) * self.radius < FARTHEST[self.radius_of]:
            if self.radius_of == "angle":
                raise InputError(
                    f"(1 + ε) times the radius must be less than 180°, got {self.radius:g}° and "
                    f"ε = {epsilon:g}"
                )
            raise InputError(
                f"with a least overlap of {100 - self.radius:g} %, ε must be less than "
                f"{100 / self.radius - 1:.3g}, got {epsilon:g}"
            )

    def _check(self, name: str, value: object) -> None:
        """Check the type and range of a value, and that the setting applies."""
        if name == "kernel":
            check_kernel(value)
        elif name == "bits":
            check_bits(value)
        elif name != "form":
            check_number(name, value, *self.limits(name))
        if self.structure != EXACT and not self.applies(name):
            raise InputError(f"{name} has no effect with {self.family} codes and method {self.structure}")

    @property
    def word(self) -> str:
        """Folder name of the codes.

        It is the family's name. Unless all settings are defaults, the form, the number of functions and a
        digest of the settings follow.
        """
        codes = self.codes
        if codes == Recipe(codes.structure, codes.family):
            return codes.family
        form = codes.value("form").replace(", ", "-").replace(" ", "-")
        parts = [codes.family, form, str(codes.value("functions")), _digest(asdict(codes))]
        return "-".join(part for part in parts if part)

    @property
    def structure_word(self) -> str:
        """Folder name of the structure. It has a digest of the settings unless all settings are defaults."""
        settings = {name: getattr(self, name) for name in _BUILT_IN}
        if self.structure == HashTable.name:
            settings["share"] = self.share
        is_usual = all(value is None for value in settings.values())
        return self.structure if is_usual else f"{self.structure}-{_digest(settings)}"


@cache
def _parameters(family: str) -> dict[str, Any]:
    """Return the defaults of a family's parameters by name."""
    return {name: one.default for name, one in inspect.signature(FAMILIES[family]).parameters.items()}


def _digest(settings: Mapping[str, Any]) -> str:
    return blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=4).hexdigest()
