"""Signing in at an OpenID Connect provider: what the section [auth] of Streamlit's secrets says of it.

Streamlit itself signs people in. Here its settings are read before anything is served, so that whoever made
a mistake in them is told so at the command line, and not each annotator by a page that fails.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from closecall.app.runtime.extras import load
from closecall.core.errors import InputError

CALLBACK = "/oauth2callback"
"""Where Streamlit waits for what the provider says."""

USUAL_PORTS = {"http": 80, "https": 443}
"""Left out by browsers."""

UNNAMED = "default"
"""What Streamlit calls the provider whose settings stand in [auth] itself."""

OF_A_PROVIDER = ("client_id", "client_secret", "server_metadata_url")

KWARGS = "client_kwargs"
"""A section within [auth] that is no provider's name."""

LEAST_SECRET = 32
"""Characters of the secret that cookies are signed with: who guesses it is whoever they like."""


@dataclass(frozen=True)
class SignIn:
    """How people sign in here.

    Parameters
    ----------
    origin : str
        The only address of the pages at which it works, such as "https://label.example.org".
    providers : tuple of str
        Names of the providers, as ``st.login`` takes them.
    """

    origin: str
    providers: tuple[str, ...]

    @property
    def name(self) -> str:
        """What the pages' machine is called in that address."""
        return urlsplit(self.origin).hostname or ""


def secret_files() -> list[Path]:
    """Where Streamlit looks for secrets: the user's folder, and the one that the program was started in."""
    return [folder / ".streamlit" / "secrets.toml" for folder in (Path.home(), Path.cwd())]


def sign_in(port: int) -> SignIn | None:
    """How people sign in at the pages on `port`, as the secrets say; None where nobody has to.

    Raises
    ------
    InputError
        If the secrets can't be read or say too little, or if a library is missing that signs people in.
    """
    files = [path for path in secret_files() if path.is_file()]
    said: dict[str, Any] = {}
    for path in files:
        try:
            said |= tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} can't be read: {error}") from None
    if "auth" not in said:
        return None
    # Streamlit signs people in with it.
    load("authlib.integrations.starlette_client", "oidc", distribution="authlib")
    return _checked(said["auth"], port)


def _checked(auth: object, port: int) -> SignIn:
    if not isinstance(auth, Mapping):
        raise InputError("auth in secrets.toml must be a section: [auth]")
    redirect, secret = (str(auth.get(name, "")) for name in ("redirect_uri", "cookie_secret"))
    where = urlsplit(redirect.replace("{port}", str(port)))
    origin = _origin(where)
    if origin != f"{where.scheme}://{where.netloc}" or where.path != CALLBACK:
        raise InputError(
            "redirect_uri in [auth] of secrets.toml must be the address of the pages, as browsers write it, "
            f"and {CALLBACK}, such as https://label.example.org{CALLBACK}, got {redirect!r}"
        )
    if len(secret) < LEAST_SECRET:
        raise InputError(
            f"cookie_secret in [auth] of secrets.toml must be a random word of at least {LEAST_SECRET} "
            f"characters, got {len(secret)}"
        )
    providers = {name: its for name, its in auth.items() if isinstance(its, Mapping) and name != KWARGS}
    if not providers or any(name in auth for name in OF_A_PROVIDER):
        providers = {UNNAMED: auth, **providers}
    for name, settings in providers.items():
        section = "auth" if settings is auth else f"auth.{name}"
        if "_" in name:
            raise InputError(f"[{section}] in secrets.toml: a provider's name must have no underscore")
        if missing := [key for key in OF_A_PROVIDER if not settings.get(key)]:
            raise InputError(f"[{section}] of secrets.toml lacks {', '.join(missing)}")
    return SignIn(origin, tuple(providers))


def _origin(url: SplitResult) -> str | None:
    """The origin that a browser gives for the URL; None where there is none."""
    try:
        name, port = url.hostname, url.port
    except ValueError:
        return None
    if url.scheme not in USUAL_PORTS or not name:
        return None
    its_name = f"[{name}]" if ":" in name else name
    return f"{url.scheme}://{its_name}" + ("" if port in (None, USUAL_PORTS[url.scheme]) else f":{port}")
