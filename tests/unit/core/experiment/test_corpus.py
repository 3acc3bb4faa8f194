from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.core.errors import InputError
from closecall.core.experiment import corpus as corpora
from closecall.core.experiment.corpus import Corpus
from closecall.core.experiment.planes import SINGLE_SETTINGS, one_vs_all, single_planes
from closecall.core.experiment.simulation import sessions
from closecall.core.pool.build import build
from closecall.core.selection import make_strategy
from tests.fakes import FakeSource


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    source = FakeSource(600, 6, classes=("a", "b", "c"), held_out=range(0, 600, 9))
    return build(source, tmp_path_factory.mktemp("corpus") / "pool")


@pytest.fixture(scope="module")
def corpus(pool):
    return Corpus.make(pool, 2, 9, 4, noise=0.25, seed=2)


def facts(planes):
    """Everything there is to know about some planes."""
    return [
        (p.hyperplane.digest, p.labeled.tolist(), p.positive, p.setting, p.session, p.round) for p in planes
    ]


def run(*words: object):
    return CliRunner().invoke(main, ["bench", "planes", *(str(word) for word in words)])


def refused(*words: object) -> str:
    """Run the command, which must fail with one sentence and exit code 2; the sentence."""
    result = run(*words)
    assert result.exit_code == 2, result.output
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    return last.removeprefix("Error: ")


def test_it_is_made_of_single_hyperplanes_and_sessions(pool, corpus):
    """A corpus holds what `single_planes` and `sessions` give for the same seed, and knows its pool."""
    parts = [*single_planes(pool, 2, seed=2), *sessions(pool, 9, 4, noise=0.25, seed=2)]
    assert facts(corpus.planes) == facts(parts)
    assert corpus.pool_digest == pool.digest


def test_a_strategy_may_ask_in_its_sessions(pool, tmp_path):
    """After as many labels as are given; the corpus says so."""
    out = tmp_path / "corpus.npz"
    words = ("--singles", 0, "--sessions", 4, "--rounds", 3, "--noise", 0)
    said = run("--pool", pool.path, "--out", out, *words, "--strategy", "random", "--before", 40)
    assert said.exit_code == 0, said.output
    assert "sessions: C=1, unweighted, after 40 labels" in said.output
    strategy = make_strategy("random").fit(pool)
    expected = sessions(pool, 4, 3, strategy=strategy, n_before=40, noise=0)
    assert facts(Corpus.load(out, pool).planes) == facts(expected)
    assert refused("--pool", pool.path, "--out", out, "--strategy", "nearest").startswith("strategy must be")


def test_settings_part_a_corpus(corpus):
    """Every plane is in exactly one setting, the single ones' first; a strange one is refused."""
    assert corpus.settings[:19] == [str(setting) for setting in SINGLE_SETTINGS]
    assert corpus.settings[19:] == [
        "sessions: C=1, unweighted",
        "sessions: C=10, balanced",
        "sessions: C=10, unweighted",
        "sessions: C=1, balanced",
        "sessions: C=1, unweighted, 25 % wrong",
    ]
    parts = [plane for setting in corpus.settings for plane in corpus.of(setting)]
    assert len(parts) == len(corpus.planes) == 2 * 19 + 9 * 4
    assert sorted(facts(parts)) == sorted(facts(corpus.planes))
    with pytest.raises(InputError, match=r"setting must be one of C=1, unweighted, 5 a class; .*, got 'C=2'"):
        corpus.of("C=2")


def test_a_settings_planes_come_by_session_and_round(corpus):
    """Whatever order a corpus has them in, `of` gives session after session, round after round."""
    rng = np.random.default_rng(0)
    mixed = Corpus([corpus.planes[i] for i in rng.permutation(len(corpus.planes))], corpus.pool_digest)
    planes = mixed.of("sessions: C=1, unweighted")
    assert [(p.session, p.round) for p in planes] == [(s, r) for s in (0, 4) for r in range(4)]


def test_saved_and_loaded_it_is_the_same(pool, corpus, tmp_path):
    """Every bit of every hyperplane comes back, with its labels, its setting and its place."""
    corpus.save(tmp_path / "corpus.npz")
    loaded = Corpus.load(tmp_path / "corpus.npz", pool)
    assert facts(loaded.planes) == facts(corpus.planes)
    assert loaded.settings == corpus.settings
    assert loaded.pool_digest == corpus.pool_digest
    assert {plane.labeled.dtype for plane in loaded.planes} == {np.dtype(np.int64)}
    assert list(tmp_path.iterdir()) == [tmp_path / "corpus.npz"]


def test_an_empty_corpus_is_one(pool, tmp_path):
    """No hyperplanes at all are saved and loaded like any others."""
    Corpus([], pool.digest).save(tmp_path / "corpus.npz")
    assert Corpus.load(tmp_path / "corpus.npz", pool).planes == []


def test_damage_is_noticed(pool, tmp_path):
    """A byte changed anywhere, or an end cut off, is refused, unless it changes nothing that is read."""
    small = Corpus(one_vs_all(pool, 2), pool.digest)
    path = tmp_path / "corpus.npz"
    small.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    said: list[str] = []
    for place in rng.choice(len(whole), 300, replace=False).tolist():
        path.write_bytes(
            whole[:place] + bytes([whole[place] ^ int(rng.integers(1, 256))]) + whole[place + 1 :]
        )
        try:
            assert facts(Corpus.load(path, pool).planes) == facts(small.planes)
        except InputError as error:
            said.append(str(error))
    assert len(said) > 100
    assert set(said) == {f"{path} is damaged: make it again with closecall bench planes"}
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="is damaged"):
            Corpus.load(path, pool)


