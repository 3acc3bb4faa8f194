"""What every query strategy promises about being saved, and what becomes of a damaged index."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.pool.build import build
from closecall.core.selection import STRATEGIES, files, former, make_strategy, strategy_class
from tests.contract.kit import bags, every_strategy, gaussian_pool, hyperplanes, make, nearest
from tests.fakes import FakeSource
from tests.pools import small_parts
from tests.scale import thorough

PLANES = hyperplanes(6)


@pytest.fixture(scope="module", params=[gaussian_pool, bags], ids=["dense", "sparse"])
def pool(request):
    return request.param(300)


@pytest.fixture
def saved(pool, tmp_path):
    """An index with many arrays, saved."""
    make("h-hash-weighted, table").fit(pool).save(tmp_path / "index")
    return tmp_path / "index"


def answers(strategy):
    found = [strategy.select(plane, 3, seed=seed) for seed, plane in enumerate(PLANES)]
    return [(one.ids.tolist(), one.margins.tolist(), one.scored, one.items) for one in found]


@every_strategy
def test_saved_and_loaded_gives_the_same_answers(pool, tmp_path, variant):
    """A loaded index has the parameters and answers of the saved one, and its arrays stay on disk."""
    strategy = make(variant, random_state=3).fit(pool)
    strategy.save(tmp_path / "index")
    loaded = type(strategy).load(tmp_path / "index", pool)
    assert loaded.params() == strategy.params()
    assert answers(loaded) == answers(strategy)
    assert all(isinstance(array, np.memmap) for array in loaded.arrays().values() if array.size > 1000)


@every_strategy
def test_an_index_can_be_shared(pool, variant):
    """A strategy that takes over another's index answers as if fitted; another seed needs another index."""
    fitted = make(variant).fit(pool)
    assert answers(make(variant).sharing(fitted)) == answers(fitted)
    with pytest.raises(InputError, match=f"{fitted.name} with .* cannot share the index of {fitted.name}"):
        make(variant, random_state=8).sharing(fitted)


@every_strategy
def test_a_saved_index_takes_up_a_pool_that_has_grown_since(pool, tmp_path, variant):
    """It covers the rows that it covered, and grows like the one that was saved."""
    young = make(variant).fit(pool.prefix(200))
    young.save(tmp_path / "index")
    loaded = type(young).load(tmp_path / "index", pool)
    assert loaded.n_items == 200
    assert answers(loaded) == answers(young)
    assert answers(loaded.extended(pool)) == answers(make(variant).fit(pool))


