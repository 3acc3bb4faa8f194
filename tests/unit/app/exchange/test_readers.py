"""Programs that people read tables with: pandas, polars, DuckDB, Hugging Face's datasets, and LibreOffice.

The first tests are about tables of labels and of the log, which have times. Tables of scores and of
near-duplicates have fractions and truth values.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import groupby, product
from pathlib import Path
from typing import Any

import pandas
import pytest

from closecall.app.exchange.class_folders import export_folder
from closecall.app.exchange.model import train_model
from closecall.app.exchange.offline_project import names_of
from closecall.app.sessions.new_project import NewProject
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from closecall.storage import Concepts, Database, LabelLog, export
from closecall.storage.tabular import unguarded
from tests.folders import fresh_folder
from tests.peers import libreoffice
from tests.projects import open_workspace
from tests.storage_kit import make_concept, sit_down
from tests.unit.app.cli.test_duplicates import photograph
from tests.unit.app.cli.test_main import run
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


@pytest.mark.parametrize("form", FORMATS)
def test_datasets(database: Database, files: dict[str, Path], log: bool, form: str, tmp_path: Path) -> None:
    """Hugging Face's library reads each table without the network; times in Parquet, or with a given type."""
    datasets = pytest.importorskip("datasets", reason=NOT_INSTALLED)
    kind = {"csv": "csv", "jsonl": "json", "parquet": "parquet"}[form]
    table = datasets.load_dataset(
        kind, data_files=str(files[form]), split="train", cache_dir=str(tmp_path / "cache")
    )
    clean = unguarded if form == "csv" else str
    assert [clean(name) for name in table["name"]] == expected_names(database, log)
    assert table.features["item"].dtype == "int64"
    for column in times_of(log):
        if form != "parquet":
            assert table.features[column].dtype in ("string", "large_string")
            table = table.cast_column(column, datasets.Value("timestamp[ms, tz=UTC]"))
        assert table.features[column].dtype == "timestamp[ms, tz=UTC]"
    if log:
        asked = LabelLog(database).answers_after(1)
        times = [datetime.fromtimestamp(its.server_time / 1000, UTC) for its in asked]
        assert table["server_time"][:] == times


def images_of(folder: Path) -> tuple[list[str], dict[str, int]]:
    """The classes of a folder for Hugging Face's `imagefolder`, and the number of images of each."""
    datasets = pytest.importorskip("datasets", reason=NOT_INSTALLED)
    table = datasets.load_dataset(
        "imagefolder", data_dir=str(folder), split="train", cache_dir=str(fresh_folder())
    )
    names: list[str] = table.features["label"].names
    labels = table["label"][:]
    return names, {name: labels.count(number) for number, name in enumerate(names)}


def test_imagefolder_reads_the_classes(database: Database, tmp_path: Path) -> None:
    """From the folders of labels, whatever folders the images were in."""
    exported = export_folder(database, pool(), None, tmp_path / "sorted")
    assert images_of(tmp_path / "sorted") == (["no", "yes"], exported.files)


def test_imagefolder_reads_the_classes_of_two_questions(tmp_path: Path) -> None:
    """Each class has its images, those of both classes are in both, and those of neither are none."""
    with empty_database() as database:
        classes = ("Möwe 🐦", "seal")
        people = [
            sit_down(database, Concepts(database).create(name, "Is it?", positive_class=name))
            for name in classes
        ]
        for item in range(15):
            for person, is_yes in zip(people, (item < 5, 3 <= item < 9), strict=True):
                person.says("yes" if is_yes else "no", item)
        people[0].says("no", 16)
        export_folder(database, pool(), None, tmp_path / "sorted")
    names, counts = images_of(tmp_path / "sorted")
    assert set(names) == {*classes, "none"}
    assert counts == {"Möwe 🐦": 5, "seal": 6, "none": 6}


COPIES, PATTERNS = 3, 8
MODEL = "Möwen-Netz"
SCORES = ("predict", "predictions")
TABLES = [*((table, form) for table in SCORES for form in FORMATS), ("duplicates", "csv")]
KINDS = {
    "predict": {"item": "whole", "name": "text", "score": "number", "predicted": "text", "label": "text"},
    "predictions": {"item": "whole", "name": "text", "score": "number", "predicted": "text"},
    "duplicates": {
        "group": "whole",
        "item": "whole",
        "name": "text",
        "degrees": "number",
        "held_out": "truth",
    },
}


