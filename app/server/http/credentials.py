"""Authentication: the credentials of a request, and their permissions.

A program sends a token in the header Authorization. A labeling page sends a signed key in the header
`PAGE_KEY`, which no other site can know or send: browsers let only pages of the same origin add this header.
Without a credential, only the OpenAPI document can be read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Header, Path, Security
from fastapi.security import APIKeyHeader, HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials

from closecall.app.projects.roles import Person
from closecall.app.server.http.problems import Problem
from closecall.app.server.http.rates import Rates
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.workspace import Workspace, current
from closecall.core.errors import InputError
from closecall.storage.records import SCOPES, Scope
from closecall.storage.tokens import Tokens

PAGE_KEY = "X-Closecall-Page"
"""Header with the key of a labeling page (`app.projects.page_keys`)."""

MAY = {"read": "read", "label": "read and label", "own": "read, label and change the project"}
"""Permissions of each scope, in words."""

bearer_scheme = HTTPBearer(auto_error=False, description="A token of `closecall token create`.")
_page = APIKeyHeader(name=PAGE_KEY, auto_error=False, description="The key of a labeling page.")
_rates = Rates()

ProjectKey = Annotated[str, Path(min_length=1, max_length=255, description="The project's key.")]


@dataclass(frozen=True)
class Entry:
    """A request that may enter a project.

    Parameters
    ----------
    project : OpenProject
    person : Person
        The person in whose name the request is made. They are an owner only if the scope is "own".
    scope : {"read", "label", "own"}
    name : str
        A name of the credential, such as "token 3".
    is_page : bool
        Whether the credential is the key of a page.
    """

    project: OpenProject
    person: Person
    scope: Scope
    name: str
    is_page: bool


@dataclass(frozen=True)
class Credential:
    """The credentials of a request, not yet checked.

    Parameters
    ----------
    project : str
        Key of the project.
    token : str or None
        Text of a token.
    page_key : str or None
        Key of a labeling page.
    site : str or None
        The site of the page that makes the request, according to the browser.
    """

    project: str
    token: str | None
    page_key: str | None
    site: str | None

    def enter(self, needed: Scope) -> Entry:
        """Return the entry of the request, which needs the scope `needed`.

        Raises
        ------
        Problem
            If the credential is missing, unknown or not sufficient, or makes too many requests.
        """
        workspace = current()
        if self.token is not None:
            entry = _of_token(workspace, self.project, self.token)
        elif self.page_key is not None:
            if self.site not in (None, "same-origin"):
                raise Problem(403, "Only pages of this server may use the key of a page")
            entry = _of_page(workspace, self.project, self.page_key)
        else:
            raise Problem(
                401,
                "This address needs a token in the header Authorization: closecall token create makes one",
                {"WWW-Authenticate": "Bearer"},
            )
        _rates.take(f"{self.project}\n{entry.name}")
        if SCOPES.index(entry.scope) < SCOPES.index(needed):
            raise Problem(403, f"{entry.name[:1].upper()}{entry.name[1:]} may only {MAY[entry.scope]}")
        if needed == "own":
            entry.person.require_owner("change the project")
        return entry


async def shown(
    project: ProjectKey,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(bearer_scheme)],
    page: Annotated[str | None, Security(_page)],
    sec_fetch_site: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> Credential:
    """Return the credential of a request.

    A route that depends on this function and not on an `Entry` must call `Credential.enter` itself. The check
    can then run in the same thread as the route, which saves time.
    """
    return Credential(project, bearer.credentials if bearer else None, page, sec_fetch_site)


Shown = Annotated[Credential, Depends(shown)]


def entered(needed: Scope) -> Callable[..., Entry]:
    """Return a FastAPI dependency whose value is the `Entry` of a request that needs the scope `needed`."""

    def enter(credential: Shown) -> Entry:
        return credential.enter(needed)

    return enter


Reads = Annotated[Entry, Depends(entered("read"))]


def everybodys(entry: Reads) -> Entry:
    """Return the entry of a request that reads the answers of all people.

    A token with the scope "read" may do so. On pages, only owners see what others answered.
    """
    if entry.is_page:
        entry.person.require_owner("read everybody's answers")
    return entry


ReadsAnswers = Annotated[Entry, Depends(everybodys)]
Labels = Annotated[Entry, Depends(entered("label"))]
Owns = Annotated[Entry, Depends(entered("own"))]


def opened_by(workspace: Workspace, token: str) -> list[OpenProject]:
    """Return the projects that a token opens."""
    return [
        workspace.project(key)
        for key in workspace.served_keys()
        if workspace.finds(key, lambda database: Tokens(database).find(token) is not None)
    ]


def unknown() -> Problem:
    """Return the problem of a credential that is not valid."""
    return Problem(401, "The token is unknown, has expired or was revoked", {"WWW-Authenticate": "Bearer"})


def _of_token(workspace: Workspace, key: str, text: str) -> Entry:
    if key not in workspace.served_keys():
        raise unknown()  # the same as for a project that the token doesn't open
    project = workspace.project(key)
    token = Tokens(project.database).find(text)
    if token is None:
        raise unknown()
    person = _person(project, token.annotator)
    person = Person(person.name, is_owner=person.is_owner and token.scope == "own")
    return Entry(project, person, token.scope, f"token {token.id}", is_page=False)


def _of_page(workspace: Workspace, key: str, text: str) -> Entry:
    if key not in workspace.served_keys():
        raise unknown()
    project = workspace.project(key)
    name = project.page_keys.read(text)
    if name is None:
        raise Problem(401, "The page's key has expired: load the page again")
    person = _person(project, name)
    scope: Scope = "own" if person.is_owner else "label"
    return Entry(project, person, scope, f"page of {person.name}", is_page=True)


def _person(project: OpenProject, name: str) -> Person:
    try:
        return project.roles.person(name)
    except InputError as error:
        raise Problem(403, str(error)) from None
