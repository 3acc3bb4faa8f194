"""LibreOffice for the tests; ``python -m tests.peers.libreoffice`` installs Debian's package where it may.

Its packages are a few hundred megabytes, so only the long tests insist on it.
"""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

from tests import debian
from tests.folders import fresh_folder
from tests.peers.program import Program

PROGRAM = Program(
    "LibreOffice",
    "LIBREOFFICE",
    ("soffice", "libreoffice"),
    "libreoffice",
    lambda: debian.install("libreoffice-calc"),
)

COMMAS_UTF_8 = "Text - txt - csv (StarCalc):44,34,76,1"
"""Filter for CSV. Its dialog proposes UTF-8 for a file with a byte order mark; without a window there is no
dialog, so that the filter has to be told."""

OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"


def convert(program: Path, file: Path, suffix: str, options: str = "") -> Path:
    """Let LibreOffice read a CSV file and write it in another format; returns the written file."""
    folder = fresh_folder()
    profile = f"-env:UserInstallation=file://{folder / 'profile'}"
    target = ["--convert-to", f"{suffix}:{options}" if options else suffix, "--outdir", folder / "out"]
    subprocess.run(
        [program, profile, "--headless", f"--infilter={COMMAS_UTF_8}", *target, file],
        check=True,
        capture_output=True,
        timeout=240,
    )
    return folder / "out" / f"{file.stem}.{suffix}"


def cells(program: Path, file: Path) -> list[list[tuple[str, str]]]:
    """Return the rows of a CSV file as LibreOffice reads it: type, and number or text, of each cell."""
    rows = []
    for row in ET.parse(convert(program, file, "fods")).iter(f"{TABLE}table-row"):
        found: list[tuple[str, str]] = []
        for cell in row:
            times = int(cell.get(f"{TABLE}number-columns-repeated", "1"))
            found += [(cell.get(f"{OFFICE}value-type", ""), _content(cell))] * times
        rows += [found] * int(row.get(f"{TABLE}number-rows-repeated", "1"))
    return rows


def _content(cell: ET.Element) -> str:
    """Return a number in full, and other values as they are shown."""
    number = cell.get(f"{OFFICE}value")
    return number or "\n".join(_text(paragraph) for paragraph in cell.iter(f"{TEXT}p"))


def _text(element: ET.Element) -> str:
    """The text of an element, in which blanks and tabs are elements."""
    if element.tag == f"{TEXT}s":
        return " " * int(element.get(f"{TEXT}c", "1"))
    if element.tag == f"{TEXT}tab":
        return "\t"
    return (element.text or "") + "".join(_text(child) + (child.tail or "") for child in element)


if __name__ == "__main__":
    PROGRAM.provide()
