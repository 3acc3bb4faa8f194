"""Find the annotator of each user of Label Studio, by the number or e-mail address in a file."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from closecall.app.projects.roles import name_given
from closecall.core.errors import InputError
from closecall.storage.label_studio_reading import Survey

_PAIR = re.compile(r"\s*([^=]*?)\s*=\s*(.*?)\s*")


def users_given(pairs: Sequence[str]) -> dict[str, str]:
    """Return the annotators by user, parsed from words such as "3=berta".

    Raises
    ------
    InputError
        If a word has another form, or if the name is not allowed for an annotator.
    """
    found = {}
    for pair in pairs:
        parts = _PAIR.fullmatch(pair)
        if parts is None or not (parts[1].isdecimal() or "@" in parts[1]):
            raise InputError(
                f"--user must be a number or an e-mail address and a name, as in 3=berta, got {pair}"
            )
        found[parts[1]] = name_given(parts[2])
    return found


def annotators_of(survey: Survey, known: Mapping[str, str], file: Path) -> dict[str, str]:
    """Return the annotator of each user in a file. Unknown users are named by their e-mail addresses.

    Parameters
    ----------
    survey : Survey
        The users in the file.
    known : mapping
        Annotators by the number or the e-mail address of a user.
    file : Path
        The file, for the message.

    Raises
    ------
    InputError
        If the file does not have the e-mail address of an unknown user.
    """
    found = {user: _named(user, email, known) for user, email in survey.users.items()}
    if missing := sorted(user for user, name in found.items() if not name):
        options = " ".join(f"--user {user}=NAME" for user in missing)
        users = f"user {missing[0]}" if len(missing) == 1 else f"users {', '.join(missing)}"
        raise InputError(f"{file} has answers of {users} of Label Studio: say who that is, with {options}")
    return found


def ask_for_users(survey: Survey, known: Mapping[str, str]) -> dict[str, str]:
    """Ask at the terminal for the annotators of unknown users; return {} if there is no terminal."""
    if not sys.stdin.isatty():
        return {}
    missing = [user for user, email in survey.users.items() if not _named(user, email, known)]
    return {
        user: click.prompt(f"Which annotator is user {user} of Label Studio", value_proc=_typed)
        for user in missing
    }


def _typed(text: str) -> str:
    """Return a typed name. A name that is not allowed is asked for again."""
    try:
        return name_given(text)
    except InputError as error:
        raise click.UsageError(str(error)) from None


def _named(user: str, email: str, known: Mapping[str, str]) -> str:
    return known.get(user) or known.get(email) or email or (user if "@" in user else "")
