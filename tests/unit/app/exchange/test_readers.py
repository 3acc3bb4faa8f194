"""Programs that people read tables with: pandas, polars, DuckDB, Hugging Face's datasets, and LibreOffice."""

from __future__ import annotations

import codecs
import csv
import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas
import pytest

from closecall.app.exchange.class_folders import export_folder
from closecall.app.exchange.offline_project import names_of
from closecall.storage import Database, LabelLog, export
from closecall.storage.tabular import unguarded
from tests.folders import fresh_folder
from tests.storage_kit import make_concept, sit_down
from tests.unit.app.exchange.test_exchange import ANSWERS, AWKWARD, empty_database, pool

NOT_INSTALLED = "it is in the extra dev: make test installs it"
FORMATS = {"csv": ".csv", "jsonl": ".jsonl", "parquet": ".parquet"}
TIMES = ("browser_time", "server_time", "selected_time")
WHOLE = ("item", "yes", "no", "unsure", "skip")


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """One answer about each item, by somebody with an accent, and some undone."""
    with empty_database() as opened:
        zoe = sit_down(opened, make_concept(opened, "Möwe 🐦"), "Zoë")
        for item in range(len(AWKWARD)):
            zoe.says(ANSWERS[item % 4], item, selection_id=zoe.is_shown(item).id)
        zoe.undoes(zoe.says("no", 0))
        yield opened


