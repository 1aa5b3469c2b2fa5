"""``python -m unladen``."""

from unladen.cli import program

program()
