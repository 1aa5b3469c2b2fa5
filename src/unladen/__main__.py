"""``python -m unladen``."""

from unladen.cli.app import program

program()