@pytest.fixture(scope="module", params=[False, True], ids=["labels", "log"])
def log(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def files(database: Database, log: bool) -> dict[str, Path]:
    """The table in each format."""
    folder, found = fresh_folder(), {}
    for form, suffix in FORMATS.items():
        found[form] = folder / f"table{suffix}"
        with (
            found[form].open("wb")
            if form == "parquet"
            else found[form].open("w", encoding="utf-8", newline="") as out
        ):
            export(
                database,
                out,
                format=form,  # type: ignore[arg-type]
                log=log,
                names_of=lambda items: names_of(pool(), items),
            )
    return found


def expected_names(database: Database, log: bool) -> list[str]:
    """The names in the order of the rows."""
    items = [its.item for its in LabelLog(database).answers_after(1)] if log else range(len(AWKWARD))
    return names_of(pool(), list(items))


def times_of(log: bool) -> list[str]:
    return list(TIMES) if log else ["last_answered_at"]


def whole_of(log: bool) -> list[str]:
    return ["seq", "item", "round", "items_total"] if log else list(WHOLE)


@pytest.mark.parametrize("form", FORMATS)
def test_pandas(database: Database, files: dict[str, Path], log: bool, form: str) -> None:
    """Times are times, whole numbers numbers, and names the names."""
    if form == "csv":
        table = pandas.read_csv(files[form], parse_dates=times_of(log), keep_default_na=False, na_values=[""])
    elif form == "jsonl":
        table = pandas.read_json(files[form], lines=True)
    else:
        table = pandas.read_parquet(files[form])
    for column in times_of(log):
        assert str(table.dtypes[column]).startswith("datetime64[")
        assert str(table.dtypes[column]).endswith(", UTC]")
    for column in whole_of(log):
        assert table.dtypes[column].kind in "if"
    clean = unguarded if form == "csv" else str
    assert [clean(name) for name in table["name"]] == expected_names(database, log)
    assert set(table["concept"]) == {"Möwe 🐦"}


@pytest.mark.parametrize("form", FORMATS)
def test_polars(database: Database, files: dict[str, Path], log: bool, form: str) -> None:
    """By itself in CSV, with the option for dates; JSON Lines have no times, so they are text there."""
    polars = pytest.importorskip("polars", reason=NOT_INSTALLED)
    if form == "csv":
        table = polars.read_csv(files[form], try_parse_dates=True, infer_schema_length=None)
    elif form == "jsonl":
        table = polars.read_ndjson(files[form], infer_schema_length=None)
        table = table.with_columns(polars.col(times_of(log)).str.to_datetime(time_zone="UTC"))
    else:
        table = polars.read_parquet(files[form])
    for column in times_of(log):
        assert isinstance(table.schema[column], polars.Datetime)
        assert table.schema[column].time_zone == "UTC"
    for column in whole_of(log):
        assert table.schema[column].is_integer()
    clean = unguarded if form == "csv" else str
    assert [clean(name) for name in table["name"].to_list()] == expected_names(database, log)


@pytest.mark.parametrize("form", FORMATS)
def test_duckdb(database: Database, files: dict[str, Path], log: bool, form: str) -> None:
    """By itself, but for labels: in CSV, it takes yes and no for truth values unless told otherwise."""
    duckdb = pytest.importorskip("duckdb", reason=NOT_INSTALLED)
    if form == "csv":
        words = "'answer': 'VARCHAR'" if log else "'label': 'VARCHAR', 'status': 'VARCHAR'"
        read = f"read_csv('{files[form]}', types = {{{words}}}, sample_size = -1)"
    else:
        read = f"'{files[form]}'"
    table = duckdb.sql(f"FROM {read}")
    kinds = dict(zip(table.columns, map(str, table.types), strict=True))
    assert all(kinds[column] == "TIMESTAMP WITH TIME ZONE" for column in times_of(log))
    assert all(kinds[column] in ("BIGINT", "INTEGER") for column in whole_of(log))
    lines = [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]
    clean = unguarded if form == "csv" else str
    assert [clean(line["name"]) for line in lines] == expected_names(database, log)
    assert {line["answer" if log else "status"] for line in lines} - {"undo"} == set(ANSWERS)
    asked = (its.server_time for its in LabelLog(database).answers_after(1))
    first = datetime.fromtimestamp(next(asked) / 1000, UTC)
    if log:
        assert lines[0]["server_time"] == first


def test_truth_values_are_read_as_such(tmp_path: Path) -> None:
    """By all three, in a table that has some."""
    duckdb = pytest.importorskip("duckdb", reason=NOT_INSTALLED)
    polars = pytest.importorskip("polars", reason=NOT_INSTALLED)
    from closecall.storage.tabular import Column, write_table

    for form, suffix in FORMATS.items():
        file = tmp_path / f"truths{suffix}"
        columns = [Column("item", "whole"), Column("held_out", "truth")]
        with file.open("wb") if form == "parquet" else file.open("w", newline="") as out:
            write_table(columns, [(1, True), (2, False), (3, None)], out, form)  # type: ignore[arg-type]
        assert duckdb.sql(f"SELECT held_out FROM '{file}'").fetchall() == [(True,), (False,), (None,)]
        read: Any = {"csv": polars.read_csv, "jsonl": polars.read_ndjson, "parquet": polars.read_parquet}
        assert read[form](file)["held_out"].to_list() == [True, False, None]


@pytest.mark.parametrize("form", FORMATS)
def test_datasets(database: Database, files: dict[str, Path], log: bool, form: str, tmp_path: Path) -> None:
    """Hugging Face's library reads each table, without the network."""
    datasets = pytest.importorskip("datasets", reason=NOT_INSTALLED)
    kind = {"csv": "csv", "jsonl": "json", "parquet": "parquet"}[form]
    table = datasets.load_dataset(
        kind, data_files=str(files[form]), split="train", cache_dir=str(tmp_path / "cache")
    )
    clean = unguarded if form == "csv" else str
    assert [clean(name) for name in table["name"]] == expected_names(database, log)
    assert table.features["item"].dtype == "int64"


def test_imagefolder_reads_the_classes(database: Database, tmp_path: Path) -> None:
    """From the folders of labels, whatever folders the images were in."""
    datasets = pytest.importorskip("datasets", reason=NOT_INSTALLED)
    exported = export_folder(database, pool(), None, tmp_path / "sorted")
    table = datasets.load_dataset(
        "imagefolder", data_dir=str(tmp_path / "sorted"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert table.features["label"].names == ["no", "yes"]
    counts = {name: table["label"][:].count(number) for number, name in enumerate(["no", "yes"])}
    assert counts == exported.files


@pytest.mark.thorough
@pytest.mark.parametrize("bom", [False, True], ids=["plain", "bom"])
def test_libreoffice(database: Database, log: bool, bom: bool, tmp_path: Path) -> None:
    """It reads CSV as UTF-8, and keeps letters, whole numbers, and cells that look like formulas.

    Its dialog proposes UTF-8 by itself for a file with a byte order mark; without a window there is no
    dialog, so that it has to be told. The mark doesn't become part of the first column's name.
    """
    office = shutil.which("soffice") or shutil.which("libreoffice")
    if office is None:
        pytest.skip("LibreOffice is not installed")
    file, utf_8 = tmp_path / "table.csv", "Text - txt - csv (StarCalc):44,34,76,1"
    with file.open("w", encoding="utf-8", newline="") as out:
        export(database, out, log=log, names_of=lambda items: names_of(pool(), items), bom=bom)
    assert (file.read_bytes()[:3] == codecs.BOM_UTF8) is bom
    options = [f"-env:UserInstallation=file://{tmp_path / 'profile'}", "--headless", f"--infilter={utf_8}"]
    target = ["--convert-to", f"csv:{utf_8}", "--outdir", tmp_path / "out"]
    subprocess.run([office, *options, *target, file], check=True, capture_output=True, timeout=240)
    with file.open(encoding="utf-8-sig", newline="") as stream:
        columns = next(csv.reader(stream))
    with (tmp_path / "out" / "table.csv").open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert list(lines[0]) == columns
    read = [unguarded(line["name"]).replace("\r\n", "\n") for line in lines]
    expected = [name.replace("\r\n", "\n") for name in expected_names(database, log)]
    kept = [number for number, name in enumerate(expected) if not set("\r\t") & set(name)]
    assert [read[number] for number in kept] == [expected[number] for number in kept]
    assert all(int(line[column]) >= 0 for line in lines for column in whole_of(log) if line[column])
    assert {line["concept"] for line in lines} == {"Möwe 🐦"}
    if log:
        assert {line["annotator"] for line in lines} == {"Zoë"}
    else:
        assert all(json.loads(line["answers"])[0]["annotator"] == "Zoë" for line in lines)
