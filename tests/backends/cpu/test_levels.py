"""Which levels of kernels a processor gets."""

from __future__ import annotations

import os
import shlex

import pytest

import machines


def test_the_portable_level_is_everywhere() -> None:
    assert machines.levels()[0] == "portable"


@pytest.mark.parametrize(("processor", "expected"), [
    ("cortex-a72", ["portable", "neon"]),
    ("neoverse-n1", ["portable", "neon", "dotprod"]),
    ("max", ["portable", "neon", "dotprod", "i8mm"]),
])
def test_levels_of_arm_processors(processor: str, expected: list[str]) -> None:
    command = shlex.split(os.environ.get(machines.COMMAND_VARIABLE, ""))
    if "-cpu" not in command:
        pytest.skip(f"{machines.COMMAND_VARIABLE} names no emulator that can be another processor")
    command[command.index("-cpu") + 1] = processor
    server = machines.Server(command)
    assert server.call("levels") == expected
    server.close()
