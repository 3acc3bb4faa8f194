"""The option --dask: what it accepts, and that its workers help to search the pools of a process."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from closecall.app.cli.main import main
from closecall.app.runtime import dask_option
from closecall.app.runtime.dask_option import check_address
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.selection import make_strategy
from tests.dask_cluster import cluster
from tests.pools import gapped_pool
from tests.unit.core.workers.kit import answer, requests

ON_THIS_MACHINE = ("tcp://127.0.0.1:8786", "tcp://localhost:1", "tcp://[::1]:1")


@pytest.mark.parametrize("address", ["tls://head:8786", "tls://10.0.0.1:8786", *ON_THIS_MACHINE])
def test_addresses_of_schedulers(address):
    """With TLS, or on this machine."""
    check_address(address)


@pytest.mark.parametrize("address", ["tcp://head:8786", "tcp://10.0.0.1:8786", "tcp://0.0.0.0:8786"])
def test_beyond_this_machine_tls_is_needed(address):
    """The sentence says why, and what to do."""
    with pytest.raises(InputError, match="needs TLS beyond this machine, because") as error:
        check_address(address)
    assert str(error.value).endswith("give " + address.replace("tcp", "tls"))


@pytest.mark.parametrize("address", ["head:8786", "head", "", "http://head", "tls://", "ucx://127.0.0.1:1"])
def test_what_is_no_address(address):
    """It is named in the message."""
    with pytest.raises(InputError, match="is the address of a scheduler, such as tls://head:8786, got"):
        check_address(address)


@click.command()
@click.argument("path")
@dask_option.dask_option
def command(path, crew):
    """Print an answer, and whether the pool has workers."""
    pool = Pool.open(path).with_crew(crew)
    assert crew is None or crew.wait_until_ready(pool, 60)
    found = answer(make_strategy("exhaustive").fit(pool), requests(pool, 1)[0])
    click.echo(f"{pool.crew is not None} {found.ids.tolist()}")


def output(command: click.Command, *words: str) -> str:
    return CliRunner().invoke(command, words, catch_exceptions=False).output


def test_the_workers_help_until_the_command_ends(tmp_path):
    """The answer is that of a process without them."""
    pool = gapped_pool(tmp_path / "pool", 400)
    with cluster(2) as processes:
        helped = output(command, str(pool.path), "--dask", processes.address)
    assert helped.startswith("True [")
    assert output(command, str(pool.path)) == helped.replace("True", "False")


def test_certificates_that_are_not_there_or_without_a_cluster(tmp_path):
    """One sentence each."""
    words = [str(tmp_path), "--dask-tls-ca-file", str(tmp_path / "ca.pem")]
    run = CliRunner().invoke(main, ["serve", *words])
    assert run.exit_code == 2
    assert "The certificates are for --dask." in run.output
    run = CliRunner().invoke(main, ["serve", *words, "--dask", "tls://127.0.0.1:1"])
    assert run.exit_code == 2
    assert f"There is no certificate or key at {tmp_path / 'ca.pem'}" in run.output


def test_a_missing_extra(monkeypatch, tmp_path):
    """One sentence says what to install."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    run = CliRunner().invoke(main, ["serve", str(tmp_path), "--dask", "tcp://127.0.0.1:1"])
    assert run.exit_code == 2
    assert 'pip install "closecall[dask]"' in run.output


def test_nothing_is_imported_unless_asked():
    """The command starts without Dask."""
    modules = "closecall.app.cli.main, closecall.core.selection, closecall.core.workers.crew"
    code = f"import sys, {modules}; print('distributed' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_tls_from_end_to_end(tmp_path):
    """A cluster with certificates takes a server that has one, and no other."""
    key, cert = certificate(tmp_path)
    pool = gapped_pool(tmp_path / "pool", 400)
    options = ["--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key]
    with cluster(1, options, protocol="tls") as processes:
        assert processes.address.startswith("tls://")
        words = [str(pool.path), "--dask", processes.address]
        own = ["--dask-tls-ca-file", cert, "--dask-tls-cert", cert, "--dask-tls-key", key]
        assert output(command, *words, *own).startswith("True [")
        stranger = CliRunner().invoke(main, ["serve", str(tmp_path), "--dask", processes.address])
        assert stranger.exit_code == 2
        assert "can't be reached" in stranger.output


def certificate(folder: Path) -> tuple[str, str]:
    """Files of a key, and of a certificate that it has signed itself."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - timedelta(days=1),
        not_valid_after=now + timedelta(days=1),
    ).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    files = folder / "key.pem", folder / "cert.pem"
    files[0].write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
    files[1].write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(pem))
    return str(files[0]), str(files[1])
