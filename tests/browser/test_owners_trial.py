"""An owner's way through the documents: a team on PostgreSQL signs in, disagrees, is backed up, and moves."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Page, expect

from closecall.app.cli.main import main
from tests import postgres
from tests.browser.labeling import Labeling
from tests.browser.served import Server, free_port
from tests.openid import Account, Provider, serving

ADA = Account("ada@example.org", "Ada Lovelace")
BOB = Account("bob@example.org", "Bob")
CLEO = Account("cleo@example.org", "Cleo")
TEAM = ["--owner", ADA.email, "--annotator", "@example.org"]

N_IMAGES = 60
ANSWERS = 4
"""Each person's."""

ERRORS = 2
"""Of one of them."""

pytestmark = pytest.mark.skipif(postgres.find() is None, reason=postgres.NOT_RUN)


class TeamServer(Server):
    """``closecall serve herbarium`` for a team."""

    key = "herbarium"

    def command(self) -> list[str]:
        return ["serve", str(self.data / self.key), *TEAM, "--headless", "--port", str(self.port)]


def closecall(*words: str) -> str:
    """What a command prints; it must succeed."""
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.stdout


def draw_leaves(folder: Path) -> None:
    """Half of the images are leaves, or nearly so."""
    folder.mkdir(parents=True)
    for number in range(N_IMAGES):
        image = Image.new("RGB", (64, 64), "white")
        pen, shift = ImageDraw.Draw(image), number % 7
        if number % 2:
            pen.ellipse((20 + shift, 4, 40 + shift, 60 - number % 5), fill=(20, 90 + number, 30))
        else:
            pen.rectangle((6 + shift, 20, 50 + shift, 40 + number % 9), fill=(120, 60 + number, 20))
        image.save(folder / f"{number:03}-{'leaf' if number % 2 else 'stone'}.png")


@pytest.fixture(scope="module")
def databases() -> Iterator[tuple[str, str]]:
    """Addresses of two empty databases."""
    with postgres.running() as server:
        names = ("labels", "elsewhere")
        with psycopg.connect(server.address, autocommit=True) as connection:
            for name in names:
                connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
        yield tuple(server.address.replace("/postgres?", f"/{name}?") for name in names)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of whoever runs the server."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".streamlit").mkdir()
    return tmp_path


@pytest.mark.thorough
def test_an_owner_sets_up_a_team_and_moves_it(
    home: Path, databases: tuple[str, str], browser: Browser
) -> None:
    """Everything that three people said, and what was decided, is there again in another database."""
    draw_leaves(home / "pictures")
    here, there = (TeamServer(home / name, N_IMAGES, free_port()) for name in ("here", "there"))
    project, copied = (str(server.data / server.key) for server in (here, there))
    backup = str(home / "labels.backup")
    asked = ["--images", str(home / "pictures"), "--question", "Is it a leaf?", "--database", databases[0]]
    closecall("new", project, *asked)
    with serving([ADA, BOB, CLEO], [callback(here), callback(there)]) as provider:
        with served(here, provider, home):
            label(here, browser)
            figures = decide(here, browser)
            told = closecall("export", project)
            closecall("backup", project, backup)
        labels = list(csv.DictReader(io.StringIO(told)))
        assert len(labels) == ANSWERS
        shutil.copytree(here.data, there.data)
        said = closecall("restore", backup, copied, "--database", databases[1])
        assert re.search(".*/there/herbarium now keeps its labels in postgresql://.*/elsewhere", said)
        assert closecall("export", copied) == told
        assert "The log holds." in closecall("verify", copied)
        with served(there, provider, home):
            ada = arrive(browser, there, ADA)
            assert figures_of(ada.page, there) == figures
            ada.page.context.close()


def label(server: Server, browser: Browser) -> None:
    """Three people label the same images, and one of them errs twice."""
    ada = arrive(browser, server, ADA)
    ada.page.get_by_role("button", name="Settings").click()
    ada.page.get_by_label("People per item").fill("3")
    ada.page.keyboard.press("Enter")
    ada.page.get_by_role("combobox", name="Rounds for another opinion").click()
    share = ada.page.get_by_role("option", name="100 %")
    share.click()
    expect(share).to_be_hidden()  # until then Escape closes the list alone
    ada.page.keyboard.press("Escape")
    expect(ada.page.get_by_label("People per item")).to_be_hidden()  # until then keys are the settings'
    ada.wait()
    seen = []
    for person in (ADA, BOB, CLEO):
        labeling = ada if person is ADA else arrive(browser, server, person)
        items = []
        for turn in range(ANSWERS):
            items.append(labeling.item)
            errs = person is BOB and turn < ERRORS
            labeling.press("y" if is_leaf(labeling.item) != errs else "n")
        labeling.wait_until_saved()  # what is unsent is lost with the browser's context
        seen.append(sorted(items))
        labeling.page.context.close()
    assert seen[0] == seen[1] == seen[2]


def decide(server: Server, browser: Browser) -> list[str]:
    """The owner decides what they disagree on; what the People page says then."""
    page = arrive(browser, server, ADA).page
    page.goto(f"{server.url}/people?view=decide")
    card = page.locator(".card:not(.people)")
    for _ in range(ERRORS):
        expect(card).to_have_attribute("data-answerable", "true", timeout=30_000)
        item = card.get_attribute("data-painted-item") or ""
        page.keyboard.press("y" if is_leaf(int(item)) else "n")
        expect(card).not_to_have_attribute("data-painted-item", item, timeout=30_000)
    expect(page.get_by_text("There is nothing to decide")).to_be_visible(timeout=30_000)
    figures = figures_of(page, server)
    page.context.close()
    return figures


def arrive(browser: Browser, server: Server, person: Account) -> Labeling:
    """A browser of their own, in which they sign in and begin."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(server.url)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name=person.name, exact=True).click()
    expect(page.get_by_role("link", name=person.name)).to_be_visible(timeout=30_000)
    expect(page.locator(".card")).to_have_attribute("data-answerable", "true", timeout=30_000)
    return Labeling(page, page.url)


def figures_of(page: Page, server: Server) -> list[str]:
    """Names, numbers of answers, and how far people agree."""
    page.goto(f"{server.url}/people")
    expect(page.locator(".people")).to_have_attribute("data-state", "shown", timeout=30_000)
    parts = (".people h1", ".people tbody th", ".people tbody td:nth-child(3)", ".people .value")
    return [text for part in parts for text in page.locator(part).all_inner_texts()]


def is_leaf(item: int) -> bool:
    """Items are numbered like the images that were drawn."""
    return item % 2 == 1


def callback(server: Server) -> str:
    return f"{server.url}/oauth2callback"


@contextmanager
def served(server: Server, provider: Provider, home: Path) -> Iterator[None]:
    """The server runs, with what the provider gave among its secrets, as long as the block lasts."""
    secrets = provider.secrets_toml().replace(provider.redirect_uris[0], callback(server))
    (home / ".streamlit" / "secrets.toml").write_text(secrets, "utf-8")
    server.start()
    try:
        yield
    finally:
        server.stop()
