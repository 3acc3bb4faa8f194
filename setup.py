"""Names the packages of the wheel, and its description, where the metadata can't be written as plain data."""

import re
from pathlib import Path

from setuptools import find_namespace_packages, setup

FOLDERS = ["app", "client", "core", "storage"]
"""What lies in a top-level folder is imported as part of `closecall`."""


def description(readme: str) -> str:
    """Return the README as a package index shows it: without its picture, and links only to other sites.

    Files of the repository have no public address there, so a link to one would lead nowhere.
    """
    readme = re.sub(r"<!-- picture -->.*?<!-- end of picture -->\n*", "", readme, flags=re.DOTALL)
    return re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?://)[^)]*\)", r"\1", readme)


if __name__ == "__main__":
    setup(
        long_description=description((Path(__file__).parent / "README.md").read_text("utf-8")),
        long_description_content_type="text/markdown",
        packages=[
            f"closecall.{name}"
            for name in find_namespace_packages(include=[*FOLDERS, *(f"{folder}.*" for folder in FOLDERS)])
            if "__pycache__" not in name
        ],
    )
