"""Search structures for queries that are points, and a function that builds a structure by its name."""

from __future__ import annotations

from closecall.core.hashing.base import Codes
from closecall.core.search.ball import HammingBall
from closecall.core.search.base import SearchStructure
from closecall.core.search.keys import key_functions
from closecall.core.search.orders import PermutedOrders, order_rule
from closecall.core.search.scan import HammingScan
from closecall.core.search.table import HashTable, width_rule
from closecall.core.search.tables import BucketTables, Guarantee

SIMILARITY_STRUCTURES: dict[str, type[SearchStructure]] = {
    cls.name: cls for cls in (HashTable, PermutedOrders, HammingScan, BucketTables, HammingBall)
}


def built_for_points(
    name: str,
    codes: Codes,
    *,
    n_compared: int,
    n_bytes: int,
    seed: int,
    radius: float | None = None,
    epsilon: float | None = None,
    near: float | None = None,
    far: float | None = None,
) -> SearchStructure:
    """Build the structure with this name in `SIMILARITY_STRUCTURES` over codes.

    The key of a hash table consists of the functions that best separate near points from far points
    (`core.search.keys`). The optional parameters have these effects:

    - Bucket tables follow the (r, ε) rule of `core.search.tables` if `near` and `far`, or `radius` and
      `epsilon`, are given. `near` and `far` are the probabilities in `core.search.tables.Guarantee`.
      Here, `radius` is an angle in radians; the rule with `radius` and `epsilon` is for random hyperplanes.
    - Permuted orders follow Charikar's rule (`core.search.orders`) if `epsilon` is given.
    - A Hamming ball has the radius `radius`, in bits. Without `radius`, it grows until it has enough rows.

    If a rule gives more tables or orders than fit into `n_bytes`, only those that fit are built. The other
    parameters are those of `SearchStructure.build`.

    Raises
    ------
    InputError
        If `radius`, `epsilon`, `near` or `far` is out of range, or if the codes are too long for a ball.
    """
    if name == BucketTables.name and near is not None and far is not None:
        rule = Guarantee.by_rule(len(codes), near, far)
        return BucketTables.of_rule(codes, rule, n_bytes=n_bytes, seed=seed)
    if name == BucketTables.name and radius is not None and epsilon is not None:
        return BucketTables.of_radius(codes, radius, epsilon, n_bytes=n_bytes, seed=seed)
    if name == PermutedOrders.name and epsilon is not None:
        return PermutedOrders.of_orders(codes, order_rule(len(codes), n_bytes, epsilon), seed)
    if name == HammingBall.name:
        return HammingBall.of_radius(codes, radius)
    if name == HashTable.name:
        width = width_rule(len(codes), codes.bits, n_compared, codes.n_functions)
        return HashTable.of_functions(codes, key_functions(codes, width, seed))
    return SIMILARITY_STRUCTURES[name].build(codes, None, n_compared=n_compared, n_bytes=n_bytes, seed=seed)
