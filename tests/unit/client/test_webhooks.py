from __future__ import annotations

import hashlib
import hmac

import pytest

from closecall.client import SignatureError, verify_signature

SECRET, BODY, NOW = "whsec_1", b'{"type": "label.stored"}', 1_800_000_000


def signature(at: int = NOW, body: bytes = BODY, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()


@pytest.mark.parametrize("at", [NOW, NOW - 300, NOW + 300])
def test_a_signature_of_the_last_five_minutes_is_accepted(at):
    verify_signature(SECRET, f"t={at},v1={signature(at)}", BODY, now=NOW)


def test_one_of_several_signatures_is_enough():
    """While the secret is being replaced, the server signs with both."""
    header = f"t={NOW}, v1={signature(secret='old')}, v1={signature()}"
    verify_signature(SECRET, header, BODY, now=NOW)


WRONG = {
    "another body": (f"t={NOW},v1={signature(body=b'{}')}", "does not match"),
    "another secret": (f"t={NOW},v1={signature(secret='other')}", "does not match"),
    "another time": (f"t={NOW},v1={signature(NOW - 1)}", "does not match"),
    "not ASCII": (f"t={NOW},v1=é", "does not match"),
    "too old": (f"t={NOW - 301},v1={signature(NOW - 301)}", "301 seconds old"),
    "from the future": (f"t={NOW + 301},v1={signature(NOW + 301)}", "seconds old"),
    "no signature": (f"t={NOW}", "must have the form"),
    "no time": (f"v1={signature()}", "must have the form"),
    "two times": (f"t={NOW},t={NOW - 1},v1={signature()}", "must have the form"),
    "no number": (f"t=²,v1={signature()}", "must have the form"),
    "empty": ("", "must have the form"),
}


@pytest.mark.parametrize("case", WRONG)
def test_everything_else_is_an_error(case):
    header, reason = WRONG[case]
    with pytest.raises(SignatureError, match=reason):
        verify_signature(SECRET, header, BODY, now=NOW)
