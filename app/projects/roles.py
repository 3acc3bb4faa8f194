"""Roles of people, and the rights of each role. The pages handle sign-in.

Without sign-in, people may label under any name. Without a name, they label as `SOMEBODY`. On a server with
sign-in (OpenID Connect), the provider verifies the name.

Annotators label, and review and correct their own answers. Owners create projects and questions, change
shared settings, archive questions, adjudicate, and see everybody's statistics. If no owner is named and
nobody has to sign in, everybody is an owner.

Verified names are compared character by character. In e-mail addresses, the letters A to Z equal a to z. The
provider's id of a person (the "subject") is compared without this exception. There are no other exceptions: ß
differs from ss, and two encodings of the same accented letter differ, because addresses that look alike may
belong to different people.

Names that people type are stored in Unicode normal form C. If they are not addresses, they are compared
without regard to letter case and to the encoding of accents.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard
from unicodedata import normalize

from closecall.app.projects.spelling import folded
from closecall.core.errors import InputError
from closecall.storage.models import MAX_NAME

SOMEBODY = "annotator"
"""The name under which answers are stored if the person has given no name."""

AUTOPILOT = "autopilot"
"""The simulated annotator's name."""

LONGEST_NAME = min(MAX_NAME, 80)
"""Maximum length of a name that a person types."""

_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class NoAccessError(InputError):
    """Error for a person who may not do something."""


@dataclass(frozen=True)
class Person:
    """A person who uses the pages, with their rights in one project.

    Parameters
    ----------
    name : str
        The name under which answers are stored.
    is_owner : bool
        Whether the person has the rights of an owner.
    """

    name: str
    is_owner: bool = False

    def owns(self, annotator: str) -> bool:
        """Return whether the person may use this annotator's sessions.

        Everybody may use their own sessions. Owners may also use the autopilot's sessions.
        """
        return annotator == self.name or (self.is_owner and annotator == AUTOPILOT)

    def require_owner(self, what: str) -> None:
        """Check that the person is an owner. In the message, `what` names the action that needs an owner.

        Raises
        ------
        NoAccessError
            If the person is not an owner.
        """
        if not self.is_owner:
            raise NoAccessError(f"Only an owner may {what}, but {self.name} is not one")


OPERATOR = Person("operator", is_owner=True)
"""The person at the command line."""


@dataclass(frozen=True)
class Roles:
    """Owners and annotators by name.

    Parameters
    ----------
    owners : frozenset of str
        Names of owners, in the form in which names are compared; see `Roles.of`.
    annotators : frozenset of str
        Names of other people who may enter; if empty, everybody may. "@example.org" means all names with
        this ending.
    must_sign_in : bool
        Whether a sign-in provider verifies names. If so, only people in `owners` are owners. If not, and if
        `owners` is empty, everybody is an owner.
    spellings : frozenset of str
        The names of owners and annotators as they were written, in Unicode normal form C.
    """

    owners: frozenset[str] = frozenset()
    annotators: frozenset[str] = frozenset()
    must_sign_in: bool = False
    spellings: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, owners: Iterable[str] = (), annotators: Iterable[str] = (), *, must_sign_in: bool = False
    ) -> Roles:
        """Return roles made from names as people write them."""

        def keys(names: Iterable[str]) -> frozenset[str]:
            return frozenset(_key(name, must_sign_in) for name in names)

        owners, annotators = list(owners), list(annotators)
        spellings = frozenset(normalize("NFC", _tidied(name)) for name in owners + annotators)
        return cls(keys(owners), keys(annotators), must_sign_in, spellings)

    def joined(self, owners: Iterable[str], annotators: Iterable[str]) -> Roles:
        """Return these roles with more owners and annotators."""
        more = Roles.of(owners, annotators, must_sign_in=self.must_sign_in)
        return Roles(
            self.owners | more.owners,
            self.annotators | more.annotators,
            self.must_sign_in,
            self.spellings | more.spellings,
        )

    @property
    def are_named(self) -> bool:
        """Whether any owner or annotator is named. If so, people can't label without a name."""
        return bool(self.owners or self.annotators)

    def spelled(self, name: str) -> str:
        """Return the listed spelling of a typed name, or the name itself if no single spelling fits."""
        if self.must_sign_in or name in self.spellings:
            return name
        listed = [spelling for spelling in self.spellings if _key(spelling, False) == _key(name, False)]
        return listed[0] if len(listed) == 1 else name

    def person(self, name: str) -> Person:
        """Return the person of this name, with their rights.

        Raises
        ------
        NoAccessError
            If the person may not enter.
        """
        key = _key(name, self.must_sign_in)
        everybody = not self.owners and not self.must_sign_in
        is_owner = everybody or key in self.owners
        domain = "@" + key.rpartition("@")[2] if "@" in key else key
        if not is_owner and self.annotators and not self.annotators & {key, domain}:
            raise NoAccessError(f"{name!r} has no access to this project: ask an owner")
        return Person(name, is_owner)


