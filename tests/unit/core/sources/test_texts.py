"""Texts: the same numbers as scikit-learn's, and every way in which they lie on the disk."""

from __future__ import annotations

import json
import shutil
import tarfile
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.pool.build import build
from closecall.core.sources import Newsgroups, TextFolder, TextTable, source_from
from closecall.core.sources.vocabulary import Vocabulary

TEXTS = [
    "The cat sat on the mat. THE END",
    "Ähnlich, naïve & 東京 words_with_underscores; a b c",
    "numbers 12 345 and the cat's tail",
    "tail tail tail of the end",
]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Forty texts of two classes."""
    rng = np.random.default_rng(0)
    for i in range(40):
        file = tmp_path / "texts" / ("ant" if i % 2 else "bee") / f"{i}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(" ".join(f"w{number}" for number in rng.integers(0, 99, 30)))
    return tmp_path / "texts"


def test_words_and_weights_are_those_of_scikit_learn() -> None:
    """Tokens, order of the vocabulary, tf·idf of known and of other texts, unit norm."""
    reference = TfidfVectorizer().fit(TEXTS)
    words = Vocabulary.of(TEXTS)
    assert list(words.words) == reference.get_feature_names_out().tolist()
    for texts in (TEXTS, ["the dog", "cat cat mat"]):
        X = words.rows(texts).toarray()
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        assert np.abs(X - reference.transform(texts).toarray()).max() < 1e-6
    assert words.mean_entries == pytest.approx(words.rows(TEXTS).nnz / 4)


def test_a_vocabulary_comes_back_from_the_disk_or_says_why_not(tmp_path: Path) -> None:
    """With all its words and numbers."""
    words = Vocabulary.of(TEXTS)
    words.save(tmp_path / "v.npz")
    again = Vocabulary.load(tmp_path / "v.npz")
    assert (again.words, again.n_texts, again.digest) == (words.words, 4, words.digest)
    (tmp_path / "v.npz").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"v\.npz is damaged: build the pool again"):
        Vocabulary.load(tmp_path / "v.npz")
    with pytest.raises(InputError, match=r"w\.npz is missing: build the pool again"):
        Vocabulary.load(tmp_path / "w.npz")


def test_a_folder_of_texts(folder: Path) -> None:
    """Classes by subfolder, a tenth held out, texts as they are in the files."""
    source = source_from(f"texts:{folder}")
    assert isinstance(source, TextFolder)
    assert (len(source), source.classes, len(source.held_out())) == (40, ("ant", "bee"), 4)
    for item in range(40):
        file = folder / source.name(item)
        assert source.text(item) == file.read_text()
        assert source.classes[source.truth(np.array([item]))[0]] == file.parent.name


def test_texts_take_little_memory(tmp_path: Path) -> None:
    """A file that is too long is not read, and the vocabulary needs one text at a time."""
    for i in range(40):
        (tmp_path / f"{i}.txt").write_text("a" * 1_000_000)
    with (tmp_path / "dump.txt").open("wb") as dump:
        dump.truncate(300_000_000)
    source = TextFolder(tmp_path)
    item = source.names(np.arange(41)).index("dump.txt")
    tracemalloc.start()
    try:
        assert source.vocabulary.n_texts == 40
        assert source.problem(item).reason == "it has 300,000,000 bytes, but at most 5,000,000 are read"
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_texts_that_cannot_be_read_are_problems(folder: Path, tmp_path: Path) -> None:
    """Empty, binary, huge, wordless and vanished ones; Latin-1 is read."""
    bad = {
        "empty.txt": (b" \n", "it is empty"),
        "binary.txt": (b"\x00\x01", "zero bytes"),
        "huge.txt": (b"word " * 1_000_001, "at most 5,000,000 are read"),
        "dashes.txt": (b"- - -", "no word of the pool's vocabulary"),
        "gone.txt": (b"here", "can't be read"),
    }
    for name, (raw, _) in bad.items():
        (folder / name).write_bytes(raw)
    (folder / "latin.txt").write_bytes("naïve café".encode("latin-1"))
    source = TextFolder(folder)
    source.n_features  # noqa: B018 (now the vocabulary is known)
    (folder / "gone.txt").unlink()
    pool = build(source, tmp_path / "pool")
    found = {problem.name: problem.reason for problem in pool.problems()}
    assert set(found) == set(bad)
    for name, (_, words) in bad.items():
        assert words in found[name]
    names = source.names(np.arange(len(source)))
    assert source.text(names.index("latin.txt")) == "naïve café"
    with pytest.raises(
        InputError, match=r"binary\.txt in Texts in texts can't be shown: it contains zero bytes"
    ):
        source.text(names.index("binary.txt"))
    assert source.image(0, 40).size == (40, 40)


def test_a_pool_of_texts_grows_with_its_folder(folder: Path, tmp_path: Path) -> None:
    """New files come last, words and held-out items stay."""
    young = build(source_from(f"texts:{folder}"), tmp_path / "pool")
    (folder / "ant" / "new.txt").write_text("w1 w2 unheard")
    grown = build(source_from(f"texts:{folder}"), tmp_path / "pool")
    assert len(grown) == len(young) + 1
    assert grown.source.name(40) == "ant/new.txt"
    assert "unheard" not in grown.source.vocabulary.words
    assert np.array_equal(grown.held_out.ids, young.held_out.ids)


def newsgroups(root: Path) -> Path:
    for part in ("20news-bydate-train", "20news-bydate-test"):
        for group in ("sci.space", "rec.autos"):
            for number in range(3):
                file = root / "news" / part / group / str(number)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(f"From: {part}\nSubject: {group}\n\ncaf\xe9 {number}".encode("latin-1"))
    return root / "news"


def test_newsgroups_by_date(tmp_path: Path) -> None:
    """Training postings first, the test postings held out, headers kept; the archive is the same."""
    root = newsgroups(tmp_path)
    source = Newsgroups(root)
    assert (len(source), source.classes) == (12, ("rec.autos", "sci.space"))
    assert source.held_out().tolist() == [6, 7, 8, 9, 10, 11]
    for item in range(12):
        _, part, group, number = Path("/" + source.name(item)).parts
        assert source.text(item) == f"From: {part}\nSubject: {group}\n\ncafé {number}"
        assert source.classes[source.truth(np.array([item]))[0]] == group
    with tarfile.open(tmp_path / "news.tar.gz", "w:gz") as tar:
        tar.add(root / "20news-bydate-train", "20news-bydate-train")
        tar.add(root / "20news-bydate-test", "20news-bydate-test")
    packed = source_from(f"newsgroups:{tmp_path / 'news.tar.gz'}")
    items = np.arange(12)
    assert packed.names(items) == source.names(items)
    assert np.array_equal(compute(packed, items)[0].toarray(), compute(source, items)[0].toarray())
    shutil.rmtree(tmp_path / "cache")  # it is filled again
    assert [packed.text(item) for item in range(12)] == [source.text(item) for item in range(12)]
    with pytest.raises(InputError, match="has no folder 20news-bydate-train"):
        Newsgroups(tmp_path)
    with pytest.raises(InputError, match="there is no folder or archive"):
        Newsgroups(tmp_path / "nowhere")


ROWS = [{"id": i, "Text": text, "topic": "ab"[i % 2]} for i, text in enumerate(TEXTS * 10)]


def write(path: Path, rows: list[dict]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    elif path.suffix == ".parquet":
        pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        pa.csv.write_csv(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".csv"])
def test_tables_of_texts(tmp_path: Path, suffix: str) -> None:
    """Rows in their order; the columns that are named, or the usual ones."""
    path = write(tmp_path / f"t{suffix}", ROWS)
    plain = source_from(f"texts:{path}")
    assert isinstance(plain, TextTable)
    assert (len(plain), plain.classes, len(plain.held_out())) == (40, (), 0)
    assert [plain.text(item) for item in range(40)] == TEXTS * 10
    assert plain.name(3) == "row 4"
    named = source_from(f"texts:{path},Text,topic")
    assert (named.classes, len(named.held_out())) == (("a", "b"), 4)
    assert named.truth(np.arange(3)).tolist() == [0, 1, 0]


def test_a_table_grows_at_its_end_and_may_not_change(tmp_path: Path) -> None:
    """A pool of its first rows still opens, a grown one keeps words, classes and what is held out."""
    path = write(tmp_path / "t.jsonl", ROWS)
    young = build(source_from(f"texts:{path},Text,topic"), tmp_path / "pool")
    write(path, [*ROWS, {"id": 40, "Text": "the unheard", "topic": "c"}])
    assert len(young.source) == 40
    grown = build(source_from(f"texts:{path},Text,topic"), tmp_path / "pool")
    assert (len(grown), grown.classes) == (len(young) + 1, ("a", "b"))
    assert grown.truth([40]).tolist() == [-1]
    assert np.array_equal(grown.held_out.ids, young.held_out.ids)
    assert "unheard" not in grown.source.vocabulary.words
    write(path, ROWS[1:])
    with pytest.raises(InputError, match="no longer has the texts"):
        young.refreshed().prefix(1).source  # noqa: B018


CODES = ["001", "010", "1e3", "true", "", "caf\ufffd"]


def coded(path: Path, n: int, last_id: str) -> Path:
    """A table whose ids are numbers, but for the last one, with classes that look like numbers and others."""
    rows = [(str(i), TEXTS[i % 4], CODES[i % 6]) for i in range(n)]
    rows.append((last_id, TEXTS[0], CODES[0]))
    if path.suffix == ".csv":
        lines = [
            "id,text,code",
            *(",".join(f'"{cell}"' if "," in cell else cell for cell in r) for r in rows),
        ]
    else:
        lines = [
            f'{{"id": {i if i.isdigit() else json.dumps(i)}, "text": {json.dumps(text)}, '
            f'"code": {json.dumps(code)}}}'
            for i, text, code in rows
        ]
    path.write_bytes("\n".join(lines).replace("\ufffd", "\udce9").encode(errors="surrogateescape"))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_cells_are_read_as_they_are_written(tmp_path: Path, suffix: str) -> None:
    """Numbers keep their zeros. Other columns may have cells of any kind, also far from the first row."""
    n = 40_000
    source = source_from(f"texts:{coded(tmp_path / f't{suffix}', n, 'A17')},text,code")
    assert source.classes == tuple(sorted(code for code in CODES if code))
    assert [source.text(item) for item in (0, 1, n)] == [TEXTS[0], TEXTS[1], TEXTS[0]]
    some = np.array([0, 1, 2, 3, 4, 5, n])
    truth = [source.classes[place] if place >= 0 else "" for place in source.truth(some)]
    assert truth == [*CODES, CODES[0]]


def test_a_pool_of_guessed_types_keeps_them(tmp_path: Path) -> None:
    """It was built before cells were read as they are written. It opens and grows with the same classes."""
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["text,code", *(f'"{text}",{i % 2:03}' for i, text in enumerate(TEXTS * 5))]))
    former = TextTable(path, text="text", label="code", as_written=False)
    build(former, tmp_path / "pool")
    assert "as_written" not in former.spec()
    with path.open("a") as file:
        file.write("\nthe other cat,001")
    grown = build(source_from(f"texts:{path},text,code"), tmp_path / "pool")
    assert (grown.classes, len(grown.source)) == (("0", "1"), 21)
    assert grown.truth([20]).tolist() == [1]
    assert "as_written" not in grown.source.spec()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", "a,b\n1,2\n", "no column of texts"),
        ("t.csv,b,x", "a,b\n1,2\n", "no column 'x': choose one of a, b"),
        ("t.csv,b,a", "a,b\n1,2\n", "must have 2 to 1,000 classes, got 1"),
        ("t.jsonl", "{nonsense", "damaged, or no table"),
        ("t.parquet", "nonsense", "damaged, or no table"),
        ("t.csv", "text\n", "has no rows"),
        ("nowhere.csv", None, "there is no file"),
        ("nowhere", None, "there is no folder"),
    ],
)
def test_bad_tables_are_refused_in_one_sentence(
    tmp_path: Path, name: str, content: str | None, words: str
) -> None:
    """What is wrong is named."""
    if content is not None:
        (tmp_path / name.split(",")[0]).write_text(content)
    with pytest.raises(InputError, match=words) as caught:
        source_from(f"texts:{tmp_path / name}")
    assert "\n" not in str(caught.value)


def test_a_posting_stands_for_itself_by_its_subject(tmp_path: Path) -> None:
    """Its picture begins with the subject and the body; who sent it changes nothing."""
    root = newsgroups(tmp_path)
    for file in root.glob("*/*/*"):
        file.write_text(f"From: sender of {file.name}\nSubject: bees\nLines: 1\n\nthe body")
    source = Newsgroups(root)
    assert source.opening(source.text(0)) == "bees\nthe body"
    assert source.image(0, 88).tobytes() == source.image(1, 88).tobytes()


def test_texts_cannot_be_enlarged(folder: Path) -> None:
    """Their words don't shift."""
    with pytest.raises(InputError, match="Texts in texts contains texts, but only images can be enlarged"):
        source_from(f"enlarged:2:texts:{folder}")


def test_a_folder_without_texts_is_refused(tmp_path: Path) -> None:
    """Neither files nor words."""
    with pytest.raises(InputError, match=r"has no texts \(TXT, …\)"):
        TextFolder(tmp_path)
    (tmp_path / "a.txt").write_text("- - -")
    with pytest.raises(InputError, match="has no text with a word of two letters or more"):
        TextFolder(tmp_path).n_features  # noqa: B018
