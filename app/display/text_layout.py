"""Typeset plain text for the labeling page: headers, paragraphs, quotations, and preformatted lines.

Texts from mails and terminals have lines of about 75 characters. In a narrower column, each line would be
broken a second time. The lines of a paragraph are therefore joined, unless they are short or arranged in
columns, and the browser breaks the paragraph into new lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import TypedDict

LONGEST_SHOWN = 20_000
"""Maximum number of characters shown, which take about 15 minutes to read."""

_HEAD = re.compile(r"[A-Z][A-Za-z.-]*: ?\S?")
_SUBJECT = re.compile(r"^Subject: ?(.*)$", re.MULTILINE)
_QUOTE = re.compile(r"(?:\s{0,3}\w{0,4}[>|]\s?)+")
_COLUMNS = re.compile(r"\S(?: {3,}|\t)\S|^(?: {4,}|\t+)\S")
_DRAWN = re.compile(r"[^\w\s]{6,}")
_FULL_LINE = 50


OPENING = 400
"""Maximum number of characters of an `Opening`: as many as the largest tile shows."""


class Part(TypedDict):
    """A part of a text.

    `kind` is "head", "plain", "quote", "quote deeper", or "kept" for preformatted lines.
    """

    kind: str
    text: str


def typeset(text: str) -> list[Part]:
    """Return the parts of a text in order, up to `LONGEST_SHOWN` characters; an empty text has one part."""
    shown = text[:LONGEST_SHOWN].expandtabs().rstrip()
    cut = "" if len(text) <= LONGEST_SHOWN else "\n\n…"
    blocks = [block for block in re.split(r"\n\s*\n", shown + cut) if block.strip()]
    parts: list[Part] = []
    for number, block in enumerate(blocks):
        lines = block.rstrip().split("\n")
        if number == 0 and len(lines) > 1 and all(_HEAD.match(line) or line[:1].isspace() for line in lines):
            parts.append({"kind": "head", "text": "\n".join(lines)})
        else:
            parts += _paragraphs(lines)
    return parts or [{"kind": "plain", "text": ""}]


class Opening(TypedDict):
    """The beginning of a text for a small tile: its title, or "", and its first words."""

    title: str
    text: str


def opening(parts: list[Part]) -> Opening:
    """Return the title and the beginning of a text, without the quotations.

    The title is the subject in the header. Without a subject it is the header's first line, and without a
    header it is "". A paragraph that introduces a quotation and ends in a colon is left out, too. If nothing
    else is left, the quotations are kept.
    """
    heads = [part["text"] for part in parts if part["kind"] == "head"]
    subject = _SUBJECT.search(heads[0]) if heads else None
    title = subject[1] if subject else heads[0].partition("\n")[0] if heads else ""
    body = [part for part in parts if part["kind"] != "head"]
    quoted = [part["kind"].startswith("quote") for part in body]
    own = [
        part["text"]
        for part, is_quoted, is_before in zip(body, quoted, [*quoted[1:], False], strict=True)
        if not is_quoted and not (is_before and part["text"].rstrip().endswith(":"))
    ]
    text = " ".join("\n".join(own or [part["text"] for part in body]).split())
    shown = text if len(text) <= OPENING else f"{text[:OPENING].rstrip()} …"
    return {"title": " ".join(title.split()), "text": shown}


def _paragraphs(lines: list[str]) -> Iterator[Part]:
    """Yield a part for each run of lines with the same depth of quotation, without the marks ">" and "|"."""
    marked = [(_QUOTE.match(line), line) for line in lines]
    bare = [
        (len(re.findall("[>|]", mark[0])), line[mark.end() :]) if mark else (0, line) for mark, line in marked
    ]
    for (depth, has_letters), run in groupby(bare, lambda pair: (pair[0], bool(pair[1].strip()))):
        own = [line for _, line in run]
        if not has_letters:
            continue
        if any(_COLUMNS.search(line) or _DRAWN.search(line) for line in own):
            yield {"kind": "kept", "text": "\n".join(own)}
        else:
            yield {"kind": ("plain", "quote", "quote deeper")[min(depth, 2)], "text": _joined(own)}


def _joined(lines: list[str]) -> str:
    """Join lines: a full line continues in the next one, a short line keeps its line break."""
    whole = lines[0].strip()
    for before, line in pairwise(lines):
        whole += (" " if len(before) >= _FULL_LINE else "\n") + line.strip()
    return whole
