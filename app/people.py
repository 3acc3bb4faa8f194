"""Who is at the page, and what they may do; how they signed in is the pages' business.

On the own machine a name is taken at its word, and nobody has to give one: who labels alone is `SOMEBODY`.
Where the server has signing in (OpenID Connect), the name is the one that the provider vouches for.

An annotator labels, and reviews and corrects their own answers. An owner makes projects and questions,
changes what concerns everybody, puts away, decides where people disagree, and sees everybody's pace. Where
no owner is named and nobody has to sign in, everybody is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from app.autopilot import AUTOPILOT
from core.errors import InputError
from storage.models import MAX_NAME

SOMEBODY = "annotator"
"""The name of whoever did not give one."""

LONGEST_NAME = min(MAX_NAME, 80)


@dataclass(frozen=True)
class Person:
    """Somebody at the page, as far as one project goes.

    Parameters
    ----------
    name : str
        Under which answers are stored.
    is_owner : bool
    """

    name: str
    is_owner: bool = False

    def owns(self, annotator: str) -> bool:
        """Whether a session of this annotator is theirs; the autopilot's is every owner's."""
        return annotator == self.name or (self.is_owner and annotator == AUTOPILOT)

    def require_owner(self, what: str) -> None:
        """Make sure that they may do `what`.

        Raises
        ------
        InputError
            If they are no owner.
        """
        if not self.is_owner:
            raise InputError(f"Only an owner may {what}, and {self.name} is none here")


OPERATOR = Person("operator", is_owner=True)
"""Whoever runs the program, at its command line."""


@dataclass(frozen=True)
class Roles:
    """Who may do what.

    Parameters
    ----------
    owners : frozenset of str
        Names, as they are compared; see `Roles.of`.
    annotators : frozenset of str
        Who else may enter; all, if nobody is named. "@example.org" stands for all names that end so.
    must_sign_in : bool
        Whether names are vouched for: then nobody is an owner unless named.
    """

    owners: frozenset[str] = frozenset()
    annotators: frozenset[str] = frozenset()
    must_sign_in: bool = False

    @classmethod
    def of(
        cls, owners: Iterable[str] = (), annotators: Iterable[str] = (), *, must_sign_in: bool = False
    ) -> Roles:
        """From names as people write them: capitals don't matter."""
        return cls(frozenset(map(_key, owners)), frozenset(map(_key, annotators)), must_sign_in)

    def joined(self, owners: Iterable[str], annotators: Iterable[str]) -> Roles:
        """With these, too: those of a project beside those of the server."""
        more = Roles.of(owners, annotators)
        return Roles(self.owners | more.owners, self.annotators | more.annotators, self.must_sign_in)

    @property
    def are_named(self) -> bool:
        """Whether anybody is named: then nobody labels without a name."""
        return bool(self.owners or self.annotators)

    def person(self, name: str) -> Person:
        """Who bears this name.

        Raises
        ------
        InputError
            If they may not enter.
        """
        key = _key(name)
        everybody = not self.owners and not self.must_sign_in
        is_owner = everybody or key in self.owners
        domain = "@" + key.rpartition("@")[2] if "@" in key else key
        if not is_owner and self.annotators and not self.annotators & {key, domain}:
            raise InputError(f"{name} may not enter here: ask an owner")
        return Person(name, is_owner)


def name_given(text: str) -> str:
    """The name that somebody typed, fit for the log.

    Raises
    ------
    InputError
        If it is no name.
    """
    name = " ".join(text.split())
    if not name or not name.isprintable():
        raise InputError("Type a name that can be read")
    if len(name) > LONGEST_NAME:
        raise InputError(f"A name has at most {LONGEST_NAME} characters, this one has {len(name)}")
    if _key(name) == AUTOPILOT:
        raise InputError(f"{name!r} is the simulated annotator: take another name")
    return name


def name_vouched_for(user: Mapping[str, Any]) -> str:
    """What the provider's identity token calls a person: the e-mail, unless it says that it did not check it.

    Then it is the subject, unless that passes for somebody's address: at some providers people choose it.

    Raises
    ------
    InputError
        If it tells nothing that identifies a person.
    """
    email, subject = user.get("email"), user.get("sub")
    if isinstance(email, str) and email.strip() and user.get("email_verified", True) in (True, "true"):
        return name_given(email.strip().lower())
    if isinstance(subject, str) and subject.strip() and "@" not in subject:
        return name_given(subject)
    raise InputError(
        "The provider tells neither an e-mail address that it verified nor a subject that is none: "
        "nobody can be told apart"
    )


def called(user: Mapping[str, Any], name: str) -> str:
    """How the page calls somebody: by the name that the provider's token has, else by that of the answers."""
    said = user.get("name")
    try:
        return name_given(said) if isinstance(said, str) else name
    except InputError:
        return name


def known_names(annotators: Iterable[str], *, but_for: Collection[str] = ()) -> list[str]:
    """People who labeled here, to choose from: each once, by name."""
    left_out = {AUTOPILOT, SOMEBODY, *but_for}
    return sorted({name for name in annotators if name not in left_out}, key=str.casefold)


def _key(name: str) -> str:
    return " ".join(name.split()).casefold()
