"""What is promised of saved codes, by every family, and of structures over them: see `core.similar.files`."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.hashing import FAMILIES, Codes, RandomHyperplaneLSH
from closecall.core.search import SIMILARITY_STRUCTURES
from closecall.core.selection import ArrayPool
from closecall.core.selection.files import read_index, write_index
from closecall.core.similar.files import digest_of, load_codes, load_structure, save_codes, save_structure
from tests.contract.test_families import VARIANTS, every_family, fitted

HOW = {"n_compared": 60, "n_bytes": 10**5, "seed": 0}
K = 30

every_structure = pytest.mark.parametrize("structure", SIMILARITY_STRUCTURES)


def pool_of(name, n=300, seed=2):
    return ArrayPool(VARIANTS[name].data(n, seed))


def hashed(family, pool):
    return family.hash_points(pool.rows(np.arange(len(pool))))


def saved(folder, name="lsh", also=None, arrays=None):
    """The family, the pool and the codes that were saved."""
    family, pool = fitted(name, K), pool_of(name)
    codes = hashed(family, pool)
    save_codes(folder, pool, family, codes, also or {}, arrays or {})
    return family, pool, codes


def again(family):
    return lambda n_rows: FAMILIES[family.name](**family.params())  # noqa: ARG005


@every_family
def test_saved_codes_are_loaded_with_their_family(tmp_path, name):
    """The same codes, mapped from the disk, and a family that asks as it did; with what else was said."""
    family, pool, codes = saved(tmp_path / "codes", name, {"through": 7}, {"items": np.arange(5)})
    found = load_codes(tmp_path / "codes", pool, again(family))
    assert isinstance(found.codes.packed, np.memmap)
    assert np.array_equal(found.codes.packed, codes.packed)
    assert (found.codes.n_functions, found.codes.bits) == (codes.n_functions, codes.bits)
    assert (found.also, found.arrays["items"].tolist()) == ({"through": 7}, [0, 1, 2, 3, 4])
    X = VARIANTS[name].data(20, 3)
    assert np.array_equal(found.hasher.hash_points(X).packed, family.hash_points(X).packed)
    for mine, theirs in zip(family.queries(X), found.hasher.queries(X), strict=True):
        assert np.array_equal(mine.weights, theirs.weights)


@every_family
@every_structure
def test_a_loaded_structure_finds_what_the_built_one_found(tmp_path, name, structure):
    """Row by row, by either measure, over codes that were loaded, too."""
    family, pool, codes = saved(tmp_path / "codes", name)
    if structure == "ball" and family.bits > 1:
        pytest.skip("balls are of single bits")
    kind = SIMILARITY_STRUCTURES[structure]
    built = kind.build(codes, None, **HOW)
    save_structure(tmp_path / structure, built, codes, HOW)
    on_disk = load_codes(tmp_path / "codes", pool, again(family)).codes
    loaded = load_structure(tmp_path / structure, kind, on_disk, HOW)
    assert all(isinstance(array, np.memmap) for array in loaded.arrays().values() if array.size > 100)
    for query in family.queries(VARIANTS[name].data(10, 3)):
        for measure in ("weights", "disagreements"):
            found = [one.found(query, 20, n_compared=60, measure=measure) for one in (built, loaded)]
            assert np.array_equal(found[0].rows, found[1].rows)
            assert found[0].compared == found[1].compared


@every_structure
def test_codes_are_written_once(tmp_path, structure):
    """Structures that look at them by row leave them out; tables of codes have them in their own order."""
    _, _, codes = saved(tmp_path / "codes")
    built = SIMILARITY_STRUCTURES[structure].build(codes, None, **HOW)
    save_structure(tmp_path / structure, built, codes, HOW)
    assert (tmp_path / structure / "codes.npy").exists() is (structure in ("table", "ball"))


def test_a_pool_that_has_grown_has_the_codes_of_its_first_rows(tmp_path):
    """Those that were saved; but not of another pool, or of one with fewer rows."""
    family, pool, codes = saved(tmp_path / "codes")
    X = VARIANTS["lsh"].data(500, 8)
    grown = ArrayPool(np.concatenate([pool.rows(np.arange(300)), X]))
    assert np.array_equal(load_codes(tmp_path / "codes", grown, again(family)).codes.packed, codes.packed)
    with pytest.raises(InputError, match="was made for another pool"):
        load_codes(tmp_path / "codes", ArrayPool(X), again(family))
    with pytest.raises(InputError, match="covers 300 rows, but the pool has only 200"):
        load_codes(tmp_path / "codes", pool.prefix(200), again(family))


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
@pytest.mark.parametrize("what", ["codes", "tables"])
def test_every_damaged_file_is_noticed(tmp_path, what, damage):
    """Not one byte may be other than it was written."""
    family, pool, codes = saved(tmp_path / "codes", also={"through": 7}, arrays={"items": np.arange(5)})
    kind = SIMILARITY_STRUCTURES["tables"]
    save_structure(tmp_path / "tables", kind.build(codes, None, **HOW), codes, HOW)
    broken = tmp_path / "broken"
    load = {
        "codes": lambda: load_codes(broken, pool, again(family)),
        "tables": lambda: load_structure(broken, kind, codes, HOW),
    }[what]
    names = sorted(path.name for path in (tmp_path / what).iterdir())
    assert len(names) > 3
    for name in names:
        shutil.copytree(tmp_path / what, broken)
        content = bytearray((broken / name).read_bytes())
        content[len(content) // 2] ^= 1
        (broken / name).write_bytes(content[:-1] if damage == "truncate" else content)
        if damage == "remove":
            (broken / name).unlink()
        with pytest.raises(InputError, match=f"{name}.*build the index again"):
            load()
        shutil.rmtree(broken)


def test_a_structure_goes_with_its_codes_and_parameters(tmp_path):
    """Not with others, however alike."""
    _, _, codes = saved(tmp_path / "codes")
    kind = SIMILARITY_STRUCTURES["tables"]
    save_structure(tmp_path / "tables", kind.build(codes, None, **HOW), codes, HOW)
    packed = codes.packed.copy()
    packed[17, 0] ^= 1
    others = Codes(packed, codes.n_functions)
    for kind_now, codes_now, how in (
        (kind, others, HOW),
        (kind, codes, {**HOW, "seed": 1}),
        (SIMILARITY_STRUCTURES["orders"], codes, HOW),
    ):
        with pytest.raises(InputError, match="belongs to other codes or was made with other parameters"):
            load_structure(tmp_path / "tables", kind_now, codes_now, how)


def test_codes_of_another_family_or_version_are_refused(tmp_path):
    """Other parameters, arrays that are missing, too few codes, a newer format."""
    folder = tmp_path / "codes"
    _, pool, codes = saved(folder)
    for other in (
        RandomHyperplaneLSH(n_functions=K, random_state=1),
        RandomHyperplaneLSH(n_functions=K, centred=False),
        FAMILIES["spectral"](n_functions=K),
    ):
        with pytest.raises(InputError, match="was made with other parameters"):
            load_codes(folder, pool, again(other))
    header, arrays = read_index(folder)
    arrays = {name: np.array(array) for name, array in arrays.items()}
    same = again(fitted("lsh", K))
    for changed in (
        {name: array for name, array in arrays.items() if name != "family-vectors_"},
        {**arrays, "codes-codes": codes.packed[:-1]},
    ):
        write_index(folder, header, changed)
        with pytest.raises(InputError, match="was made by another version"):
            load_codes(folder, pool, same)
    write_index(folder, {}, arrays)
    with pytest.raises(InputError, match="was made by another version"):
        load_codes(folder, pool, same)
    write_index(folder, header, arrays)
    manifest = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(InputError, match="format 99, and 1 is the newest known"):
        load_codes(folder, pool, same)


def test_a_digest_tells_arrays_apart():
    """By name, type, shape and every number; not by their order."""
    a, b = np.arange(6, dtype=np.float64), np.zeros(0, dtype=np.int64)
    different = [
        {"a": a},
        {"b": a},
        {"a": a.astype("f4")},
        {"a": a.reshape(2, 3)},
        {"a": a + 1e-15},
        {"a": b},
    ]
    assert len({digest_of(arrays) for arrays in different}) == len(different)
    assert digest_of({"a": a, "b": b}) == digest_of({"b": b, "a": a[::-1][::-1]})
