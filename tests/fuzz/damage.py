"""Bytes and JSON values that have gone wrong, as a function of a generator alone."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

TOKENS = (
    *(
        b"",
        b"\0",
        b"\xff",
        b"\n",
        b'"',
        b"'",
        b",",
        b";",
        b"{",
        b"[",
        b"}",
        b"]",
        b"null",
        b"NaN",
        b"1e999",
        b"-1",
    ),
    *(
        b"9" * 400,
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"../../../../tmp/closecall-fuzz",
        b"/etc/passwd",
        b"=1+1",
    ),
    *(b"\\u0000", b"%s%n", b"<img src=x onerror=alert(1)>", bytes(4), b"\xff" * 4, b"\x7f\xff\xff\xff"),
)

NONSENSE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 2**31, 2**63, 10**30, 10**400, 0.5, math.inf, -math.inf, math.nan),
    *("", " ", "yes", "0", "x" * 5000, "\0", "\ud800", "../..", "' OR 1=1 --", "<script>"),
    *([], [[]], {}, {"id": 1}, [None] * 50, {"": {}}),
)


def damaged(raw: bytes, rng: np.random.Generator) -> bytes:
    """`raw` with a few bytes changed, cut, doubled, moved or put in; seldom something else altogether."""
    if rng.random() < 0.02:
        return rng.bytes(int(rng.integers(0, 5000)))
    made = bytearray(raw)
    for _ in range(int(rng.integers(1, 8))):
        place = int(rng.integers(len(made) or 1))
        # What says how large things are stands at the beginning.
        place = place if rng.random() < 0.5 else min(place, int(rng.integers(1, 200)))
        length = int(rng.integers(1, 40))
        match int(rng.integers(7)):
            case 0:
                made[place : place + 1] = rng.bytes(1)
            case 1:
                made[place : place + length] = rng.bytes(length)
            case 2:
                del made[place : place + length]
            case 3:
                made[place:place] = made[place : place + length] * int(rng.integers(1, 50))
            case 4:
                made[place:place] = TOKENS[int(rng.integers(len(TOKENS)))]
            case 5:
                token = TOKENS[int(rng.integers(len(TOKENS)))]
                made[place : place + len(token)] = token
            case 6:
                del made[place:]
    return bytes(made)


def spoilt(value: Any, rng: np.random.Generator) -> Any:
    """A JSON value with some of its parts replaced by nonsense, left out, or doubled."""
    if rng.random() < 0.08:
        return NONSENSE[int(rng.integers(len(NONSENSE)))]
    if isinstance(value, dict):
        made = {name: spoilt(part, rng) for name, part in value.items() if rng.random() > 0.05}
        if rng.random() < 0.05:
            made[str(NONSENSE[int(rng.integers(len(NONSENSE)))])] = NONSENSE[int(rng.integers(len(NONSENSE)))]
        return made
    if isinstance(value, list):
        kept = [spoilt(part, rng) for part in value if rng.random() > 0.05]
        return kept * 2 if rng.random() < 0.05 else kept
    return value


def as_json(value: Any) -> bytes:
    """As a file has it; half characters are written as they are."""
    return json.dumps(value).encode("utf-8", "surrogatepass")
