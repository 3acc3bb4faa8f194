"""Groups by item: what they say agrees with plain sets."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from closecall.core.duplicates import Groups, ItemGroups
from closecall.core.duplicates.files import Kind
from closecall.core.errors import InputError

KINDS: tuple[Kind, ...] = ("near", "bursts")

parts = st.lists(st.integers(0, 5), max_size=24)


def groups_of(part: list[int]) -> Groups:
    """The groups of rows with the same number; the first row of each leads."""
    leaders = [part.index(number) for number in part]
    return Groups(np.array(leaders, dtype=np.int64), np.zeros(len(part), dtype=np.float32))


def pool_of(n_rows: int) -> SimpleNamespace:
    """A pool whose items have gaps, such as those of held-out items."""
    return SimpleNamespace(ids=np.arange(n_rows, dtype=np.int64) * 3 + 7)


def by_item(pool: SimpleNamespace, part: list[int]) -> dict[int, set[int]]:
    """The group of each item that is not alone, by definition."""
    pairs = list(zip(pool.ids.tolist(), part, strict=False))
    found = {item: {other for other, n in pairs if n == number} for item, number in pairs}
    return {item: group for item, group in found.items() if len(group) > 1}


@given(near=parts, bursts=parts)
def test_an_item_has_the_items_of_its_groups(near: list[int], bursts: list[int]) -> None:
    """Of both kinds, for single items and for several; bursts come first; the pool may have grown."""
    pool = pool_of(25)
    groups = ItemGroups.of(pool, {"near": groups_of(near), "bursts": groups_of(bursts)})  # type: ignore[arg-type]
    known = {"near": by_item(pool, near), "bursts": by_item(pool, bursts)}
    every = {item: set().union(*(own.get(item, set()) for own in known.values())) for item in range(90)}
    for item, expected in every.items():
        assert groups.members(item).tolist() == sorted(expected)
        kind = next((kind for kind in ("bursts", "near") if item in known[kind]), None)
        found = groups.group(item)
        assert (found and (found[0], found[1].tolist())) == (kind and (kind, sorted(known[kind][item])))
    some = list(range(7, 40, 5))
    assert groups.members_of(some).tolist() == sorted(set().union(*(every[item] for item in some)))
    assert groups.members_of([]).tolist() == []
    assert groups.n_items == sum(map(bool, every.values()))
    assert groups.n_groups == sum(len({frozenset(g) for g in own.values()}) for own in known.values())
    again = ItemGroups.from_bytes(groups.to_bytes(), groups.digest)
    assert again.members_of(range(90)).tolist() == groups.members_of(range(90)).tolist()


def test_equal_groups_have_one_digest_and_others_another() -> None:
    """The digest is of the groups, whatever the angles and however the pool has grown since."""
    pool, part = pool_of(6), [0, 0, 1, 1, 1, 2]
    found = groups_of(part)
    digest = ItemGroups.of(pool, {"near": found}).digest  # type: ignore[arg-type]
    wider = Groups(found.leaders, found.angles + 1)
    assert ItemGroups.of(pool_of(9), {"near": wider}).digest == digest  # type: ignore[arg-type]
    others: list[tuple[Kind, list[int]]] = [("bursts", part), ("near", [0, 0, 0, 1, 1, 2]), ("near", [0, 0])]
    for kind, other in others:
        assert ItemGroups.of(pool, {kind: groups_of(other)}).digest != digest  # type: ignore[arg-type]


@pytest.mark.parametrize("damage", [slice(0, -5), slice(0, 0), slice(3, None)])
def test_damaged_groups_are_refused_in_a_sentence(damage: slice) -> None:
    """So are the groups of another digest."""
    groups = ItemGroups.of(pool_of(4), {"near": groups_of([0, 0, 1, 1])})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"{groups.digest} are damaged"):
        ItemGroups.from_bytes(groups.to_bytes()[damage], groups.digest)
    with pytest.raises(InputError, match="0123 are damaged"):
        ItemGroups.from_bytes(groups.to_bytes(), "0123")
