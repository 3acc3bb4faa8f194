"""Caddy and nginx as the documentation configures them; ``python -m tests.proxies`` provides them.

The configuration is that of docs/operate.md. Only what a machine has of its own is replaced: names, ports,
and the paths of files. They are installed only under ``CI=true``, because Debian's packages start servers.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests import debian
from tests.waiting import until

Name = Literal["caddy", "nginx"]
Way = Literal["root", "kept", "removed"]

NAMES: tuple[Name, ...] = ("caddy", "nginx")
NOT_THERE = "is not installed: the tests of proxies do NOT run with it"

PREFIX = "/labels"
"""The path below which the documentation offers the pages."""

SERVER, OTHER_SERVER = "127.0.0.1:8501", "127.0.0.1:8502"
"""The servers' addresses in the documentation."""

UPGRADE = re.compile(r"^ *proxy_set_header (?:Upgrade|Connection) .*\n", re.MULTILINE)
"""The lines of nginx's configuration without which it does not pass on WebSockets."""

DOCUMENT = Path(__file__).parent.parent / "docs" / "operate.md"


def find(name: Name) -> str | None:
    """The path of a proxy's program."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")


def prefix_of(way: Way) -> str:
    return "" if way == "root" else PREFIX


@contextmanager
def running(
    name: Name, way: Way, port: int, to: int, folder: Path, *, upgrade: bool = True
) -> Iterator[None]:
    """Run a proxy at https://localhost:`port` that passes on to the server at the port `to`.

    Without `upgrade`, nginx lacks the settings for WebSockets.
    """
    make_certificate(folder)
    write = {"caddy": write_caddy, "nginx": write_nginx}[name]
    given = snippet(name) if upgrade else UPGRADE.sub("", snippet(name))
    with _running(name, write(given, way, port, to, folder), port, folder):
        yield


@contextmanager
def balancing(port: int, to: tuple[int, int], folder: Path) -> Iterator[None]:
    """Run Caddy at https://localhost:`port` in front of two servers, as documented for several servers."""
    make_certificate(folder)
    given = replaced(snippet("caddy", "Several servers"), OTHER_SERVER, f"127.0.0.1:{to[1]}")
    with _running("caddy", write_caddy(given, "root", port, to[0], folder), port, folder):
        yield


@contextmanager
def _running(name: Name, words: list[str], port: int, folder: Path) -> Iterator[None]:
    """Run a proxy's program with these arguments, until it is ended."""
    program = find(name)
    assert program is not None
    command = [program, *words]
    log = folder / "proxy.log"
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, env=_environment(folder))
    try:
        until(lambda: process.poll() is not None or _listens(port))
        assert process.poll() is None, log.read_text("utf-8", "replace")
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)


def snippet(name: Name, section: str = "Behind a proxy") -> str:
    """The proxy's configuration in a section of the documentation."""
    text = DOCUMENT.read_text("utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    (found,) = re.findall(rf"^```{name}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(found)


def of_path(name: Name, way: Way) -> list[str]:
    """What the documentation's table says about a path: the pieces of configuration, in their order."""
    row = {"kept": "Path kept", "removed": "Path removed"}[way]
    (line,) = [line for line in DOCUMENT.read_text("utf-8").splitlines() if line.startswith(f"| {row} |")]
    return re.findall(r"`([^`]+)`", line.split("|")[2 + NAMES.index(name)])


def write_caddy(given: str, way: Way, port: int, to: int, folder: Path) -> list[str]:
    """Write the configuration; returns the arguments of the program."""
    proxied = f"reverse_proxy {SERVER}"
    if way != "root":
        (piece,) = of_path("caddy", way)
        given = replaced(given, proxied, piece.replace("…", f"\n{proxied}\n"))
    own = f"https://localhost:{port} {{\ntls {folder / 'own.pem'} {folder / 'own.key'}\n"
    given = replaced(given, "label.example.org {\n", own)
    given = replaced(given, SERVER, f"127.0.0.1:{to}")
    (folder / "Caddyfile").write_text(f"{{\nadmin off\nauto_https disable_redirects\n}}\n{given}", "utf-8")
    return ["run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


def write_nginx(given: str, way: Way, port: int, to: int, folder: Path) -> list[str]:
    """Write the configuration; returns the arguments of the program."""
    if way != "root":
        location, passed = of_path("nginx", way)
        given = replaced(given, "location / {", f"{location} {{")
        given = replaced(given, f"proxy_pass http://{SERVER};", passed)
    own = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "server_name label.example.org": "server_name localhost",
        "/etc/ssl/label.example.org.pem": str(folder / "own.pem"),
        "/etc/ssl/label.example.org.key": str(folder / "own.key"),
        SERVER: f"127.0.0.1:{to}",
    }
    for before, after in own.items():
        given = replaced(given, before, after)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = "".join(f"{kind}_temp_path {folder / kind};\n" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off;\nworker_processes 1;\npid {folder / 'nginx.pid'};\nerror_log stderr;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{folders}{given}}}\n",
        "utf-8",
    )
    return ["-p", str(folder), "-c", str(folder / "nginx.conf")]


def replaced(text: str, before: str, after: str) -> str:
    """Replace what must be there."""
    assert before in text, f"{DOCUMENT.name} has no {before!r} any more"
    return text.replace(before, after)


def make_certificate(folder: Path) -> None:
    """Write a certificate for localhost, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "own.pem").write_bytes(certificate.public_bytes(pem))
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "own.key").write_bytes(secret)


def _environment(folder: Path) -> dict[str, str]:
    """Caddy keeps its own files in the folder."""
    return {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main() -> None:
    """Provide both under ``CI=true``, where it fails without them; say what is missing elsewhere."""
    is_ci = os.environ.get("CI") == "true"
    if is_ci and not all(map(find, NAMES)):
        debian.install(*NAMES)
    for name in NAMES:
        print(f"Tests of proxies use {find(name)}" if find(name) else f"{name} {NOT_THERE}")
    if is_ci and not all(map(find, NAMES)):
        sys.exit(1)


if __name__ == "__main__":
    main()
