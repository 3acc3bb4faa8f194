"""Hooks of MkDocs, which include files of the repository and draw figures into the pages.

Links in the sources lead to real files (`../assets/label-desktop-light.png`, `../SECURITY.md`), so that the
pages can be read in the repository as well. Here they become links of the site.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import click
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]

PAGES = {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md"}
"""Documents in the root of the repository, and their names in the site."""

COMMANDS = "<!-- commands -->"
"""Stands where the commands are described."""

DARK, LIGHT = "-dark.png", "-light.png"


def on_files(files: Files, config: Any) -> Files:
    """Add the root's documents, the pictures and the icon."""
    pictures = {path: f"assets/{path.name}" for path in sorted((ROOT / "assets").glob("*.*"))}
    icon = {ROOT / "app" / "static" / "icon.svg": "assets/icon.svg"}
    pages = {ROOT / name: page for name, page in PAGES.items()}
    for path, name in {**pictures, **icon, **pages}.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for notebook in sorted((ROOT / "docs").glob("*.ipynb")):
        content = page_of(json.loads(notebook.read_text("utf-8")))
        files.append(File.generated(config, notebook.with_suffix(".md").name, content=content))
    return files


def page_of(notebook: dict[str, Any]) -> str:
    """Return a notebook as Markdown: its texts, its code and the outputs that are saved in it."""
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        parts += map(_output, cell.get("outputs", ()))
    return "\n\n".join(parts)


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {"text/plain": output.get("text", "")})
    for kind in ("image/png", "image/jpeg"):
        if kind in data:
            return f'<img alt="Output of the cell above" src="data:{kind};base64,{data[kind].strip()}">'
    return f"```text\n{''.join(data['text/plain']).rstrip()}\n```"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links to files of the repository into links of the site, and put drawings into the page."""
    if page.file.src_uri in PAGES.values():
        markdown = re.sub(r"\]\(docs/", "](", markdown)
        markdown = re.sub(r"\]\((?=[A-Z]+\.md)", "](../", markdown)
    for name, uri in PAGES.items():
        markdown = markdown.replace(f"](../{name}", f"]({uri}")
    markdown = re.sub(r"\]\(([\w-]+)\.ipynb", r"](\1.md", markdown)
    if COMMANDS in markdown:
        from closecall.app.cli.main import main

        markdown = markdown.replace(COMMANDS, "\n".join(described(main, "closecall")))
    markdown = markdown.replace("](../assets/", "](assets/")
    markdown = re.sub(r"!\[([^\]]*)\]\((assets/[\w-]+)-light\.png\)", _in_both_schemes, markdown)
    return re.sub(r"!\[([^\]]*)\]\((images/[\w-]+\.svg)\)", _inline, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Show the references of docstrings as readers expect them: [1], not [1]_ or .. [1]."""
    return re.sub(r"(?:\.\. )?\[(\d+)\](?:_(?!\w))?", r"[\1]", html)


def described(command: click.Command, path: str, depth: int = 2) -> Iterator[str]:
    """Describe a command, its options, and the commands below it, in Markdown."""
    context = click.Context(command, info_name=path)
    yield f"{'#' * depth} {path}\n"
    text, _, columns = inspect.cleandoc(command.help or "").partition("\b\n")
    yield f"{text.strip()}\n"
    if columns:
        yield f"```text\n{columns.rstrip()}\n```\n"
    yield f"```text\n{path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    options = [one for one in command.get_params(context) if one.opts[-1].startswith("--")]
    options = [one for one in options if one.opts[-1] != "--help"]
    if options:
        yield "<table><thead><tr><th>Option</th><th>Meaning</th></tr></thead><tbody>"
        for name, meaning in filter(None, (option.get_help_record(context) for option in options)):
            yield f"<tr><td><code>{escape(name)}</code></td><td>{escape(' '.join(meaning.split()))}</td></tr>"
        yield "</tbody></table>\n"
    below = getattr(command, "commands", None) or getattr(command, "others", {})
    for name in sorted(below):
        yield from described(below[name], f"{path} {name}", depth=3)


def _in_both_schemes(found: re.Match[str]) -> str:
    """Show a light picture to readers of light pages, and its dark twin, if there is one, to the others."""
    text, stem = found.groups()
    if not (ROOT / f"{stem}{DARK}").is_file():
        return found[0]
    return f"![{text}]({stem}{LIGHT}#only-light) ![{text}]({stem}{DARK}#only-dark)"


def _inline(found: re.Match[str]) -> str:
    """Put a drawing into the page, where it follows the reader's light or dark."""
    text, name = found.groups()
    svg = (ROOT / "docs" / name).read_text("utf-8").strip()
    svg = re.sub(r"\n\s*\n", "\n", svg)
    return f'<figure class="drawing" role="img" aria-label="{text}">\n{svg}\n</figure>\n'