@dataclass(frozen=True)
class Scored:
    """Tables of scores and near-duplicates as the commands write them, and what is in them."""

    files: dict[tuple[str, str], Path]
    lines: dict[str, list[dict[str, Any]]]
    held_out: set[str]


@pytest.fixture(scope="module")
def scored() -> Scored:
    """Three copies of each photograph in two classes, some held out, in files with letters and signs."""
    folder = fresh_folder()
    for pattern, copy in product(range(PATTERNS), range(COPIES)):
        file = folder / "photos" / ("=Möwe 🐦", "-Zoë")[pattern % 2] / f"{pattern} 'ß', {copy}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        photograph(pattern, 1 - copy / 33).save(file)
    made = build(source_from(str(folder / "photos")), folder / "pool")
    words = {int(item): "yes" if row % 2 else "no" for row, item in enumerate(made.ids[:6])}
    with open_workspace(folder / "projects") as workspace:
        project = workspace.project(workspace.create(NewProject(str(made.path), "Is it a gull?")))
        ada = sit_down(project.database, project.concepts()[0], "ada")
        for item, word in words.items():
            ada.says(word, item)
        plane = train_model(project.database, made, project.concepts()[0]).hyperplane
        there = project.folder
    files: dict[tuple[str, str], Path] = {}
    for table, form in TABLES:
        out = files[table, form] = folder / f"{table}{FORMATS[form]}"
        command: dict[str, list[object]] = {
            "predict": ["predict", there],
            "predictions": ["export", there, "--format", form, "--predictions", MODEL],
            "duplicates": ["pool", "duplicates", made.path, "--angle", 8, "--check"],
        }
        if (table, form) == ("predictions", "csv"):
            assert run("import", there, files["predict", "csv"], "--predictions", MODEL).exit_code == 0
        assert run(*command[table], "--out", out).exit_code == (table == "duplicates")
    scores = made.scores(plane).tolist()
    named = zip(made.ids.tolist(), names_of(made, made.ids), scores, strict=True)
    lines = [
        {
            "item": item,
            "name": name,
            "score": pytest.approx(score, rel=1e-5),
            "predicted": "yes" if score > 0 else "no",
            "label": words.get(item),
        }
        for item, name, score in named
    ]
    bare = [{key: line[key] for key in KINDS["predictions"]} for line in lines]
    held_out = set(made.source.names(made.held_out.ids))
    return Scored(files, {"predict": lines, "predictions": bare}, held_out)


Read = tuple[dict[str, str], list[dict[str, Any]]]


def with_pandas(file: Path, form: str) -> Read:
    read: Any = {
        "csv": pandas.read_csv,
        "jsonl": partial(pandas.read_json, lines=True),
        "parquet": pandas.read_parquet,
    }
    table = read[form](file)
    kinds = {"i": "whole", "f": "number", "b": "truth"}
    lines = table.astype(object).where(table.notna(), None).to_dict("records")
    return {name: kinds.get(table.dtypes[name].kind, "text") for name in table}, lines


def with_polars(file: Path, form: str) -> Read:
    polars = pytest.importorskip("polars", reason=NOT_INSTALLED)
    read: Any = {"csv": polars.read_csv, "jsonl": polars.read_ndjson, "parquet": polars.read_parquet}
    table = read[form](file)
    kinds = {"Int64": "whole", "Float64": "number", "Boolean": "truth", "String": "text"}
    return {name: kinds[str(kind)] for name, kind in table.schema.items()}, table.to_dicts()


def with_duckdb(file: Path, form: str) -> Read:
    """With the option for words that DuckDB takes for truth values, if the table has any."""
    duckdb = pytest.importorskip("duckdb", reason=NOT_INSTALLED)
    words = ", ".join(f"'{name}': 'VARCHAR'" for name in ("predicted", "label") if name in KINDS[file.stem])
    types = f", types = {{{words}}}" if words else ""
    table = duckdb.sql(f"FROM read_csv('{file}'{types})" if form == "csv" else f"FROM '{file}'")
    kinds = {"BIGINT": "whole", "DOUBLE": "number", "BOOLEAN": "truth", "VARCHAR": "text"}
    lines = [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]
    return {name: kinds[str(kind)] for name, kind in zip(table.columns, table.types, strict=True)}, lines


