"""Who is at the page, and what they may do; how they signed in is the pages' business.

On the own machine a name is taken at its word, and nobody has to give one: who labels alone is `SOMEBODY`.
Where the server has signing in (OpenID Connect), the name is the one that the provider vouches for.

An annotator labels, and reviews and corrects their own answers. An owner makes projects and questions,
changes what concerns everybody, puts away, decides where people disagree, and sees everybody's pace. Where
no owner is named and nobody has to sign in, everybody is one.

Names are compared letter by letter. Only the capitals A to Z pass for small letters, in e-mail addresses and
in names that people type; a provider's own number of a person (its "subject") is compared as it is. Nothing
else is taken for the same: ß is not ss, and no two ways to encode an accent are one, since an address that
merely looks alike may be another person's.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from closecall.core.errors import InputError
from closecall.storage.models import MAX_NAME

SOMEBODY = "annotator"
"""The name of whoever did not give one."""

AUTOPILOT = "autopilot"
"""The simulated annotator's name."""

LONGEST_NAME = min(MAX_NAME, 80)
"""Characters of a name that somebody types."""

_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


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
        """From names as people write them."""

        def keys(names: Iterable[str]) -> frozenset[str]:
            return frozenset(_key(name, must_sign_in) for name in names)

        return cls(keys(owners), keys(annotators), must_sign_in)

    def joined(self, owners: Iterable[str], annotators: Iterable[str]) -> Roles:
        """With these, too: those of a project beside those of the server."""
        more = Roles.of(owners, annotators, must_sign_in=self.must_sign_in)
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
        key = _key(name, self.must_sign_in)
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
    return _checked(" ".join(text.split()), LONGEST_NAME)


def name_vouched_for(user: Mapping[str, Any], *, with_issuer: bool = False) -> str:
    """What the provider's identity token calls a person: the e-mail, unless it says that it did not check it.

    Then it is the subject, unless that passes for somebody's address: at some providers people choose it.

    Parameters
    ----------
    user : mapping
        The claims of the token.
    with_issuer : bool
        Name the provider beside the subject, which is a person's own at one provider only: to be set where
        there are several. "7 at https://id.example.org" is then the name.

    Raises
    ------
    InputError
        If it tells nothing that identifies a person.
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


def _checked(name: str, longest: int) -> str:
    if not name or not name.isprintable():
        raise InputError("Type a name that can be read")
    if len(name) > longest:
        raise InputError(f"A name has at most {longest} characters, this one has {len(name)}")
    if name.casefold() == AUTOPILOT:
        raise InputError(f"{name!r} is the simulated annotator: take another name")
    return name


def _is_plain(claim: object) -> TypeGuard[str]:
    """Whether a claim can be a part of a name as it is: no address, no spaces that would be tidied away."""
    return isinstance(claim, str) and claim != "" and "@" not in claim and claim == " ".join(claim.split())


def _key(name: str, must_sign_in: bool) -> str:
    """The form in which names are compared; see the top of this file."""
    tidied = " ".join(name.split())
    return tidied if must_sign_in and "@" not in tidied else tidied.translate(_SMALL)
