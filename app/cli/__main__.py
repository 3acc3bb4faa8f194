"""Entry point of ``python -m closecall.app.cli``."""

from closecall.app.cli.main import main

main(prog_name="closecall")
