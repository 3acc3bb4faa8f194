"""The commands for tokens."""

from __future__ import annotations

import re

from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.storage.tokens import Tokens


def run(*words: object):
    return CliRunner().invoke(main, ["token", *map(str, words)])


def test_a_token_is_shown_once_listed_and_revoked_while_the_project_is_served(project):
    made = run("create", project.folder, "--name", "Ada", "--scope", "read", "--note", "export", "--days", 3)
    text = made.stdout.strip()
    assert re.fullmatch(r"cc_[\w-]{43}", text)
    record = Tokens(project.database).find(text)
    assert record is not None
    assert (record.annotator, record.scope, record.note) == ("Ada", "read", "export")
    listed = run("list", project.folder).stdout
    assert text not in listed
    assert listed.startswith("1: Ada, read, export, expires on 20")
    assert run("revoke", project.folder, 1).exit_code == 0
    assert Tokens(project.database).find(text) is None
    assert "revoked on 20" in run("list", project.folder).stdout


def test_an_address_is_written_as_sign_in_writes_it(project):
    run("create", project.folder, "--name", "Ada@Example.org")
    assert Tokens(project.database).all()[0].annotator == "ada@example.org"


def test_mistakes_get_one_sentence(project, tmp_path):
    for words in (
        ("create", project.folder, "--name", ""),
        ("create", project.folder, "--name", "autopilot"),
        ("create", tmp_path / "nothing", "--name", "ada"),
        ("revoke", project.folder, 7),
    ):
        failed = run(*words)
        assert failed.exit_code == 2, words
        assert failed.stderr.startswith("Error: ")
        assert failed.stderr.count("\n") == 1
