from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from authlib.common.security import generate_token
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import OAuth2Client
from joserfc import jwt
from joserfc.jwk import KeySet

from closecall.app.projects.oidc import LEAST_SECRET, SignIn, sign_in
from closecall.core.errors import InputError
from tests.openid import Account, Provider, serving

BACK = "http://127.0.0.1:1/oauth2callback"

AUTH = f"""[auth]
redirect_uri = "https://label.example.org/oauth2callback"
cookie_secret = "{"x" * LEAST_SECRET}"
"""

ITS = """client_id = "a"
client_secret = "b"
server_metadata_url = "https://login.example.org/.well-known/openid-configuration"
"""


@pytest.fixture
def secrets(tmp_path, monkeypatch):
    """The file that is read; not there at first."""
    path = tmp_path / "secrets.toml"
    monkeypatch.setattr("closecall.app.projects.oidc.secret_files", lambda: [path, tmp_path / "none.toml"])
    return path


def test_nobody_has_to_sign_in_unless_secrets_name_a_provider(secrets):
    assert sign_in(8501) is None
    secrets.write_text("[other]\n")
    assert sign_in(8501) is None


def test_one_provider_or_several_as_streamlit_takes_them(secrets):
    """Its settings stand in [auth], or each in a section of its own."""
    secrets.write_text(AUTH + ITS)
    assert sign_in(8501) == SignIn("https://label.example.org", ("default",))
    secrets.write_text(AUTH + ITS + '[auth.client_kwargs]\nprompt = "login"\n')
    assert sign_in(8501) == SignIn("https://label.example.org", ("default",))
    secrets.write_text(AUTH + f"[auth.lab]\n{ITS}[auth.guests]\n{ITS}")
    assert sign_in(8501) == SignIn("https://label.example.org", ("lab", "guests"))
    secrets.write_text((AUTH + ITS).replace("https://label.example.org", "http://localhost:{port}"))
    assert sign_in(8600) == SignIn("http://localhost:8600", ("default",))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("[auth\n", "can't be read"),
        ("auth = 1\n", "must be a section"),
        (AUTH, "lacks client_id, client_secret, server_metadata_url"),
        (AUTH + ITS.replace('"b"', '""'), "lacks client_secret"),
        (AUTH + "[auth.my_lab]\n" + ITS, "must have no underscore"),
        (AUTH.replace("x" * LEAST_SECRET, "short") + ITS, "at least 32 characters, got 5"),
        (AUTH.replace("/oauth2callback", "/") + ITS, "redirect_uri .* must be .*got 'https://label"),
        (AUTH.replace(".org/", ".org:443/") + ITS, "redirect_uri .* as browsers write it"),
        (AUTH.replace("label.", "Label.") + ITS, "redirect_uri .* as browsers write it"),
        (AUTH.replace(".org/", ".org:x/") + ITS, "redirect_uri .* as browsers write it"),
        (ITS.join(["[auth]\n", ""]), "redirect_uri .* must be .*got ''"),
    ],
)
def test_what_would_fail_at_each_sign_in_is_said_at_the_start(secrets, said, told):
    """In one sentence, and no secret is repeated."""
    secrets.write_text(said)
    with pytest.raises(InputError, match=told) as refused:
        sign_in(8501)
    assert "xxx" not in str(refused.value)
    assert "short" not in str(refused.value)


@pytest.fixture(scope="module")
def provider():
    with serving([Account("ada@example.org", "Ada Lovelace")], [BACK]) as provider:
        yield provider


def client(provider: Provider) -> OAuth2Client:
    """As a program that signs people in would have it."""
    return OAuth2Client(
        provider.client_id,
        provider.client_secret,
        scope="openid email",
        redirect_uri=BACK,
        code_challenge_method="S256",
    )


def signed_in(provider: Provider, verifier: str) -> str:
    """Where Ada is sent back to."""
    asking = client(provider)
    url, _ = asking.create_authorization_url(
        f"{provider.issuer}/authorization", code_verifier=verifier, nonce="n1"
    )
    assert "Ada Lovelace" in asking.request("GET", url, withhold_token=True).text
    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    return provider.authorized(asked, "ada@example.org")


def test_the_provider_vouches_for_who_signed_in(provider):
    """By a token signed with the key that it publishes, for this client and this request."""
    verifier = generate_token(48)
    with client(provider) as asking:
        token = asking.fetch_token(
            f"{provider.issuer}/token",
            authorization_response=signed_in(provider, verifier),
            code_verifier=verifier,
        )
        keys = KeySet.import_key_set(asking.get(f"{provider.issuer}/jwks").json())
        about = asking.get(f"{provider.issuer}/userinfo").json()
    claims = jwt.decode(token["id_token"], keys, algorithms=["RS256"]).claims
    assert (claims["email"], claims["email_verified"], claims["nonce"]) == ("ada@example.org", True, "n1")
    assert (claims["iss"], claims["aud"]) == (provider.issuer, provider.client_id)
    assert about["sub"] == claims["sub"]


def test_a_code_serves_once_and_only_who_asked_for_it(provider):
    """Neither without the verifier, nor a second time, nor with another secret."""
    verifier = generate_token(48)

    def redeem(back: str, said: str, secret: str = "") -> None:
        with client(provider) as asking:
            asking.client_secret = secret or asking.client_secret
            asking.fetch_token(f"{provider.issuer}/token", authorization_response=back, code_verifier=said)

    back = signed_in(provider, verifier)
    with pytest.raises(OAuthError, match="invalid_grant"):
        redeem(back, generate_token(48))
    with pytest.raises(OAuthError, match="invalid_grant"):
        redeem(back, verifier)
    with pytest.raises(OAuthError, match="invalid_client"):
        redeem(signed_in(provider, verifier), verifier, "another")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"redirect_uri": "http://127.0.0.1:2/oauth2callback"}, "invalid_redirect_uri"),
        ({"client_id": "another"}, "unauthorized_client"),
        ({"scope": "email"}, "invalid_scope"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
    ],
)
def test_nobody_is_asked_for_a_request_that_is_not_the_clients(provider, changes, told):
    url, _ = client(provider).create_authorization_url("", code_verifier=generate_token(48))
    asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    answer = client(provider).request(
        "GET", f"{provider.issuer}/authorization", params=asked | changes, withhold_token=True
    )
    assert (answer.status_code, answer.json()) == (400, {"error": told})
