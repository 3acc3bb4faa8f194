"""The command ``closecall pool duplicates``."""

from __future__ import annotations

import csv
import re
from hashlib import blake2b

import numpy as np
import pytest
from PIL import Image

from closecall.app.engine.training import accuracy, accuracy_of_always_no
from closecall.core.duplicates import (
    WithHeldOut,
    folder_of,
    load_groups,
    near_duplicates,
    unrepeated_held_out,
)
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from tests.pools import contents, small_pool
from tests.unit.app.cli.test_main import refused, run
from tests.unit.core.duplicates.test_leaders import by_definition
from tests.unit.core.sources.test_capture_time import taken

PATTERNS = 8


def photograph(seed: int, brightness: float = 1.0) -> Image.Image:
    """A pattern of its own for each seed; GIST hardly depends on brightness."""
    pixels = np.random.default_rng(seed).random((6, 6)) * 255 * brightness
    return Image.fromarray(pixels.astype(np.uint8)).resize((48, 48), Image.Resampling.BICUBIC)


@pytest.fixture
def folder(tmp_path):
    """Eight photographs, each three times, in two folders that look like classes."""
    for pattern in range(PATTERNS):
        for copy, brightness in enumerate((1, 0.97, 0.94)):
            file = tmp_path / "photos" / f"kind{pattern % 2}" / f"{pattern}_{copy}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            photograph(pattern, brightness).save(file)
    return tmp_path / "photos"


@pytest.fixture
def pool(folder, tmp_path) -> Pool:
    return small_pool(tmp_path / "pool", source_from(str(folder), use_classes=False))


def names_of(file) -> list[set[str]]:
    """Names of the items of each group in a CSV file."""
    groups: dict[str, set[str]] = {}
    with file.open(encoding="utf-8", newline="") as stream:
        for line in csv.DictReader(stream):
            groups.setdefault(line["group"], set()).add(line["name"])
    return list(groups.values())


def test_a_name_is_no_formula_for_a_spreadsheet(tmp_path):
    """As in every other CSV file: see SECURITY.md."""
    (tmp_path / "photos").mkdir()
    for name in ("=1+1.png", "@sum.png"):
        photograph(0).save(tmp_path / "photos" / name)
    pool, out = small_pool(tmp_path / "pool", source_from(str(tmp_path / "photos"))), tmp_path / "groups.csv"
    assert run("pool", "duplicates", pool.path, "--out", out).exit_code == 0
    assert names_of(out) == [{"'=1+1.png", "'@sum.png"}]


@pytest.mark.parametrize("words", [[], ["--bursts"]], ids=["near", "bursts"])
def test_groups_are_found_saved_printed_and_written(pool, tmp_path, words):
    """Three of each photograph, and none of two; the pool's own files stay as they are."""
    before = contents(pool.path)
    out = tmp_path / "groups.csv"
    result = run("pool", "duplicates", pool.path, "--angle", 8, "--out", out, *words)
    assert result.exit_code == 0, result.output
    assert "8 groups of 24 items; 16 of them repeat another." in result.output
    expected = [{f"kind{n % 2}/{n}_{copy}.png" for copy in range(3)} for n in range(PATTERNS)]
    assert sorted(map(sorted, names_of(out))) == sorted(map(sorted, expected))
    saved = load_groups(folder_of(pool.path, "bursts" if words else "near"), pool)
    assert saved.groups.n_groups == PATTERNS
    assert saved.rule.angle == np.radians(8)
    assert {name: digest for name, digest in contents(pool.path).items() if name in before} == before


@pytest.mark.parametrize(
    ("words", "advised"),
    [(["--angle", 0.001], ["0.002"]), (["--angle", 0], []), (["--angle", 0.001, "--bursts"], [])],
)
def test_if_no_near_duplicates_are_found_a_larger_angle_is_advised(pool, words, advised):
    """It is twice as large; an angle of 0 asks for equal features, and bursts also depend on the time."""
    result = run("pool", "duplicates", pool.path, *words)
    assert "0 groups of 0 items" in result.output
    assert re.findall(r"double the angle: --angle (\S+)\n", result.output) == advised


