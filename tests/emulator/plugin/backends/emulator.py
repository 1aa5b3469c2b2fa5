"""The emulator as a plug-in: ``UNLADEN_PLUGIN_PATH=tests/emulator/plugin`` adds emulator:0, whose
``UNLADEN_EMULATOR_MODE`` is "checked" (the default) or "fast"."""

from __future__ import annotations

import sys
from pathlib import Path

from unladen.backends.base import Backend


def create() -> Backend:
    """Called by the scan of plug-in folders."""
    tests = str(Path(__file__).parents[3])
    if tests not in sys.path:
        sys.path.append(tests)
    from emulator.backend import EmulatorBackend
    return EmulatorBackend()


def has_hardware() -> bool:
    """No: the device is used only where it is named."""
    return False
