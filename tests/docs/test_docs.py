"""Documents say what is true: their commands parse, their code compiles, their links and pictures exist."""

from __future__ import annotations

import ast
import importlib.util
import operator
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import click
import pytest

from closecall.app.cli.main import main
from closecall.app.display.strategy_labels import FAMILY_LABELS
from closecall.app.indexes.settings import OFFERED
from closecall.app.indexes.similar import METHODS
from closecall.core.selection import strategy_from
from closecall.core.sources.words import FORMS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

IN_ROOT = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
PAGES = [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in IN_ROOT)]

MOST_WORDS = 1_200
"""Of the README."""

BLOCK = re.compile(
    r"^(?P<fence>```+)(?P<kind>[\w-]*)[^\n]*\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"(?P<picture>!?)\[(?:[^\]\[]|\[[^\]]*\])*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
OTHER_SITES = ("https://", "http://")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def prose_of(page: Path) -> str:
    """A page without its blocks of code, where nothing is a link or a heading."""
    return BLOCK.sub("", text_of(page))


def blocks(kind: str | None = None) -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for block in BLOCK.finditer(text_of(page)):
            if kind is None or block["kind"] == kind:
                yield page, block["text"]


def command_lines() -> list[tuple[str, str]]:
    """Every line of a block that runs the program, and those in code spans that are more than a name."""
    found = []
    for page, text in blocks():
        found += [(name_of(page), line) for line in text.splitlines() if line.startswith("closecall ")]
    for page in PAGES:
        spans = CODE.findall(prose_of(page))
        found += [(name_of(page), span) for span in spans if span.startswith("closecall ") and " --" in span]
    return found


def all_commands(
    command: click.Command = main, path: str = "closecall"
) -> Iterator[tuple[str, click.Command]]:
    """A command and those below it, by how they are called."""
    yield path, command
    below = getattr(command, "commands", None) or getattr(command, "others", {})
    for name, one in below.items():
        yield from all_commands(one, f"{path} {name}")


def parsed(words: list[str]) -> click.Context:
    """The context of the command that these words call, parsed as the program would, and not run."""
    command: click.Command = main
    name = "closecall"
    while isinstance(command, click.Group):
        name, words = words[0], words[1:]
        if name not in command.commands:
            raise click.UsageError(f"there is no command {name}")
        command = command.commands[name]
    return command.make_context(name, words)


def is_complete(words: list[str]) -> bool:
    """Whether a line shows a whole command, and not only what it is about."""
    return not {"COMMAND", "--help", "…"} & set(words)


@pytest.mark.parametrize(("page", "line"), command_lines())
def test_every_command_line_parses(page, line, monkeypatch):
    """Options, arguments and choices are the program's; `…` and COMMAND stand for what is left out."""
    monkeypatch.setattr("closecall.app.cli.main._begin_events", lambda *_: None)
    words = shlex.split(line, comments=True)[1:]
    if not is_complete(words):
        return
    try:
        context = parsed(words)
    except click.MissingParameter:
        if f"`{line}`" not in text_of(ROOT / page):  # a sentence may leave out what it is not about
            raise
        return
    for strategy in context.params.get("strategies") or ():
        if not strategy.startswith("similar"):
            strategy_from(strategy)


WRONG = (
    "serv x",
    "demo --itmes 5",
    "demo --items many",
    "backup one",
    "export x --format xls",
    "compare similar --bits",
    "pool info one two",
)


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_command_line_is_found(words):
    """So that the test before can fail."""
    with pytest.raises(click.UsageError):
        parsed(words.split())


def test_there_are_command_lines():
    """Enough of them that the pattern works, of every command on the top level."""
    called = {line.split()[1] for _, line in command_lines()}
    assert set(main.commands) - called == set()


def test_every_command_and_option_explains_itself():
    """The command reference consists of their help texts."""
    silent = []
    for path, command in all_commands():
        if not command.help:
            silent.append(path)
        options = [one for one in command.params if isinstance(one, click.Option)]
        silent += [f"{path} {option.opts[-1]}" for option in options if not option.help]
    assert silent == []


@pytest.mark.parametrize(("page", "text"), [(name_of(page), text) for page, text in blocks("python")])
def test_python_blocks_compile_and_import_what_exists(page, text):
    """They are not run; modules and names of ours must be there."""
    for node in ast.walk(ast.parse(text, page)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("closecall"):
            module = importlib.import_module(node.module)
            assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []
        elif isinstance(node, ast.Import):
            for alias in node.names:
                assert importlib.util.find_spec(alias.name), alias.name


def test_the_programs_on_the_page_are_those_that_are_tried():
    """`tests/programs.py` runs them while the server is killed."""
    shown = [text for page, text in blocks("python") if page.name == "programs.md"]
    for name in ("label", "read"):
        assert text_of(ROOT / "tests" / "fixtures" / "programs" / f"{name}.py") in shown
    assert len(shown[0].splitlines()) <= 20


@pytest.mark.parametrize("page", ["python.md", "programs.md"])
def test_the_python_reference_names_what_exists(page):
    """Its entries are read from the sources when the site is built."""
    entries = re.findall(r"^::: ([\w.]+)$", text_of(DOCS / page), re.MULTILINE)
    assert entries
    for entry in entries:
        module, _, name = entry.rpartition(".")
        assert hasattr(importlib.import_module(module), name), entry


def anchors(page: Path) -> set[str]:
    """As Python-Markdown names them, and those that are generated."""
    found = {slug(heading) for heading in HEADING.findall(prose_of(page))}
    if page.name == "commands.md":
        found |= {slug(path) for path, _ in all_commands()}
    return found


def slug(heading: str) -> str:
    plain = re.sub(r"[`*]", "", heading)
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_anchors_and_pictures_exist(page):
    """Inside the repository: nothing is asked of other sites."""
    broken = []
    for link in LINK.finditer(prose_of(page)):
        target = link["target"]
        if target.startswith(OTHER_SITES):
            continue
        path, _, anchor = target.partition("#")
        where = (page.parent / unquote(path)).resolve() if path else page
        if not where.is_file() or (anchor and anchor not in anchors(where)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tables_have_whole_rows(page):
    """A bar inside of a cell, as in |w|, would begin another one."""
    for table in re.findall(r"(?:^\|.*\n)+", prose_of(page), re.MULTILINE):
        rows = table.splitlines()
        assert {row.count("|") - row.count("\\|") for row in rows} == {rows[1].count("|")}, rows[0]


def test_every_page_is_in_the_navigation():
    """And each entry has its page; three documents of the root are taken in, and notebooks become pages."""
    named = set(
        re.findall(r"^ +- [^:\n]+: ([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    )
    taken_in = {name.lower() for name in IN_ROOT if name != "README.md"}
    taken_in |= {notebook.with_suffix(".md").name for notebook in DOCS.glob("*.ipynb")}
    assert named == {page.name for page in DOCS.rglob("*.md")} | taken_in


def test_the_site_asks_no_other_site():
    """Readers may be offline, and nobody else learns what they read."""
    config = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert "font: false" in config
    ours = [DOCS / "hooks.py", *(DOCS / "assets").iterdir(), *(DOCS / "images").iterdir()]
    for text in (config, *(path.read_text("utf-8") for path in ours)):
        assert not re.search(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[\w-]+\.\w", text.replace("file:", ""))


def test_the_readme_is_short():
    """Everything else has a page of its own."""
    assert len(text_of(ROOT / "README.md").split()) <= MOST_WORDS


def test_the_readmes_figures_are_those_of_the_benchmarks():
    """A figure that is measured again is written in both places."""
    rows = [line for line in text_of(ROOT / "README.md").splitlines() if re.match(r"\|.*\d/\d|\| Exh", line)]
    assert len(rows) > 5
    assert [row for row in rows if row not in text_of(DOCS / "benchmarks-selection.md").splitlines()] == []


def test_a_package_index_shows_no_broken_link():
    """The README's picture and its links to files lead nowhere there: setup.py leaves them out."""
    spec = importlib.util.spec_from_file_location("closecall_setup", ROOT / "setup.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shown = module.description(text_of(ROOT / "README.md"))
    assert all(link["target"].startswith(OTHER_SITES) for link in LINK.finditer(shown))
    assert "<!--" not in shown
    assert "Get started, Label" in shown


def test_every_source_is_described():
    """Every form of SOURCE stands in the table of Sources."""
    words = re.findall(r"([a-z0-9]+)(?=\[?:)", FORMS)
    assert len(words) > 8
    assert [word for word in words if f"| `{word}:" not in text_of(DOCS / "sources.md")] == []


def test_the_architecture_names_files_that_exist():
    """A path in the tree leads somewhere."""
    missing = []
    for span in CODE.findall(text_of(DOCS / "architecture.md")):
        if re.fullmatch(r"(?:app|client|core|storage|tests)/[\w./-]*", span):
            missing += [] if (ROOT / span).exists() else [span]
        elif re.fullmatch(r"[\w/]+\.(?:py|js)", span):
            missing += [] if any(ROOT.glob(f"[acs]*/**/{span}")) else [span]
    assert missing == []


def resolves(dotted: str) -> bool:
    """Whether a name below `closecall` leads to a module, or to what a module has."""
    parts = dotted.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(["closecall", *parts[:n]]))
        except ModuleNotFoundError as error:
            if not f"closecall.{dotted}".startswith(str(error.name)):
                raise
            continue
        try:
            return operator.attrgetter(".".join(parts[n:]))(found) is not None if parts[n:] else True
        except AttributeError:
            return False
    return False


def dotted_names(page: Path) -> list[str]:
    """Names of modules, classes and functions in code spans: `core.hashing.lsh`, not a file."""
    return [
        span
        for span in CODE.findall(prose_of(page))
        if re.fullmatch(r"(?:app|client|core|storage)(?:\.\w+)+", span) and not span.endswith((".py", ".js"))
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_name_modules_that_exist(page):
    """With their classes, functions and attributes."""
    assert [name for name in dotted_names(page) if not resolves(name)] == []


def test_a_wrong_name_is_found():
    """So that the test before can fail, and has something to check."""
    assert len(dotted_names(DOCS / "papers.md")) > 100
    assert resolves("core.search.tables.Guarantee.rho")
    assert not any(map(resolves, ("core.nowhere", "core.hashing.lsh.Nothing", "core.metric.itml.ITML.none")))


def test_the_papers_name_commands_that_exist():
    """Without options, too; lines with options are parsed above."""
    known = {path for path, _ in all_commands()}
    spans = [span for span in CODE.findall(prose_of(DOCS / "papers.md")) if span.startswith("closecall ")]
    called = {span.partition(" --")[0] for span in spans}
    assert len(called) > 3
    assert called - known == set()


def test_the_papers_name_codes_and_methods_of_the_page():
    """After "Find similar:" come a family or a method that the page offers, or the view Learned."""
    offered = {*(FAMILY_LABELS[name] for name in OFFERED), *(f"**{name}**" for name in METHODS.values())}
    named = re.findall(
        r"(?<![\w*])Find similar: ([^|;]+?)(?= \||;|, in sparse| with a)", prose_of(DOCS / "papers.md")
    )
    assert len(named) > 20
    assert set(named) - offered == {"**Learned**"}


def test_requirements_name_no_registry():
    """The user chooses the package index."""
    for path in ROOT.glob("requirements*.txt"):
        for line in path.read_text("utf-8").splitlines():
            assert re.fullmatch(r"[\w.-]+(\[\w+\])?==[\w.]+", line), f"{path.name}: {line}"
