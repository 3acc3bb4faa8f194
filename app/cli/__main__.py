"""``python -m app.cli`` is the command."""

from app.cli.main import main

main(prog_name="closecall")
