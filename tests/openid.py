"""A small OpenID provider on 127.0.0.1, for tests and for trying sign-in by hand::

    python -m tests.openid --redirect http://127.0.0.1:8501/oauth2callback "ada@example.org=Ada Lovelace"

It prints the section [auth] to put into ``.streamlit/secrets.toml``. It has no passwords: whoever comes picks
who they are. All else is as OpenID Connect Core 1.0 and RFC 7636 want it: the authorization code flow, for
one client and the addresses that it gave, codes that serve once and for a minute, PKCE (S256) demanded,
identity tokens signed by RS256 with a key made at the start.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import html
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

ALGORITHM = "RS256"
CODE_SECONDS = 60
TOKEN_SECONDS = 3600

ASKED = ("client_id", "redirect_uri", "state", "nonce", "scope", "code_challenge")
"""Of a request to sign in, what the page that asks who it is passes on."""


@dataclass(frozen=True, eq=False)
class Account:
    """Somebody who may sign in; `claims` are said beside the e-mail address, or in its place."""

    email: str
    name: str
    claims: Mapping[str, Any] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        return hashlib.sha256(self.email.encode()).hexdigest()[:16]

    @property
    def said(self) -> dict[str, Any]:
        about = {"sub": self.subject, "name": self.name, "email": self.email, "email_verified": True}
        return about | dict(self.claims)


@dataclass(frozen=True)
class Grant:
    """Who has signed in for a code that was given out, and under which conditions it is good."""

    account: Account
    asked: Mapping[str, str]
    until: float


class Refused(Exception):  # noqa: N818 (no error of the program's: what the client is told)
    """What is wrong with a request, by its name in OAuth 2.0."""


class Provider:
    """The provider's state and its answers; `serving` lets it listen.

    Parameters
    ----------
    accounts : sequence of Account
    redirect_uris : sequence of str
        Where the client lets itself be sent back to, exactly.
    """

    def __init__(self, accounts: Sequence[Account], redirect_uris: Sequence[str]) -> None:
        self.accounts = {account.email: account for account in accounts}
        self.redirect_uris = tuple(redirect_uris)
        self.client_id, self.client_secret = "closecall", secrets.token_urlsafe(24)
        self.issuer = ""
        self._key = RSAKey.generate_key(2048, {"use": "sig", "alg": ALGORITHM}, auto_kid=True)
        self._codes: dict[str, Grant] = {}
        self._access: dict[str, Account] = {}
        self._lock = threading.Lock()

    def secrets_toml(self) -> str:
        """What a program whose pages are at the first of `redirect_uris` needs to know."""
        said = {
            "redirect_uri": self.redirect_uris[0],
            "cookie_secret": secrets.token_urlsafe(32),
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "server_metadata_url": f"{self.issuer}/.well-known/openid-configuration",
        }
        return "[auth]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in said.items())

    def discovery(self) -> dict[str, Any]:
        places = ("authorization", "token", "userinfo", "end_session")
        return {
            "issuer": self.issuer,
            **{f"{place}_endpoint": f"{self.issuer}/{place}" for place in places},
            "jwks_uri": f"{self.issuer}/jwks",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
            "scopes_supported": ["openid", "email", "profile"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            "code_challenge_methods_supported": ["S256"],
        }

    def jwks(self) -> dict[str, Any]:
        return {"keys": [self._key.as_dict(private=False)]}

    def check_asked(self, asked: Mapping[str, str]) -> None:
        """Whether anybody may be asked at all: nobody is sent to an address that the client did not give."""
        if asked.get("client_id") != self.client_id:
            raise Refused("unauthorized_client")
        if asked.get("redirect_uri") not in self.redirect_uris:
            raise Refused("invalid_redirect_uri")
        if asked.get("response_type", "code") != "code":
            raise Refused("unsupported_response_type")
        if "openid" not in asked.get("scope", "").split():
            raise Refused("invalid_scope")
        if not asked.get("code_challenge") or asked.get("code_challenge_method", "S256") != "S256":
            raise Refused("invalid_request")

    def authorized(self, asked: Mapping[str, str], email: str) -> str:
        """Where to send somebody who has said who they are."""
        self.check_asked(asked)
        code = secrets.token_urlsafe(24)
        with self._lock:
            self._codes[code] = Grant(self.accounts[email], dict(asked), time.monotonic() + CODE_SECONDS)
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked.get('state', '')})}"

    def token(self, said: Mapping[str, str], basic: str) -> dict[str, Any]:
        """Tokens for a code."""
        name, _, secret = basic.partition(":") if basic else (*[said.get("client_id", "")], "", "")
        secret = secret or said.get("client_secret", "")
        if name != self.client_id or not secrets.compare_digest(secret, self.client_secret):
            raise Refused("invalid_client")
        if said.get("grant_type") != "authorization_code":
            raise Refused("unsupported_grant_type")
        with self._lock:
            grant = self._codes.pop(said.get("code", ""), None)
        if grant is None or grant.until < time.monotonic():
            raise Refused("invalid_grant")
        digest = hashlib.sha256(said.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (challenge, said.get("redirect_uri")) != (
            grant.asked["code_challenge"],
            grant.asked["redirect_uri"],
        ):
            raise Refused("invalid_grant")
        access, now = secrets.token_urlsafe(24), int(time.time())
        self._access[access] = grant.account
        claims = {"iss": self.issuer, "aud": self.client_id, "iat": now, "exp": now + TOKEN_SECONDS}
        if grant.asked.get("nonce"):
            claims["nonce"] = grant.asked["nonce"]
        header = {"alg": ALGORITHM, "kid": self._key.kid}
        return {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": TOKEN_SECONDS,
            "scope": grant.asked["scope"],
            "id_token": jwt.encode(header, claims | grant.account.said, self._key),
        }

    def userinfo(self, access: str) -> dict[str, Any]:
        if access not in self._access:
            raise Refused("invalid_token")
        return self._access[access].said

    def page(self, asked: Mapping[str, str]) -> str:
        """Asks who it is: a button for each account."""
        hidden = "".join(
            f'<input type="hidden" name="{name}" value="{html.escape(asked.get(name, ""))}">'
            for name in ASKED
        )
        buttons = "".join(
            f'<p><button name="email" value="{html.escape(email)}">{html.escape(account.name)}</button></p>'
            for email, account in self.accounts.items()
        )
        form = f'<form method="post" action="/authorization">{hidden}{buttons}</form>'
        return f"<!doctype html><title>Who are you?</title><h1>Who are you?</h1>{form}"


class _Handler(BaseHTTPRequestHandler):
    provider: Provider
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked, provider = _single(url.query), self.provider
        try:
            if url.path == "/.well-known/openid-configuration":
                self._json(provider.discovery())
            elif url.path == "/jwks":
                self._json(provider.jwks())
            elif url.path == "/userinfo":
                self._json(provider.userinfo(self.headers.get("Authorization", "").removeprefix("Bearer ")))
            elif url.path == "/authorization":
                provider.check_asked(asked)
                self._answer(200, "text/html; charset=utf-8", provider.page(asked).encode())
            elif url.path == "/end_session":
                back = asked.get("post_logout_redirect_uri", "")
                if back not in provider.redirect_uris:
                    raise Refused("invalid_request")
                self._redirect(back)
            else:
                self._answer(404, "text/plain", b"")
        except Refused as refusal:
            self._json({"error": str(refusal)}, 400)

    def do_POST(self) -> None:
        said = _single(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
        path = urlsplit(self.path).path
        try:
            if path == "/authorization":
                email = said.pop("email", "")
                if email not in self.provider.accounts:
                    raise Refused("access_denied")
                self._redirect(self.provider.authorized(said, email))
            elif path == "/token":
                self._json(self.provider.token(said, _basic(self.headers.get("Authorization", ""))))
            else:
                self._answer(404, "text/plain", b"")
        except Refused as refusal:
            self._json({"error": str(refusal)}, 400)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the library's name)
        """Nothing: the browser's console tells enough."""

    def _json(self, said: Mapping[str, Any], status: int = 200) -> None:
        self._answer(status, "application/json", json.dumps(said).encode())

    def _redirect(self, to: str) -> None:
        self.send_response(303)
        self.send_header("Location", to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _single(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}


def _basic(header: str) -> str:
    kind, _, value = header.partition(" ")
    return unquote(base64.b64decode(value).decode()) if kind.lower() == "basic" else ""


@contextmanager
def serving(accounts: Sequence[Account], redirect_uris: Sequence[str]) -> Iterator[Provider]:
    """A provider that listens on a port of its own as long as the block lasts."""
    provider = Provider(accounts, redirect_uris)
    handler = type("Handler", (_Handler,), {"provider": provider})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main() -> None:
    """Serve until Ctrl+C."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--redirect", required=True, help="the pages' address and /oauth2callback")
    parser.add_argument("accounts", nargs="+", metavar="EMAIL=NAME")
    asked = parser.parse_args()
    accounts = [Account(*account.split("=", 1)) for account in asked.accounts]
    with serving(accounts, [asked.redirect]) as provider:
        print(provider.secrets_toml(), flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