def test_another_file_is_no_corpus(pool, tmp_path):
    """Arrays that someone else saved, text and folders are refused in a sentence."""
    path = tmp_path / "other.npz"
    np.savez(path, labeled=np.arange(3))
    with pytest.raises(InputError, match=r"other\.npz is damaged"):
        Corpus.load(path, pool)
    np.savez(path, format=np.array([object()], dtype=object))
    with pytest.raises(InputError, match=r"other\.npz is damaged"):
        Corpus.load(path, pool)
    path.write_text("no arrays")
    with pytest.raises(InputError, match=r"other\.npz is damaged"):
        Corpus.load(path, pool)
    for nothing in (tmp_path, tmp_path / "nowhere.npz"):
        with pytest.raises(InputError, match=f"there is no corpus of hyperplanes at {nothing}"):
            Corpus.load(nothing, pool)


def test_another_pool_is_refused(pool, corpus, tmp_path):
    """A corpus belongs to exactly the rows that it was made for: no other pool, nor a part of its own."""
    path = tmp_path / "corpus.npz"
    corpus.save(path)
    other = build(FakeSource(600, 6, seed=1, classes=("a", "b", "c")), tmp_path / "other")
    for wrong in (other, pool.prefix(len(pool) - 1)):
        with pytest.raises(InputError, match=rf"{path} was made for another pool than {wrong.path}"):
            Corpus.load(path, wrong)


def test_a_newer_format_is_refused(pool, corpus, tmp_path, monkeypatch):
    """What a later version wrote is not guessed at."""
    monkeypatch.setattr(corpora, "FORMAT", corpora.FORMAT + 1)
    corpus.save(tmp_path / "corpus.npz")
    monkeypatch.undo()
    with pytest.raises(InputError, match="has format 2, and 1 is the newest known"):
        Corpus.load(tmp_path / "corpus.npz", pool)


def test_a_failed_save_leaves_what_was_there(pool, corpus, tmp_path, monkeypatch):
    """The file is replaced in one step or not at all."""
    path = tmp_path / "corpus.npz"
    corpus.save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="is full"):
        Corpus([], pool.digest).save(path)
    assert path.read_bytes() == before
    with pytest.raises(InputError, match="cannot be written"):
        corpus.save(tmp_path / "nowhere" / "corpus.npz")


def test_the_command_makes_a_corpus(pool, tmp_path):
    """`bench planes` saves what its options ask for and shows every setting; again, the same bytes."""
    words = (
        "--pool",
        pool.path,
        "--singles",
        2,
        "--sessions",
        9,
        "--rounds",
        4,
        "--noise",
        0.25,
        "--seed",
        2,
    )
    result = run(*words, "--out", tmp_path / "one.npz")
    assert result.exit_code == 0, result.output
    made = Corpus.load(tmp_path / "one.npz", pool)
    assert facts(made.planes) == facts(Corpus.make(pool, 2, 9, 4, noise=0.25, seed=2).planes)
    for setting in made.settings:
        assert f"{setting}  " in result.output
    assert "74 hyperplanes in" in result.output
    run(*words, "--out", tmp_path / "two.npz")
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_the_table_says_where_hyperplanes_lie(pool, tmp_path):
    """Its wᵀx and its share of yes are those of all items and all labels."""
    out = tmp_path / "corpus.npz"
    result = run("--pool", pool.path, "--out", out, "--singles", 3, "--sessions", 0)
    assert result.exit_code == 0, result.output
    X = pool.rows_of(pool.ids)
    lines = {line[: line.index("  ")]: line.split() for line in result.output.splitlines() if "±" in line}
    corpus = Corpus.load(out, pool)
    assert list(lines) == corpus.settings
    for setting in corpus.settings:
        planes = corpus.of(setting)
        scores = np.array([plane.hyperplane.scores(X) for plane in planes])
        labels = np.concatenate([pool.truth(plane.labeled) == plane.positive for plane in planes])
        count, n_labels, yes, _, mean, _, spread = lines[setting][-7:]
        assert (int(count), int(n_labels)) == (3, len(labels) // 3)
        assert float(yes) == pytest.approx(100 * labels.mean(), abs=0.51)
        assert float(mean) == pytest.approx(scores.mean(), abs=0.0051)
        assert float(spread) == pytest.approx(scores.std(axis=1).mean(), abs=0.0051)


def test_the_command_refuses_bad_input(pool, tmp_path, monkeypatch):
    """Each mistake is one sentence and exit code 2, before anything is trained or written."""
    out = tmp_path / "corpus.npz"
    assert "nowhere" in refused("--pool", tmp_path / "nowhere", "--out", out)
    sentence = refused("--pool", pool.path, "--out", tmp_path / "nowhere" / "corpus.npz")
    assert sentence.startswith("--out must be a file in a folder that there is")
    sentence = refused("--pool", pool.path, "--out", out, "--singles", 0, "--sessions", 0)
    assert sentence == "--singles and --sessions are both 0: there is nothing to make"
    assert "--noise" in refused("--pool", pool.path, "--out", out, "--noise", 1.5)
    assert "items, the pool" in refused("--pool", pool.path, "--out", out, "--singles", 0, "--rounds", 999)
    unknown = build(FakeSource(50, 4, classes=()), tmp_path / "unknown")
    assert "of known truth" in refused("--pool", unknown.path, "--out", out)
    monkeypatch.setattr("closecall.core.pool.pool.Pool.open", lambda _: pool.prefix(500))
    assert "is still being built" in refused("--pool", pool.path, "--out", out)
    assert not out.exists()