def test_without_an_angle_that_of_the_last_run_counts(pool):
    """And only new items are compared; damaged groups are found again."""
    folder = folder_of(pool.path, "near")
    for options in (["--angle", 3], []):
        assert run("pool", "duplicates", pool.path, *options).exit_code == 0
        assert load_groups(folder, pool).rule.angle == np.radians(3)
    (folder / "leaders.npy").write_bytes(b"")
    assert run("pool", "duplicates", pool.path).exit_code == 0
    assert load_groups(folder, pool).groups.n_groups


def test_a_grown_pool_keeps_its_groups(folder, tmp_path):
    """The groups of its first items are the beginning of those of all."""
    source = source_from(str(folder), use_classes=False)
    pool = small_pool(tmp_path / "pool", source)
    assert run("pool", "duplicates", pool.path, "--angle", 8).exit_code == 0
    for copy in range(5):
        photograph(0, 0.9 - copy / 100).save(folder / f"later{copy}.png")
    grown = small_pool(tmp_path / "pool", source_from(str(folder), use_classes=False))
    assert len(grown) == len(pool) + 5
    assert run("pool", "duplicates", pool.path).exit_code == 0
    groups = load_groups(folder_of(pool.path, "near"), grown).groups
    assert np.array_equal(groups.leaders, near_duplicates(grown, np.radians(8)).leaders)
    assert len(groups.members(len(grown) - 1)) == 8


def test_groups_that_straddle_the_held_out_border_are_told(folder, tmp_path):
    """By name, in the file, and by the exit code; without held-out items there are none."""
    held = small_pool(tmp_path / "held", source_from(str(folder)))
    assert len(held.held_out) == 2
    out = tmp_path / "groups.csv"
    result = run("pool", "duplicates", held.path, "--angle", 8, "--check", "--out", out)
    assert result.exit_code == 1
    assert "with both held-out items and others; 2 held-out items in them" in result.output
    for name in held.source.names(held.held_out.ids):
        assert f"{name}: " in result.output
    with out.open(encoding="utf-8", newline="") as stream:
        marked = {line["name"] for line in csv.DictReader(stream) if line["held_out"] == "true"}
    assert marked == set(held.source.names(held.held_out.ids))
    assert len(load_groups(folder_of(held.path, "near"), held).groups) == len(held)
    whole = small_pool(tmp_path / "whole", source_from(str(folder), use_classes=False))
    result = run("pool", "duplicates", whole.path, "--angle", 8, "--check")
    assert result.exit_code == 0
    assert "No group has both held-out items and others." in result.output


def test_accuracy_is_measured_without_near_duplicates_of_other_items(tmp_path):
    """By the definition of groups, for the snapshot in use, too; the pool's own files stay as they are."""
    pool, degrees = small_pool(tmp_path / "pool", source_from("digits:300")), 26.0
    held_out, before, positive = pool.held_out, contents(pool.path), pool.classes[3]
    assert unrepeated_held_out(pool) is held_out
    leaders = by_definition(WithHeldOut(pool), np.radians(degrees)).leaders
    alone = [row for row in range(len(held_out)) if leaders[len(pool) + row] >= len(pool)]
    assert 0 < len(alone) < len(held_out)
    result = run("pool", "duplicates", pool.path, "--angle", degrees)
    n_repeated = len(held_out) - len(alone)
    n_left = len(pool.held_out) - n_repeated
    said = f"Accuracy is measured without {n_repeated} held-out items from these groups; {n_left} are left."
    assert said in result.output
    told = run("pool", "info", pool.path).output
    assert f"(accuracy is measured without {n_repeated} near-duplicates)" in told
    normal = np.random.default_rng(0).normal(size=pool.n_features)
    scores, is_three = held_out.X[alone] @ normal, held_out.truth[alone] == 3
    for snapshot in (pool, Pool.open(pool.path)):
        assert unrepeated_held_out(snapshot).ids.tolist() == held_out.ids[alone].tolist()
        assert accuracy(snapshot, Hyperplane(normal, 0.0), positive) == np.mean((scores > 0) == is_three)
        assert accuracy_of_always_no(snapshot, positive) == np.mean(~is_three)
    again = small_pool(pool.path, source_from("digits:300"))
    assert again.held_out.ids.tolist() == held_out.ids.tolist()
    assert {name: digest for name, digest in contents(pool.path).items() if name in before} == before
    assert run("pool", "duplicates", pool.path, "--angle", 0).exit_code == 0
    assert unrepeated_held_out(pool).ids.tolist() == held_out.ids.tolist()