def test_an_index_saved_under_a_former_name_is_that_of_the_weighted_form(pool, tmp_path, monkeypatch):
    """Before there were two forms it was saved as h-hash, with the parameters that it has today."""
    weighted = make("h-hash-weighted, table").fit(pool)
    with monkeypatch.context() as then:
        then.setattr(type(weighted), "name", "h-hash")
        weighted.save(tmp_path / "h-hash")
    make("bh-hash").fit(pool).save(tmp_path / "bh-hash")
    (tmp_path / "eh-hash").mkdir()
    (tmp_path / "eh-hash" / "index.json").write_text("[")
    with pytest.raises(InputError, match="has an index for h-hash-weighted, not for h-hash"):
        strategy_class("h-hash").load(tmp_path / "h-hash", pool)
    for _ in range(2):
        former.move_former_indexes(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["bh-hash", "eh-hash", "h-hash-weighted"]
    loaded = strategy_class("h-hash-weighted").load(tmp_path / "h-hash-weighted", pool)
    assert answers(loaded) == answers(weighted)


def test_saving_again_replaces_what_was_there(pool, saved):
    """The folder always holds one whole index and nothing else."""
    other = make("h-hash-weighted, table", random_state=9).fit(pool)
    other.save(saved)
    assert answers(strategy_class("h-hash-weighted").load(saved, pool)) == answers(other)
    assert [path.name for path in saved.parent.iterdir()] == ["index"]


@pytest.mark.parametrize("damage", ["flip", "truncate", "lengthen", "remove"])
@pytest.mark.parametrize("variant", ["h-hash-weighted, table", "margin-index"])
def test_every_damaged_file_is_noticed_and_named(pool, tmp_path, variant, damage):
    """Not one byte of an index may be other than it was written."""
    whole, saved = tmp_path / "whole", tmp_path / "index"
    strategy = make(variant).fit(pool)
    strategy.save(whole)
    assert len(list(whole.iterdir())) == len(strategy.arrays()) + 1
    for name in sorted(path.name for path in whole.iterdir()):
        shutil.copytree(whole, saved)
        path = saved / name
        content = bytearray(path.read_bytes())
        if damage == "flip":
            content[len(content) // 2] ^= 1
        path.write_bytes(content[:-1] if damage == "truncate" else content + (b"\n" * (damage == "lengthen")))
        if damage == "remove":
            path.unlink()
        if (damage, name) != ("lengthen", "index.json"):  # a blank line more means nothing in JSON
            with pytest.raises(InputError, match=f"{name}.*build the index again"):
                type(strategy).load(saved, pool)
        shutil.rmtree(saved)


@pytest.mark.parametrize("manifest", ["", "{}", "[]", "null", "not JSON", '{"format": "x"}', "\x00\xff"])
def test_a_manifest_of_nonsense_is_noticed(pool, saved, manifest):
    """Whatever stands in index.json, the answer is one sentence."""
    (saved / "index.json").write_text(manifest, encoding="latin-1")
    with pytest.raises(InputError, match=r"index\.json is damaged: build the index again"):
        strategy_class("h-hash-weighted").load(saved, pool)


def test_an_index_from_a_newer_version_is_refused(pool, saved):
    """It says that it is newer, not that it is damaged."""
    manifest = json.loads((saved / "index.json").read_text())
    manifest["format"] = 99
    (saved / "index.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="format 99, and 1 is the newest known"):
        strategy_class("h-hash-weighted").load(saved, pool)


def test_an_index_of_a_version_with_other_parameters_or_arrays_is_refused(pool, saved):
    """What this version cannot restore, it says it cannot."""
    header, arrays = files.read_index(saved)
    files.write_index(saved, {**header, "params": {**header["params"], "colour": 1}}, arrays)
    with pytest.raises(InputError, match="was made by another version: build the index again"):
        strategy_class("h-hash-weighted").load(saved, pool)
    files.write_index(saved, header, {"hasher-centre": arrays["hasher-centre"]})
    with pytest.raises(InputError, match="was made by another version: build the index again"):
        strategy_class("h-hash-weighted").load(saved, pool)


def test_an_index_of_something_else_is_refused(pool, saved, tmp_path):
    """An index goes with its strategy and its pool."""
    with pytest.raises(InputError, match="has an index for h-hash-weighted, not for bh-hash-weighted"):
        strategy_class("bh-hash-weighted").load(saved, pool)
    with pytest.raises(InputError, match="covers 300 rows, but the pool has only 299"):
        strategy_class("h-hash-weighted").load(saved, pool.prefix(299))
    with pytest.raises(InputError, match="was made for another pool"):
        strategy_class("h-hash-weighted").load(saved, gaussian_pool(300, seed=1))
    with pytest.raises(InputError, match="there is no index"):
        strategy_class("h-hash-weighted").load(tmp_path / "nowhere", pool)


HALF = ("exhaustive", "h-hash-weighted", "margin-index", "mixture")
"""At the scale `quick` it is these that read numbers of half precision."""


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, "float32") for name in sorted(STRATEGIES)),
        *(
            (name, dtype) if name in HALF else thorough(name, dtype)
            for name in sorted(STRATEGIES)
            for dtype in ("float16", "byte")
        ),
    ],
)
def test_a_pool_on_disk_is_served_like_one_in_memory(monkeypatch, tmp_path, name, dtype):
    """Segments of any length, mapped, of either number format: margins are those of the stored rows."""
    small_parts(monkeypatch)
    pool = build(FakeSource(230, 6, held_out=range(0, 230, 7)), tmp_path / "pool", dtype=dtype)
    strategy = make_strategy(name).fit(pool.prefix(120)).extended(pool)
    strategy.save(tmp_path / "index")
    for index in (strategy, type(strategy).load(tmp_path / "index", pool)):
        for plane in hyperplanes(5, d=6):
            found = index.select(plane, 4, exclude=pool.ids[:50])
            assert not np.isin(found.ids, pool.ids[:50]).any()
            assert np.allclose(
                found.margins, np.abs(plane.scores(pool.rows_of(found.ids))), rtol=0, atol=1e-12
            )
            if nearest(name):
                best = np.abs(plane.scores(pool.rows(np.arange(50, len(pool))))).min()
                assert found.margins[0] == pytest.approx(best, abs=1e-12)