def name_given(text: str) -> str:
    """Return a typed name in the form in which it is stored: in normal form C, and with single spaces.

    Raises
    ------
    InputError
        If the name is empty, too long or not printable, or if it is the autopilot's name.
    """
    return _checked(normalize("NFC", _tidied(text)), LONGEST_NAME)


def name_vouched_for(user: Mapping[str, Any], *, with_issuer: bool = False) -> str:
    """Return the name in an identity token: a verified e-mail address or, if there is none, the subject.

    An address counts as verified unless the token says otherwise. A subject that contains "@" is rejected: at
    some providers, people choose their subject, and could choose another person's address.

    Parameters
    ----------
    user : mapping
        The claims of the token.
    with_issuer : bool
        Whether to add the provider to a subject, as in "7 at https://id.example.org". This is necessary with
        several providers, because a subject is unique only within one provider.

    Raises
    ------
    InputError
        If no claim identifies a person, or the name can't be stored.
    """
    email, subject, issuer = (user.get(claim) for claim in ("email", "sub", "iss"))
    if isinstance(email, str) and email.strip() and user.get("email_verified", True) in (True, "true"):
        return _checked(" ".join(email.split()).translate(_SMALL), MAX_NAME)
    if _is_plain(subject):
        if not with_issuer:
            return _checked(subject, MAX_NAME)
        if _is_plain(issuer) and " " not in issuer:
            return _checked(f"{subject} at {issuer}", MAX_NAME)
    raise InputError(
        "The provider gives neither a verified e-mail address nor a subject that is not an address, "
        "so accounts can't be distinguished"
    )


def called(user: Mapping[str, Any], name: str) -> str:
    """Return a person's display name: the name in the identity token or, if that can't be used, `name`."""
    given = user.get("name")
    try:
        return name_given(given) if isinstance(given, str) else name
    except InputError:
        return name


def known_names(annotators: Iterable[str], *, but_for: Collection[str] = ()) -> list[str]:
    """Return the sorted, different names of annotators, except the autopilot, `SOMEBODY` and `but_for`."""
    left_out = {AUTOPILOT, SOMEBODY, *but_for}
    return sorted({name for name in annotators if name not in left_out}, key=str.casefold)


def spelled_otherwise(name: str, annotators: Iterable[str]) -> list[str]:
    """Return the annotators' names that differ from a typed name only in letter case or encoding of accents.

    The result is empty if the name is known as it was typed.
    """
    known = known_names(annotators)
    if name in known:
        return []
    return [other for other in known if folded(other) == folded(name)]


def _checked(name: str, longest: int) -> str:
    if not name or not name.isprintable():
        raise InputError("Type a name that can be read")
    if len(name) > longest:
        raise InputError(f"The name is too long ({longest} characters at most, got {len(name)})")
    if name.casefold() == AUTOPILOT:
        raise InputError(f"{name!r} is the simulated annotator: choose another name")
    return name


def _is_plain(claim: object) -> TypeGuard[str]:
    """Return whether a claim can be part of a name: a text without "@" and without superfluous spaces."""
    return isinstance(claim, str) and claim != "" and "@" not in claim and claim == " ".join(claim.split())


def _key(name: str, must_sign_in: bool) -> str:
    """Return the form in which a name is compared; the module's docstring has the rules."""
    tidied = _tidied(name)
    if "@" in tidied:
        return tidied.translate(_SMALL)
    return tidied if must_sign_in else folded(tidied)


def _tidied(name: str) -> str:
    return " ".join(name.split())