@pytest.fixture
def photographed(tmp_path) -> dict[tuple[int, int], set[str]]:
    """Photographs in two folders whose names say nothing; returns their names by the time and the scene.

    Each scene is photographed four times within six seconds, twenty seconds after the scene before it, in the
    morning and again in the afternoon. In the evening, all scenes are photographed within seconds.
    """
    bursts: dict[tuple[int, int], set[str]] = {}
    shots = [
        (hour, scene, 20 * scene + 2 * shot) for hour in (9, 15) for scene in range(6) for shot in range(4)
    ]
    shots += [(20, scene, scene) for scene in range(6)]
    for hour, scene, second in shots:
        name = f"kind{scene % 2}/{blake2b(f'{hour} {second}'.encode(), digest_size=6).hexdigest()}.jpg"
        file = tmp_path / "photos" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        exif = taken(f"2024:02:29 {hour:02}:{second // 60:02}:{second % 60:02}")
        photograph(scene, 1 - second / 1000).save(file, quality=95, exif=exif)
        bursts.setdefault((hour, scene), set()).add(name)
    return bursts


def test_bursts_follow_from_the_times_in_the_photographs(photographed, tmp_path):
    """A pause and a new scene end a burst. Held-out photographs of a burst do not count for accuracy."""
    photos, out = tmp_path / "photos", tmp_path / "groups.csv"
    expected = sorted(sorted(burst) for burst in photographed.values() if len(burst) > 1)
    assert len(expected) == 12
    whole = small_pool(tmp_path / "whole", source_from(str(photos), use_classes=False))
    words = ["--bursts", "--angle", 8, "--gap", 5, "--out", out]
    assert run("pool", "duplicates", whole.path, *words).exit_code == 0
    assert sorted(map(sorted, names_of(out))) == expected
    pool = small_pool(tmp_path / "pool", source_from(str(photos)))
    held_out = set(pool.source.names(pool.held_out.ids))
    repeated = {name for burst in photographed.values() if burst - held_out for name in burst & held_out}
    repeated -= {name for burst in photographed.values() if len(burst) == 1 for name in burst}
    assert repeated
    assert run("pool", "duplicates", pool.path, *words).exit_code == 0
    assert sorted(map(sorted, names_of(out))) == sorted(
        sorted(burst - held_out) for burst in photographed.values() if len(burst - held_out) > 1
    )
    assert set(pool.source.names(unrepeated_held_out(pool).ids)) == held_out - repeated


def test_features_suffice_for_near_duplicates(pool, folder):
    """Where the images are gone, items have numbers; bursts need names."""
    folder.rename(folder.parent / "elsewhere")
    assert run("pool", "duplicates", pool.path, "--angle", 8).exit_code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--gap", "3"], "--gap needs --bursts: near-duplicates are found without times"),
        (["--out", "nowhere/x.csv"], "nowhere/x.csv cannot be written: No such file or directory"),
    ],
)
def test_what_cannot_be(pool, words, sentence):
    """One sentence each."""
    assert refused("pool", "duplicates", pool.path, *words) == sentence


def test_a_pool_that_is_none(tmp_path):
    """As for the other commands."""
    assert refused("pool", "duplicates", tmp_path) == f"{tmp_path} is not a pool: it has no pool.json"
