"""The command ``closecall``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from closecall.app.cli.errors import PlainErrors
from closecall.app.cli.exchange import COMMANDS
from closecall.app.cli.new import database_option, new_project
from closecall.app.cli.pool import dtype_option, pool, provider_option
from closecall.app.cli.question import question
from closecall.app.cli.token import token
from closecall.app.cli.webhooks import webhook
from closecall.app.experiments.bench import bench
from closecall.app.experiments.compare import compare
from closecall.app.projects.data_folder import data_folder
from closecall.app.projects.oidc import SIGN_IN_DAYS
from closecall.app.runtime import malloc
from closecall.app.runtime.dask_option import dask_option
from closecall.app.runtime.device_option import device_option
from closecall.app.runtime.interruption import RESUMES, if_stopped
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.app.projects.roles import Roles
    from closecall.app.server.asgi import Listening
    from closecall.core.accelerator.device import Device
    from closecall.core.pool.build_size import FeatureType
    from closecall.core.workers.dask_crew import DaskCrew


@click.group(cls=PlainErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="closecall")
def main() -> None:
    """Label the close calls among a million images: each answer retrains an SVM and picks the next image."""
    malloc.settle()


def _begin_events(_context: click.Context, _option: click.Parameter, chosen: str) -> None:
    """Start the log in the format `chosen`: "text" or "json".

    Libraries that keep a reference to stderr must be imported after that.
    """
    if chosen == "json":
        from closecall.app.projects.oidc import secret_files
        from closecall.app.runtime import event_log as events

        events.begin(events.Redaction(events.known_secrets(os.environ, secret_files())))
    else:
        from closecall.app.runtime import text_log

        text_log.begin()


def _serving_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the server's options to a command. The command gets their values in its argument `way`."""

    @wraps(function)
    def called(
        *args: Any,
        host: str,
        port: int,
        allow_hosts: tuple[str, ...],
        prefix: str,
        sign_in_days: int,
        headless: bool,
        **others: Any,
    ) -> Any:
        from closecall.app.server.asgi import Listening
        from closecall.app.server.proxy import checked_prefix

        way = Listening(host, port, headless, allow_hosts, checked_prefix(prefix), sign_in_days)
        return function(*args, way=way, **others)

    for option in (
        click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
        click.option(
            "--port",
            default=8501,
            show_default=True,
            type=click.IntRange(1, 65535),
            help="Port to listen on.",
        ),
        click.option(
            "--allow-host",
            "allow_hosts",
            multiple=True,
            metavar="NAME",
            help="Host name of a proxy in front of the server.",
        ),
        click.option(
            "--prefix",
            default="",
            metavar="PATH",
            help="Path below which a proxy offers the server, such as /labels.",
        ),
        click.option(
            "--sign-in-days",
            default=SIGN_IN_DAYS,
            show_default=True,
            type=click.IntRange(1, 365),
            help="Days after which people must sign in again.",
        ),
        click.option("--headless", is_flag=True, help="Do not open a browser."),
        click.option(
            "--log-format",
            default="text",
            show_default=True,
            type=click.Choice(["text", "json"]),
            help="Errors as text, or everything that happens as one JSON object per line, on stderr.",
            callback=_begin_events,
            is_eager=True,
            expose_value=False,
        ),
    ):
        called = option(called)
    return called


@main.command()
@click.option(
    "--items",
    default=1_000_000,
    show_default=True,
    type=click.IntRange(100, 100_000_000),
    help="Size of the pool.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=data_folder,
    show_default="the user's data folder",
    help="Folder of the projects.",
)
@database_option
@_serving_options
@if_stopped("Answers are stored, and the same command serves them again.")
def demo(
    items: int,
    data: Path,
    database: str | None,
    way: Listening,
) -> None:
    """Label handwritten digits, drawn on demand without any download."""
    from closecall.app.projects.config import AlreadyServedError
    from closecall.app.projects.oidc import sign_in
    from closecall.app.projects.roles import Roles
    from closecall.app.runtime.kernels import prepared_in_background
    from closecall.app.server.asgi import project_path, require_free_port, serve
    from closecall.app.sessions.demo_project import make_demo
    from closecall.app.sessions.workspace import Workspace

    require_free_port(way.host, way.port)
    way_in = sign_in(way.port, way.prefix)
    roles = Roles(must_sign_in=way_in is not None)
    with Workspace(data, roles=roles, database=database) as workspace, prepared_in_background():
        try:
            key = make_demo(workspace, items)
        except AlreadyServedError as error:
            raise InputError(f"{error}, or choose another folder for the demo with --data") from None
        serve(workspace, way, path=project_path(key), sign_in=way_in)


