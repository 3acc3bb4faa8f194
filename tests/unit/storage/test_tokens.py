"""Tokens and secrets: only digests are stored, and a backup tells no secret."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from closecall.storage import Database, StorageError, backup, restore
from closecall.storage.secret import shared_secret
from closecall.storage.tokens import Tokens


@pytest.fixture
def database(tmp_path: Path):
    with Database.open(tmp_path / "labels.db", create=True) as database:
        yield database


def test_the_text_of_a_token_is_nowhere_in_the_database(database, tmp_path):
    _, text = Tokens(database).create("ada", "own", note="export")
    database.close()
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert text.encode() not in content
    assert b"export" in content


def test_a_token_is_found_by_its_text_only(database):
    tokens = Tokens(database)
    made = [tokens.create(name, "label") for name in ("ada", "bob")]
    assert [tokens.find(text) for _, text in made] == [record for record, _ in made]
    for text in ("", "cc_", made[0][1][:-1], made[0][1] + "x", made[0][1].upper(), "x" * 10_000, "cc_\0"):
        assert tokens.find(text) is None
    assert tokens.all() == [record for record, _ in made]


def test_a_scope_includes_those_before_it(database):
    own, label, read = (Tokens(database).create("ada", scope)[0] for scope in ("own", "label", "read"))
    wanted = {"read": (own, label, read), "label": (own, label), "own": (own,)}
    for scope, permitted in wanted.items():
        assert [one for one in (own, label, read) if one.permits(scope)] == list(permitted)


@pytest.mark.parametrize(
    ("name", "scope", "more"),
    [
        ("", "read", {}),
        ("x" * 201, "read", {}),
        ("ada", "everything", {}),
        ("ada", "read", {"note": "x" * 201}),
        ("ada", "read", {"expires": 1}),
    ],
)
def test_what_makes_no_sense_makes_no_token(database, name, scope, more):
    with pytest.raises(StorageError) as refused:
        Tokens(database).create(name, scope, **more)
    assert refused.value.kind == "invalid"
    assert Tokens(database).all() == []


def test_an_unknown_token_cannot_be_revoked(database):
    with pytest.raises(StorageError) as refused:
        Tokens(database).revoke(7)
    assert refused.value.kind == "missing"


def test_a_secret_is_made_once(database):
    first = shared_secret(database, "pages")
    assert len(first) == 32
    assert shared_secret(database, "pages") == first
    assert shared_secret(database, "others") != first


def test_a_backup_has_tokens_but_no_secret(database, tmp_path):
    secret, (record, text) = shared_secret(database, "pages"), Tokens(database).create("ada", "read")
    copy = backup(tmp_path / "labels.db", tmp_path / "copy.db")
    assert secret not in copy.read_bytes()
    with sqlite3.connect(copy) as connection:
        assert connection.execute("SELECT COUNT(*) FROM secrets").fetchone() == (0,)
    restore(copy, tmp_path / "restored.db")
    with Database.open(tmp_path / "restored.db") as restored:
        assert Tokens(restored).find(text) == record
        assert shared_secret(restored, "pages") != secret
