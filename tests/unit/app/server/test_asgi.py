from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.components import answers_of
from closecall.app.display.theme import DARK, LIGHT, STRATEGY_COLOURS, page_style
from closecall.app.server.asgi import address, project_in, project_path, require_free_port, server_config
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.core.selection import strategy_names
from tests.projects import new_project, open_workspace


def test_a_port_in_use_is_refused_in_one_sentence() -> None:
    """Before anything is built or opened."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"Port {port} on 127.0.0.1 is in use.*--port"):
            require_free_port("127.0.0.1", port)
    require_free_port("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused() -> None:
    """192.0.2.1 is reserved for examples and never ours."""
    with pytest.raises(InputError, match=r"192\.0\.2\.1 is not an address of this machine"):
        require_free_port("192.0.2.1", 8501)


@pytest.mark.parametrize("key", ["digits", "C++", "R&D", "50 %", "a#b", "wo?", "Käfer=1", "x/y"])
def test_the_address_of_a_project_names_it_whatever_it_is_called(key: str) -> None:
    """A folder may be called anything; browsers and the server read the same from the address."""
    path = project_path(key)
    asked = urlsplit(address("127.0.0.1", 80) + path)
    assert parse_qs(asked.query) == {"project": [key]}
    assert asked.fragment == ""
    assert project_in(path) == key


def test_serving_one_project_opens_its_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the command line, too, which names its folder, and not that of all projects."""
    opened: list[str] = []
    served: list[Path] = []

    def serve(workspace: Workspace, _: object, *, path: str, **__: object) -> None:
        opened.append(path)
        served.append(workspace.served_folder)

    monkeypatch.setattr("closecall.app.server.asgi.require_free_port", lambda *_: None)
    monkeypatch.setattr("closecall.app.server.asgi.serve", serve)
    with open_workspace(tmp_path) as workspace:
        folder = new_project(workspace).folder
    folder = folder.rename(folder.with_name("R&D in C++"))
    ran = CliRunner().invoke(main, ["serve", str(folder)])
    assert ran.exit_code == 0, ran.output
    assert [parse_qs(urlsplit(path).query) for path in opened] == [{"project": ["R&D in C++"]}]
    with Workspace(tmp_path) as several:
        assert [*served, several.served_folder] == [folder, tmp_path]


@pytest.mark.parametrize(
    ("host", "url"),
    [("127.0.0.1", "http://127.0.0.1:80/"), ("0.0.0.0", "http://127.0.0.1:80/"), ("::1", "http://[::1]:80/")],
)
def test_the_address_can_be_opened_on_this_machine(host: str, url: str) -> None:
    """All interfaces are no address to open."""
    assert address(host, 80) == url


def test_nothing_is_sent_to_strangers() -> None:
    """No usage statistics, and only the address that was asked for."""
    config = server_config("127.0.0.1", 8600)
    assert config["server.address"] == "127.0.0.1"
    assert config["browser.gatherUsageStats"] is False


@pytest.mark.slow
def test_blas_has_one_thread_a_call() -> None:
    """Sessions share the cores; the libraries read how many threads they have when they are loaded."""
    asked = (
        "import closecall.app.sessions.workspace, threadpoolctl;"
        "print({i['num_threads'] for i in threadpoolctl.threadpool_info() if i['user_api'] == 'blas'})"
    )
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    said = subprocess.run([sys.executable, "-c", asked], env=free, capture_output=True, check=True)
    assert said.stdout.decode().strip() == "{1}"


def test_streamlit_knows_every_option() -> None:
    """A misspelt option would stop the server only when it starts."""
    from streamlit import config as known

    assert set(server_config("127.0.0.1", 8600)) <= set(known._config_options_template)


def test_every_strategy_has_a_colour_in_light_and_dark() -> None:
    """What can be picked can be drawn."""
    assert set(strategy_names()) <= set(STRATEGY_COLOURS)
    assert set(LIGHT) == set(DARK)
    style = page_style()
    assert all(f"--m-{name}:" in style for name in STRATEGY_COLOURS)


@pytest.mark.parametrize("state", [{}, {"pending": None}, {"pending": "x"}, {"pending": [1, "a"]}])
def test_nonsense_from_a_browser_is_no_answer(state: dict[str, object]) -> None:
    """Whatever is sent, only mappings come through to be checked further."""
    assert answers_of(state) == []