@main.command("serve")
@click.argument("project", type=click.Path(path_type=Path))
@click.option(
    "--owner", "owners", multiple=True, help="Who may change shared settings.  [default: everybody]"
)
@click.option(
    "--annotator", "annotators", multiple=True, help="Who else may label, or @DOMAIN.  [default: everybody]"
)
@database_option
@click.option(
    "--shared",
    is_flag=True,
    help="Let other servers serve the same projects, too, each started with this option; the labels must be "
    "in PostgreSQL.",
)
@dask_option
@device_option
@_serving_options
@if_stopped("Answers are stored, and the same command serves them again.")
def serve_project(
    project: Path,
    owners: tuple[str, ...],
    annotators: tuple[str, ...],
    database: str | None,
    shared: bool,
    device: Device | None,
    crew: DaskCrew | None,
    way: Listening,
) -> None:
    """Serve PROJECT, a project's folder or a folder of projects."""
    from closecall.app.projects.config import checked_database, require_database
    from closecall.app.projects.oidc import sign_in
    from closecall.app.projects.roles import Roles
    from closecall.app.runtime.helpers import Helpers
    from closecall.app.runtime.kernels import prepared_in_background
    from closecall.app.server.asgi import project_path, require_free_port, serve
    from closecall.app.sessions.workspace import Workspace, is_project
    from closecall.core.pool.manifest import MANIFEST

    require_free_port(way.host, way.port)
    helpers = Helpers(device, crew)
    way_in = sign_in(way.port, way.prefix)
    roles = Roles.of(owners, annotators, must_sign_in=way_in is not None)
    if is_project(project):
        folder = project.resolve()
        require_database(folder, checked_database(database))
        with (
            Workspace(folder.parent, folder.name, roles, shared=shared, helpers=helpers) as workspace,
            prepared_in_background(),
        ):
            _tell_of_owners(workspace.project(folder.name).roles)
            serve(workspace, way, path=project_path(folder.name), sign_in=way_in)
    else:
        if (project / MANIFEST).is_file():
            raise InputError(
                f"{project} is a pool, not a project: make one with closecall new PROJECT --images {project}"
            )
        if not project.is_dir():
            raise InputError(
                f"There is no project at {project}: give a project's folder, or a folder of projects"
            )
        with (
            Workspace(project, roles=roles, database=database, shared=shared, helpers=helpers) as workspace,
            prepared_in_background(),
        ):
            _tell_of_owners(roles)
            serve(workspace, way, sign_in=way_in)


def _tell_of_owners(roles: Roles) -> None:
    if roles.must_sign_in and not roles.owners:
        click.echo(
            "This project has no owner: add one with --owner, under the name that the provider gives.",
            err=True,
        )


@main.command()
@click.argument("project", type=click.Path(path_type=Path))
@click.option(
    "--by",
    "word",
    metavar="DESCRIPTION",
    help="Describe the images by a model in ONNX (a file or folder; MODEL#OUTPUT names an output), by gist "
    "or by edges; an interrupted description is continued.",
)
@provider_option
@dtype_option
@click.option("--use", "name", metavar="NAME", help="Label with this description from now on.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--wait", is_flag=True, help="Wait while another process builds the description.")
@if_stopped(RESUMES)
def describe(
    project: Path,
    word: str | None,
    provider: str | None,
    dtype: FeatureType | None,
    name: str | None,
    quiet: bool,
    wait: bool,
) -> None:
    """Compute other features of the images of PROJECT, or list its descriptions.

    A description is a set of features of all images. All descriptions and labels are kept. While the project
    is served, this command can build a description, but can't switch to it. On the project's page, owners
    can do both under Settings.
    """
    from closecall.app.display.pool_output import show_build
    from closecall.app.projects.descriptions import name_from, planned, use_description

    for option, given in (("--provider", provider), ("--dtype", dtype)):
        if given is not None and word is None:
            raise click.UsageError(f"{option} needs --by.")
    if word is not None:
        plan = planned(project, word, provider)
        plan.path.parent.mkdir(parents=True, exist_ok=True)
        show_build(plan.source, plan.path, threads=None, dtype=dtype, quiet=quiet, wait=wait)
        if name is None and not quiet:
            click.echo(f"Label with it: closecall describe {project} --use {plan.name}")
    if name is not None:
        use_description(project, name_from(name))
        if not quiet:
            click.echo(f"{project} is now described by {name}.")
    if word is None and name is None:
        _show_descriptions(project)


def _show_descriptions(project: Path) -> None:
    from closecall.app.projects.config import ProjectFile
    from closecall.app.projects.descriptions import descriptions

    used = ProjectFile.read(project).description
    for one in descriptions(project):
        mark = "*" if one.name == used else " "
        click.echo(
            f"{mark} {one.shown_name}: {one.label}, {one.n_features:,} features of {one.items:,} items"
            f"{f'. {one.problem}' if one.problem else ''}"
        )
    click.echo("* is the description in use.")


@main.command()
@click.argument("project", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def verify(project: Path, as_json: bool) -> None:
    """Replay the log of PROJECT: train and select again, rank by brute force, compare with the log."""
    from closecall.app.verification.verify import verify_project

    sys.exit(verify_project(project, as_json=as_json))


for command in (new_project, *COMMANDS):
    main.add_command(command)
for group in (pool, question, token, webhook, bench, compare):
    main.add_command(group)
