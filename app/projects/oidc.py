"""Check the settings of sign-in with OpenID Connect, in the [auth] section of Streamlit's secrets.

Streamlit itself signs people in. The settings are checked before the server starts, so that the operator sees
mistakes on the command line. Without this check, annotators would see a page that fails.
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
"""URL path at which Streamlit receives the provider's response."""

USUAL_PORTS = {"http": 80, "https": 443}
"""Default ports, which browsers leave out of origins."""

UNNAMED = "default"
"""Streamlit's name for a provider that is configured directly in [auth]."""

OF_A_PROVIDER = ("client_id", "client_secret", "server_metadata_url")

KWARGS = "client_kwargs"
"""The only section within [auth] that does not configure a provider."""

SIGN_IN_DAYS = 30
"""Default number of days after which people must sign in again."""

LEAST_SECRET = 32
"""Minimum length of the secret that signs cookies. A person who guesses the secret can sign in as anybody."""


@dataclass(frozen=True)
class SignIn:
    """The checked settings of sign-in.

    Parameters
    ----------
    origin : str
        The only origin at which sign-in works, such as "https://label.example.org".
    prefix : str
        The path at which a proxy offers the pages, such as "/labels"; "" for the root.
    providers : tuple of str
        Names of the providers, in the form for ``st.login``.
    """

    origin: str
    providers: tuple[str, ...]
    prefix: str = ""

    @property
    def name(self) -> str:
        """The host name in the origin."""
        return urlsplit(self.origin).hostname or ""

    @property
    def home(self) -> str:
        """The address of the pages."""
        return f"{self.origin}{self.prefix}/"


def secret_files() -> list[Path]:
    """Return the files in which Streamlit looks for secrets: the user's, and the working folder's."""
    return [folder / ".streamlit" / "secrets.toml" for folder in (Path.home(), Path.cwd())]


def sign_in(port: int, prefix: str = "") -> SignIn | None:
    """Return the settings of sign-in for a server on `port`, or None if nobody has to sign in.

    A proxy may offer the pages below the path `prefix`.

    Raises
    ------
    InputError
        If the secrets can't be read or are incomplete, or if Authlib is missing.
    """
    files = [path for path in secret_files() if path.is_file()]
    settings: dict[str, Any] = {}
    for path in files:
        try:
            settings |= tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} can't be read: {error}") from None
    if "auth" not in settings:
        return None
    # Streamlit needs Authlib for sign-in. If Authlib is missing, Streamlit reports it only at a sign-in.
    load("authlib.integrations.starlette_client", "oidc", distribution="authlib")
    return _checked(settings["auth"], port, prefix)


def _checked(auth: object, port: int, prefix: str) -> SignIn:
    if not isinstance(auth, Mapping):
        raise InputError("auth in secrets.toml must be a section: [auth]")
    redirect, secret = (str(auth.get(name, "")) for name in ("redirect_uri", "cookie_secret"))
    where = urlsplit(redirect.replace("{port}", str(port)))
    origin = _origin(where)
    if origin != f"{where.scheme}://{where.netloc}" or where.path != prefix + CALLBACK:
        raise InputError(
            "redirect_uri in [auth] of secrets.toml must be the address of the pages, as browsers write it, "
            f"and {CALLBACK}, such as https://label.example.org{prefix}{CALLBACK}, got {redirect!r}"
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
    return SignIn(origin, tuple(providers), prefix)


def _origin(url: SplitResult) -> str | None:
    """Return the origin that a browser sends for the URL, or None if the URL is not a web address."""
    try:
        name, port = url.hostname, url.port
    except ValueError:
        return None
    if url.scheme not in USUAL_PORTS or not name:
        return None
    its_name = f"[{name}]" if ":" in name else name
    return f"{url.scheme}://{its_name}" + ("" if port in (None, USUAL_PORTS[url.scheme]) else f":{port}")
