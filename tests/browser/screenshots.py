"""Takes the documentation's pictures from the running demo::

    python -m tests.browser.screenshots --data DIR [--items 1000000] [--answers 60]

The demo's projects are in DIR, where they are made if they are not there; an annotator labels some digits
first, truthfully but for a slip now and then. The pictures go to assets/.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from closecall.core.map import build_map
from closecall.core.pool.pool import Pool
from closecall.storage import Concepts, Database
from tests import chromium
from tests.browser.alike import Alike
from tests.browser.labeling import Labeling
from tests.browser.reviewing import Reviewing
from tests.browser.served import Server, free_port
from tests.browser.sitting import truth_of

ASSETS = Path(__file__).parents[2] / "assets"

SCREENS = {"desktop": (1440, 900, 1), "phone": (390, 844, 2)}
"""Width and height in CSS pixels, device pixels each."""

OTHER_DIGITS = "0123"
"""Asked about beside the demo's 7, where one press gives a class."""

LEAST_SECONDS_A_LABEL = 0.2

PATIENCE = 60_000

BUILDING = 1_800_000
"""The indexes of all strategies over a million items take a while, the first time."""

RACED = 128
"""Rounds of the race that is shown."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--answers", type=int, default=60)
    asked = parser.parse_args()
    server = Server(asked.data, items=asked.items, port=free_port())
    server.start()
    build_map(Pool.open(server.pool))
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium.find(), args=["--no-sandbox"])
            session = label(browser, server, asked.answers)
            classes = label_classes(browser, server)
            for screen in SCREENS:
                for scheme in ("light", "dark"):
                    shoot(browser, server, session, classes, screen, scheme)
            browser.close()
    finally:
        server.stop()


def label(browser: Browser, server: Server, answers: int) -> str:
    """Answer as the truth says, with a skip and a slip now and then; the session's id."""
    labeling = Labeling(browser.new_page(), f"{server.url}/?project={server.key}")
    truth = truth_of(server, "7")
    audit(labeling, server)
    for turn in range(answers):
        slips = turn % 30 == 20
        says_yes = (truth(labeling.item) == "yes") != slips
        labeling.press("s" if turn % 40 == 30 else "y" if says_yes else "n")
        labeling.page.wait_for_timeout(1000 * LEAST_SECONDS_A_LABEL)
    return labeling.session


def label_classes(browser: Browser, server: Server, answers: int = 24) -> str:
    """Ask about more digits than the demo's 7 and answer about all of them at once; the session's id."""
    with Database.open(server.database) as database:
        for digit in OTHER_DIGITS:
            if Concepts(database).named(digit) is None:
                Concepts(database).create(digit, f"Is this a {digit}?")
    labeling = Labeling(browser.new_page(), f"{server.url}/?project={server.key}&session=new&classes=1")
    pool = Pool.open(server.pool)
    for _ in range(answers):
        digit = pool.classes[int(pool.truth([labeling.item])[0])]
        labeling.press(digit if digit in f"7{OTHER_DIGITS}" else "n")
    return labeling.session


def audit(labeling: Labeling, server: Server) -> None:
    """Let one item in ten be for the audit, and come back."""
    page, session = labeling.page, labeling.session
    page.goto(f"{server.url}/progress?project={server.key}&session={session}")
    page.get_by_role("radio", name="10").click()
    expect(page.get_by_role("radio", name="10")).to_be_checked()
    page.goto(f"{server.url}/?project={server.key}&session={session}")
    labeling.wait()


def shoot(browser: Browser, server: Server, session: str, classes: str, screen: str, scheme: str) -> None:
    """The pages on one screen, light or dark."""
    width, height, scale = SCREENS[screen]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=scale,
        color_scheme="dark" if scheme == "dark" else "light",
        has_touch=screen == "phone",
    )
    page = context.new_page()
    Labeling(page, f"{server.url}/?project={server.key}&session={session}")
    page.mouse.move(0, 0)
    page.wait_for_timeout(1500)
    page.screenshot(path=ASSETS / f"label-{screen}-{scheme}.png")
    Reviewing(page, server.url, session)
    page.locator(".review .row").first.wait_for()
    page.screenshot(path=ASSETS / f"review-{screen}-{scheme}.png")
    page.goto(f"{server.url}/progress?project={server.key}&session={session}")
    expect(page.locator(".progress")).to_have_attribute("data-state", "shown", timeout=PATIENCE)
    page.wait_for_timeout(500)
    page.screenshot(path=ASSETS / f"progress-{screen}-{scheme}.png")
    compare(page, server, session, f"{screen}-{scheme}")
    similar(page, server, session, f"{screen}-{scheme}")
    show_map(page, server, session, f"{screen}-{scheme}")
    page.goto(f"{server.url}/?project={server.key}&session={session}&grid=28")
    page.locator(".grid .cells img").first.wait_for()
    page.wait_for_timeout(1500)
    for key in "yynnny":
        page.keyboard.press(key)
    page.wait_for_timeout(300)
    page.screenshot(path=ASSETS / f"grid-{screen}-{scheme}.png")
    page.goto(f"{server.url}/?project={server.key}&session={classes}&classes=1")
    page.locator(".answers.classes").wait_for()
    page.wait_for_timeout(1500)
    page.screenshot(path=ASSETS / f"classes-{screen}-{scheme}.png")
    page.goto(f"{server.url}/projects")
    page.get_by_role("heading", name="Projects").wait_for()
    page.wait_for_timeout(2500)
    page.screenshot(path=ASSETS / f"start-{screen}-{scheme}.png")
    context.close()


def similar(page: Page, server: Server, session: str, name: str) -> None:
    """What is like all yes answers, by the metric that the labels taught beside the original one."""
    alike = Alike(page, f"{server.url}/similar?project={server.key}&session={session}&like=yes")
    alike.wait()
    alike.pick("metric", "Side by side")
    expect(page.locator(".lists")).to_have_attribute("data-lists", "2", timeout=BUILDING)
    alike.wait()
    page.mouse.move(0, 0)
    page.wait_for_timeout(500)
    page.screenshot(path=ASSETS / f"similar-{name}.png")


def show_map(page: Page, server: Server, session: str, name: str) -> None:
    """The map, coloured by the last hyperplane."""
    page.goto(f"{server.url}/map?project={server.key}&session={session}")
    page.locator(".map[data-hyperplane=true][data-settled=true]").wait_for(timeout=PATIENCE)
    page.mouse.move(0, 0)
    page.wait_for_timeout(500)
    page.screenshot(path=ASSETS / f"map-{name}.png")


def compare(page: Page, server: Server, session: str, name: str) -> None:
    """The last hyperplanes put to all strategies, and a race after some rounds."""
    where = f"{server.url}/compare?project={server.key}&session={session}"
    page.goto(f"{where}&view=hyperplane")
    page.locator(".compare[data-state=shown] .line").first.wait_for(timeout=BUILDING)
    page.wait_for_timeout(500)
    page.screenshot(path=ASSETS / f"compare-{name}.png")
    page.goto(f"{where}&view=race")
    page.locator(".race[data-state=shown] .line").first.wait_for(timeout=BUILDING)
    page.keyboard.press("Space")
    while int(page.locator(".race").get_attribute("data-rounds") or 0) < RACED:
        page.wait_for_timeout(200)
    page.keyboard.press("Space")
    expect(page.locator(".race")).to_have_attribute("data-running", "false", timeout=PATIENCE)
    page.wait_for_timeout(500)
    page.screenshot(path=ASSETS / f"race-{name}.png")


if __name__ == "__main__":
    main()
