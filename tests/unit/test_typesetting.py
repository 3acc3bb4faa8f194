"""How plain texts are set."""

from __future__ import annotations

import pytest

from app.typesetting import LONGEST_SHOWN, typeset

LINE = "This line of a mail is as long as such lines are, and goes on"
MAIL = f"""From: ann@example.org (Ann)
Subject: Re: bees
Organization: A Hive,
  in a tree

Bob wrote:
> {LINE}
> in the next.
>
> > Deeper.
>> As deep.

{LINE}
in the next line.
Short lines
stay.

  name      count
  bees      1,000
"""


def test_a_mail_is_set_in_its_parts():
    """Head, paragraphs, quotations without their marks, and columns as they are."""
    assert typeset(MAIL) == [
        {
            "kind": "head",
            "text": "From: ann@example.org (Ann)\nSubject: Re: bees\nOrganization: A Hive,\n  in a tree",
        },
        {"kind": "plain", "text": "Bob wrote:"},
        {"kind": "quote", "text": f"{LINE} in the next."},
        {"kind": "quote deeper", "text": "Deeper.\nAs deep."},
        {"kind": "plain", "text": f"{LINE} in the next line.\nShort lines\nstay."},
        {"kind": "kept", "text": "  name      count\n  bees      1,000"},
    ]


@pytest.mark.parametrize("text", ["", "   \n \n", "one", "a\n\n\n\nb", "<b>bold</b> & so on"])
def test_letters_are_kept_as_they_are(text):
    """Nothing is lost but blanks, and nothing is taken for markup."""
    assert "".join("".join(part["text"] for part in typeset(text)).split()) == "".join(text.split())


def test_a_very_long_text_is_cut_and_says_so():
    """The card shows a beginning."""
    parts = typeset("word " * LONGEST_SHOWN)
    assert parts[-1]["text"] == "…"
    assert sum(len(part["text"]) for part in parts) < LONGEST_SHOWN + 2
