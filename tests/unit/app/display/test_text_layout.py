"""How plain texts are set."""

from __future__ import annotations

import pytest

from closecall.app.display.text_layout import LONGEST_SHOWN, OPENING, opening, typeset

LINE = "This line of a mail is as long as such lines are, and goes on"
MAIL = f"""From: ann@example.org (Ann)
Subject: Re: bees
Organization: A Hive,
  in a tree
Article-I.D.: hive.12

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
            "text": "From: ann@example.org (Ann)\nSubject: Re: bees\nOrganization: A Hive,\n  in a tree\n"
            "Article-I.D.: hive.12",
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


def test_a_mail_opens_with_its_subject_and_its_own_words():
    """Other heads, quotations and who is quoted are left out."""
    said = opening(typeset(MAIL))
    assert said["title"] == "Re: bees"
    assert said["text"].startswith(f"{LINE} in the next line. Short lines stay.")


@pytest.mark.parametrize(
    ("text", "title", "begins"),
    [
        ("From: ann\nTo: bob\n\nIt rains.", "From: ann", "It rains."),
        ("It rains.\n\nAll day: yes.", "", "It rains. All day: yes."),
        ("Bob wrote:\n> It rains.", "", "Bob wrote: It rains."),
        ("Note:\n\nit rains.", "", "Note: it rains."),
        ("", "", ""),
    ],
    ids=["no subject", "no head", "nothing but a quotation", "no quotation follows", "empty"],
)
def test_whatever_a_text_is_it_opens_with_something(text, title, begins):
    """As long as there is any."""
    assert opening(typeset(text)) == {"title": title, "text": begins}


def test_an_opening_is_short():
    """Also of a text that has no spaces."""
    for text in ("word " * 1000, "語" * 5000):
        said = opening(typeset(text))["text"]
        assert OPENING < len(said) + 2 <= OPENING + 4
        assert said.endswith(" …")
