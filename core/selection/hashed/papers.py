"""Hyperplane hashing as published: hash the hyperplane, look up its code, and score the rows found.

The nearer a point is to a hyperplane, the more functions give both the same bits on average
(`core.hashing.hyperplane`). A search structure finds rows whose codes agree with the code of the hyperplane
in a prefix or in the key of a table. The first `n_candidates` of these rows are scored.
`core.selection.hashed.weighted` has our form of these methods, which finds nearer rows.

**Settings of [1]_.** Points are not centred. Each unit row gets an additional entry 1, and the normal of the
hyperplane gets the bias as an additional entry (footnote 2). There are k = 300 functions and N^ρ = 500
candidates (Section 4). EH-Hash samples 1/ε′² = 10,000 entries of the query's matrix wwᵀ, since ε′ = 0.01
(Section 4). [1]_ describes hash tables (Sections 3.1 and 3.5), but does not say which structure and key
length its experiments use. Related papers use permuted sorted orders. The parameter `structure` chooses
between tables and orders.

**Tables with a guarantee.** Given a radius r and an ε, the key length and the number of tables follow Theorem
1 of Gionis et al. (1999), with the collision probabilities of points at the angles r and (1 + ε)r from the
hyperplane. All rows in the buckets of the hyperplane are scored, however many there are. The probability of
success in the theorem assumes independent tables, so no two tables share a function. `CodeSearch.guarantee`
returns this probability for the tables that fit into memory.

References
----------
.. [1] P. Jain, S. Vijayanarasimhan, K. Grauman, "Hashing hyperplane queries to near points with applications
   to large-scale active learning", NIPS 2010.
.. [2] W. Liu, J. Wang, Y. Mu, S. Kumar, S.-F. Chang, "Compact hyperplane hashing with bilinear functions",
   ICML 2012.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from math import pi
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from closecall.core.errors import InputError
from closecall.core.hashing import BHHash, Codes, EHHash, HHash, HyperplaneHasher, LBHHash, QueryCode
from closecall.core.hashing.base import bytes_a_row, part_of
from closecall.core.hashing.bh_hash import MOST_SPARSE_FEATURES
from closecall.core.hashing.collision import Probabilities, dense_agrees, pair_agrees, product_agrees
from closecall.core.hashing.eh_hash import MOST_DENSE_ENTRIES, MOST_DENSE_FEATURES
from closecall.core.numerics.blas import operations_per_second
from closecall.core.search import BucketTables, PermutedOrders, SearchStructure
from closecall.core.search.base import packed_codes
from closecall.core.search.orders import PREFIX_BITS
from closecall.core.search.tables import Guarantee
from closecall.core.selection.base import Arrays, Cost, Progress
from closecall.core.selection.hashed.base import HashedSearch
from closecall.core.selection.reader import PoolRows, Rows
from closecall.core.selection.requests import Query

Structure = Literal["orders", "tables"]

FUNCTIONS = 300
"""Number k of functions in the experiments of Jain et al. (2010), Section 4."""

_SHARE_OF_SPEED = 0.85
"""Speed of hashing by dense matrices, relative to the speed of plain matrix products."""

QUERY_SAMPLES = 10_000
"""Number of query entries that EH-Hash samples: 1/ε′² for ε′ = 0.01, as in Jain et al. (2010), Section 4."""


class CodeSearch(HashedSearch):
    """Base class of strategies that look up the code of the hyperplane.

    Parameters
    ----------
    structure : "orders" or "tables"
        "orders" means 32 permuted orders, or fewer if memory is limited; see `core.search.orders`. "tables"
        means bucket tables; see `core.search.tables`. In each table, a query reads the bucket of the code of
        the hyperplane. If too few items in these buckets may be selected, the query reads other buckets, too.
    radius, epsilon : float, optional
        r, an angle from the hyperplane in radians, and ε; only for "tables", both or neither. If they are
        given, tables are built for which the published guarantee holds (`core.search.tables.Guarantee`), and
        all rows in the buckets of the hyperplane are scored.
    n_functions : int or None
        Number of hash functions, k. None means `FUNCTIONS` if no radius is given. With a radius, None means
        the number of functions that the tables need if no two tables share a function. If a smaller number is
        given, some tables share functions, and the guarantee counts only tables that share none.
    n_candidates : int
        Number of rows that are scored if no radius is given (N^ρ in Jain et al., 2010). At least ten rows are
        scored per requested item.
    refills : bool
        See `HashedSearch`; only for "orders". In tables, excluded rows are never counted.
    megabytes : int
        Memory limit in MB for orders or tables; codes are not counted. If a radius is given and n_functions
        is not, codes and functions are counted, too.
    random_state : int
    """

    query_params: ClassVar[frozenset[str]] = frozenset({"n_candidates", "refills"})
    structures: ClassVar[Mapping[str, type[SearchStructure]]] = {
        structure.name: structure for structure in (PermutedOrders, BucketTables)
    }
    weighted = False

    hasher_class: ClassVar[type[HyperplaneHasher]]

    n_functions: int | None
    n_functions_: int

    def __init__(
        self,
        *,
        structure: Structure = "orders",
        radius: float | None = None,
        epsilon: float | None = None,
        n_functions: int | None = None,
        n_candidates: int = 500,
        refills: bool = True,
        megabytes: int = 200,
        random_state: int = 0,
    ) -> None:
        # Without a radius, None is replaced here, so that logs and saved indexes contain the number.
        n_functions = FUNCTIONS if n_functions is None and radius is None else n_functions
        super().__init__(
            structure=structure,
            n_functions=n_functions,
            n_candidates=n_candidates,
            refills=refills,
            megabytes=megabytes,
            random_state=random_state,
        )
        self.radius = radius
        self.epsilon = epsilon

    def check(self) -> None:
        """See `QueryStrategy.check`."""
        super().check()
        if self.radius is None and self.epsilon is None:
            return
        if self.structure != "tables" or self.radius is None or self.epsilon is None:
            raise InputError("radius and epsilon are given together, and with structure=tables only")
        if not 0 < self.radius < (1 + self.epsilon) * self.radius < pi / 2:
            raise InputError(
                "radius and epsilon must satisfy 0 < radius < (1 + epsilon) radius < π/2, "
                f"got {self.radius:g} and {self.epsilon:g}"
            )

    def thrifty_params(self) -> dict[str, Any]:
        """See `HashedSearch.thrifty_params`; none with a radius, because all rows found are then scored."""
        return {} if self.radius is not None else super().thrifty_params()

    @abstractmethod
    def agreement(self, theta: ArrayLike) -> Probabilities:
        """Return the probability that a function gives a hyperplane and a point the same bits.

        `theta` is the angle between the point and the normal of the hyperplane.
        """

    def rule(self, n_rows: int) -> Guarantee:
        """Return the guarantee with the key width and the number of tables of the published theorem.

        The number of tables is not limited by memory.

        Raises
        ------
        InputError
            If no radius is given.
        """
        if self.radius is None or self.epsilon is None:
            raise InputError("a guarantee needs a radius and epsilon")
        near, far = self.agreement(pi / 2 + np.array([self.radius, (1 + self.epsilon) * self.radius]))
        return Guarantee.by_rule(n_rows, float(near), float(far))

    def planned(self, pool: PoolRows) -> Guarantee:
        """Return the guarantee of as many tables as fit into memory, if no two of them share a function.

        Raises
        ------
        InputError
            If no radius is given.
        """
        rule, bits = self.rule(len(pool)), self.hasher_class.bits
        n_bytes, a_function = self.megabytes * 10**6, self.bytes_a_function(pool)
        return rule.fitting(bits, n_bytes, bytes_a_function=a_function)

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the tables that were built; see `BucketTables.guarantee`."""
        assert isinstance(self.structure_, BucketTables)
        return self.structure_.guarantee(self.rule(self.n_items))

    def bytes_a_function(self, pool: PoolRows) -> int:
        """Return the memory of one hash function for a pool, in bytes: two vectors."""
        return 2 * (pool.n_features + 1) * (1 if pool.is_sparse else 4)

    def prepare(self, pool: PoolRows, progress: Progress | None) -> None:
        """See `HashedSearch.prepare`; draws as many functions as the tables need."""
        self.n_functions_ = self._n_functions(pool)
        super().prepare(pool, progress)

    def grow(self, old: Self, pool: PoolRows, progress: Progress | None) -> None:
        """See `HashedSearch.grow`; hashes all rows again if the number of functions needed has changed."""
        self.n_functions_ = self._n_functions(pool)
        if self.n_functions_ == old.n_functions_:
            super().grow(old, pool, progress)
        else:
            self.prepare(pool, progress)

    def restore(self, arrays: Arrays) -> None:
        """See `QueryStrategy.restore`."""
        self.n_functions_ = packed_codes(part_of(arrays, "structure")).n_functions
        super().restore(arrays)

    def _n_functions(self, pool: PoolRows) -> int:
        return self.planned(pool).n_functions if self.n_functions is None else self.n_functions

    def _hasher_params(self) -> dict[str, Any]:
        how = {"centred": False, "scale": 1.0, "n_directions": None}
        n_functions = self.n_functions_ if self.n_functions is None else self.n_functions
        return {"n_functions": n_functions, "random_state": self.random_state, **how}

    def _structure_over(self, codes: Codes, hasher: HyperplaneHasher) -> SearchStructure:  # noqa: ARG002
        n_bytes = self.megabytes * 10**6
        if self.radius is None:
            return self.structures[self.structure].build(
                codes, None, n_compared=self.n_candidates, n_bytes=n_bytes, seed=self.random_state
            )
        rule = self.rule(len(codes))
        if self.n_functions is None:
            width = min(rule.width, PREFIX_BITS // codes.bits)
            return BucketTables.of_width(codes, width, codes.n_functions // width, self.random_state)
        return BucketTables.of_rule(codes, rule, n_bytes=n_bytes, seed=self.random_state)

    def _candidates(self, query: Query) -> Rows:
        code = self.hasher_.query(query.plane())
        if isinstance(self.structure_, BucketTables):
            return self._in_buckets(self.structure_, code, query)
        assert isinstance(self.structure_, PermutedOrders)
        return self._allowed_of(partial(self.structure_.proposed, code), query)

    def _in_buckets(self, tables: BucketTables, code: QueryCode, query: Query) -> Rows:
        """Return rows from the buckets of the hyperplane; if too many are excluded, add other rows."""
        wanted = self._wanted(query)
        limit = wanted if self.radius is None else self.n_items
        own = self._allowed(tables.probed(code, self.n_items, most_probes=len(tables.functions_))[0], query)
        if len(own) >= query.n:
            return own[:limit]
        further = self._allowed(tables.probed(code, wanted)[0], query)
        if len(further) >= query.n:
            return further[:wanted]
        return self._allowed(np.arange(self.n_items), query)[:wanted]


class HHashSearch(CodeSearch):
    """Query strategy: H-Hash, which hashes the hyperplane with two bits per function and looks up its code.

    Two codes agree in a function if they agree in both bits. See `core.hashing.HHash`, and `CodeSearch` for
    the parameters.
    """

    name = "h-hash"
    about = "An item near the boundary, by hashing with pairs of bits, as published."
    hasher_class = HHash

    def agreement(self, theta: ArrayLike) -> Probabilities:
        """See `CodeSearch.agreement`."""
        return pair_agrees(theta)

    def new_hasher(self) -> HHash:
        """See `HashedSearch.new_hasher`."""
        return HHash(**self._hasher_params())


class EHHashSearch(CodeSearch):
    """Query strategy: EH-Hash, which hashes the hyperplane with dense d × d matrices and looks up its code.

    See `core.hashing.EHHash`. With d features, hashing takes d²/2 multiplications per function and item. All
    processors share the work. With 384 features and 300 functions, one processor hashes an item in about
    0.6 ms and a million items in ten minutes. `cost` estimates the time for a pool. The strategy
    `eh-hash-weighted` takes only seconds.

    Parameters
    ----------
    query_samples : int or None
        Number of entries of the query's matrix wwᵀ that are sampled, called t in Lemma 3.4 of Jain et al.
        (2010). With None, all entries are used.

    See `CodeSearch` for the other parameters.

    Raises
    ------
    InputError
        If the pool has more than 1,000 features.
    """

    name = "eh-hash"
    about = "An item near the boundary, by hashing of embedded vectors, as published."
    hasher_class = EHHash

    def __init__(
        self,
        *,
        query_samples: int | None = QUERY_SAMPLES,
        structure: Structure = "orders",
        radius: float | None = None,
        epsilon: float | None = None,
        n_functions: int | None = None,
        n_candidates: int = 500,
        refills: bool = True,
        megabytes: int = 200,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            structure=structure,
            radius=radius,
            epsilon=epsilon,
            n_functions=n_functions,
            n_candidates=n_candidates,
            refills=refills,
            megabytes=megabytes,
            random_state=random_state,
        )
        self.query_samples = query_samples

    def check_pool(self, pool: PoolRows) -> None:
        """See `QueryStrategy.check_pool`."""
        if pool.n_features > MOST_DENSE_FEATURES:
            raise InputError(
                f"eh-hash takes at most {MOST_DENSE_FEATURES:,} features, because its matrices have an entry "
                f"for each pair of them, got {pool.n_features:,}: eh-hash-weighted takes any number"
            )

    def cost(self, pool: PoolRows) -> Cost:
        """See `QueryStrategy.cost`: d²/2 multiplications and additions per function and row."""
        n_functions = self._n_functions(pool)
        n_entries = n_functions * (pool.n_features + 1) * (pool.n_features + 2) // 2
        speed = _SHARE_OF_SPEED * operations_per_second() * (os.cpu_count() or 1)
        n_bytes = 4 * n_entries + len(pool) * bytes_a_row(n_functions, 1) + self.megabytes * 10**6
        return Cost(2 * n_entries * len(pool) / speed, n_bytes)

    def check(self) -> None:
        """See `QueryStrategy.check`."""
        super().check()
        if self.radius is not None and self.query_samples is not None:
            raise InputError("a guarantee needs query_samples=none: a sampled query agrees less often")

    def agreement(self, theta: ArrayLike) -> Probabilities:
        """See `CodeSearch.agreement`."""
        return dense_agrees(theta)

    def planned(self, pool: PoolRows) -> Guarantee:
        """See `CodeSearch.planned`; all matrices together have at most `MOST_DENSE_ENTRIES` entries."""
        plan = super().planned(pool)
        n_entries = self.bytes_a_function(pool) // 4
        most = max(1, MOST_DENSE_ENTRIES // (n_entries * plan.width))
        return plan.of_tables(plan.width, min(plan.n_tables, most))

    def bytes_a_function(self, pool: PoolRows) -> int:
        """Return the memory of one hash function for a pool, in bytes: the upper triangle of a matrix."""
        return 2 * (pool.n_features + 1) * (pool.n_features + 2)

    def new_hasher(self) -> EHHash:
        """See `HashedSearch.new_hasher`."""
        return EHHash(rank="dense", query_samples=self.query_samples, **self._hasher_params())


class BHHashSearch(CodeSearch):
    """Query strategy: BH-Hash, which hashes the hyperplane by signs of products of projections.

    See `core.hashing.BHHash`, and `CodeSearch` for the parameters.
    """

    name = "bh-hash"
    about = "An item near the boundary, by bilinear hashing, as published."
    hasher_class = BHHash

    def agreement(self, theta: ArrayLike) -> Probabilities:
        """See `CodeSearch.agreement`."""
        return product_agrees(theta)

    def new_hasher(self) -> BHHash:
        """See `HashedSearch.new_hasher`."""
        return BHHash(**self._hasher_params())


class LBHHashSearch(CodeSearch):
    """Query strategy: LBH-Hash, which hashes the hyperplane like BH-Hash, but with learned functions.

    See `core.hashing.LBHHash`. The collision probabilities of learned functions are unknown, so tables
    have no guarantee, and `radius` can't be given.

    Parameters
    ----------
    n_samples : int
        Number of items from which the functions are learned.

    See `CodeSearch` for the other parameters.
    """

    name = "lbh-hash"
    about = "An item near the boundary, by bilinear hashing that learns from the pool, as published."
    hasher_class = LBHHash

    def __init__(
        self,
        *,
        n_samples: int = 1000,
        structure: Structure = "orders",
        n_functions: int = 32,
        n_candidates: int = 500,
        refills: bool = True,
        megabytes: int = 200,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            structure=structure,
            n_functions=n_functions,
            n_candidates=n_candidates,
            refills=refills,
            megabytes=megabytes,
            random_state=random_state,
        )
        self.n_samples = n_samples

    def check_pool(self, pool: PoolRows) -> None:
        """See `QueryStrategy.check_pool`."""
        if pool.is_sparse and pool.n_features > MOST_SPARSE_FEATURES:
            raise InputError(
                f"lbh-hash learns from sparse rows of at most {MOST_SPARSE_FEATURES:,} features, "
                f"got {pool.n_features:,}: lbh-hash-weighted takes any number"
            )

    def agreement(self, theta: ArrayLike) -> Probabilities:  # noqa: ARG002
        """Raise an InputError, because the probability is not known."""
        raise InputError("the probability that learned functions agree is not known")

    def new_hasher(self) -> LBHHash:
        """See `HashedSearch.new_hasher`."""
        return LBHHash(n_samples=self.n_samples, **self._hasher_params())
