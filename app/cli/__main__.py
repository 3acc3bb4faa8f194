"""``python -m closecall.app.cli`` is the command."""

from closecall.app.cli.main import main

main(prog_name="closecall")