READERS: dict[str, Callable[[Path, str], Read]] = {
    "pandas": with_pandas,
    "polars": with_polars,
    "DuckDB": with_duckdb,
}


@pytest.mark.parametrize(("table", "form"), TABLES)
@pytest.mark.parametrize("reader", READERS)
def test_scores_and_near_duplicates(scored: Scored, reader: str, table: str, form: str) -> None:
    """Scores are numbers, marks are truth values, and names are the names."""
    kinds, lines = READERS[reader](scored.files[table, form], form)
    assert kinds == KINDS[table]
    if form == "csv":
        lines = [{**line, "name": unguarded(line["name"])} for line in lines]
    if table in SCORES:
        assert lines == scored.lines[table]
    else:
        are_near_duplicates(scored, lines)


def are_near_duplicates(scored: Scored, lines: Sequence[dict[str, Any]]) -> None:
    """The copies of each photograph are a group, with their angles, and those held out are marked."""
    groups = [list(its) for _, its in groupby(lines, key=lambda line: line["group"])]
    assert len(groups) == PATTERNS
    for group in groups:
        patterns = {line["name"].partition("/")[2].partition(" ")[0] for line in group}
        assert (len(group), len(patterns)) == (COPIES, 1)
        assert all(0 <= line["degrees"] <= 8 for line in group)
    assert {line["name"]: line["held_out"] for line in lines} == {
        line["name"]: line["name"] in scored.held_out for line in lines
    }
    assert 0 < len(scored.held_out) < len(lines)


@pytest.fixture(scope="module")
def office() -> Path:
    return libreoffice.PROGRAM.needed()


@pytest.mark.thorough
@pytest.mark.parametrize("bom", [False, True], ids=["plain", "bom"])
def test_libreoffice(office: Path, database: Database, log: bool, bom: bool, tmp_path: Path) -> None:
    """Numbers are numbers, texts keep their letters, and no cell is a formula; with --bom, times are times.

    The byte order mark doesn't become part of the first column's name.
    """
    file = tmp_path / "table.csv"
    with file.open("w", encoding="utf-8", newline="") as out:
        export(database, out, log=log, names_of=lambda items: names_of(pool(), items), bom=bom)
    assert (file.read_bytes()[:3] == codecs.BOM_UTF8) is bom
    heading, *rows = libreoffice.cells(office, file)
    with file.open(encoding="utf-8-sig", newline="") as stream:
        columns, *written = csv.reader(stream)
    assert [text for _, text in heading] == columns
    assert len(rows) == len(written)
    for place, column in enumerate(columns):
        kinds = {kind for kind, _ in (row[place] for row in rows) if kind}
        if column in times_of(log):
            assert kinds == {"date" if bom else "string"}
        elif column in whole_of(log):
            assert kinds == {"float"}
        elif column in ("concept", "name", "label", "status", "answers", "answer", "annotator"):
            assert kinds == {"string"}
        read = [row[place][1] for row in rows]
        expected = [line[place] for line in written]
        if column == "name":
            assert list(map(unguarded, expected)) == expected_names(database, log)
        if kinds == {"float"}:
            assert [text and float(text) for text in read] == [text and float(text) for text in expected]
        else:
            kept = [row for row, text in enumerate(expected) if not {"\r", "\n"} & set(text)]
            assert [read[row] for row in kept] == [expected[row] for row in kept]


@pytest.mark.thorough
@pytest.mark.parametrize("table", ["predict", "duplicates"])
def test_libreoffice_reads_scores_and_marks(office: Path, scored: Scored, table: str) -> None:
    """Scores are numbers, and marks are truth values."""
    heading, *rows = libreoffice.cells(office, scored.files[table, "csv"])
    kinds = {"whole": "float", "number": "float", "text": "string", "truth": "boolean"}
    for place, (column, kind) in enumerate(KINDS[table].items()):
        assert heading[place][1] == column
        assert {row[place][0] for row in rows} - {""} == {kinds[kind]}
    lines = [dict(zip(KINDS[table], (text for _, text in row), strict=True)) for row in rows]
    names = [unguarded(line["name"]) for line in lines]
    if table == "duplicates":
        held_out = {name for name, line in zip(names, lines, strict=True) if line["held_out"] == "TRUE"}
        assert held_out == scored.held_out
    else:
        assert names == [line["name"] for line in scored.lines[table]]
        assert [float(line["score"]) for line in lines] == [line["score"] for line in scored.lines[table]]
