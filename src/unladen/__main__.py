"""``python -m unladen``."""

from unladen.cli.app import main

main()
