"""Notes to the user on stderr, each at most once in a process."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final

from unladen.cli._text import visible

if TYPE_CHECKING:
    from unladen.api import Model
    from unladen.backends import Device

DEVICES_VARIABLE: Final = "UNLADEN_DEVICES"
"""The environment variable that names the devices to use."""
_APPLIED: Final = re.compile(r"<\|\w|<\w+_of_turn>|\[INST\]|<\uff5c|\[gMASK\]|### \w+:|</?s>")
"""Marks in a prompt that show that the user has applied a chat template already."""


def note(text: str, *, as_json: bool = False) -> None:
    """Print ``text`` in one line. With ``as_json`` it is printed only if stderr is a terminal: a
    program that reads JSON doesn't need it."""
    if not as_json or (sys.stderr is not None and sys.stderr.isatty()):
        print(f"note: {visible(text)}", file=sys.stderr)


def note_applied(prompt: str, *, as_json: bool) -> None:
    """Note that marks of a chat template in a question are text, not marks."""
    if _APPLIED.search(prompt):
        note("the prompt has marks of a chat template, which are text in a chat (--raw continues "
             "the prompt as it is)", as_json=as_json)


def note_unused(loaded: Model, placement: Mapping[str, Any], *, as_json: bool = False) -> None:
    """Notes about the devices of ``loaded``, which the command line placed by ``placement``; see
    :func:`note_devices`."""
    plan = loaded.engine.plan.blueprint
    note_devices(plan.devices, set(plan.layers), placement, as_json=as_json)


def note_devices(planned: Sequence[Device], used: Set[Device], placement: Mapping[str, Any], *,
                 as_json: bool = False) -> None:
    """Note why a GPU of this machine isn't used, unless the command line (``placement``) asked for
    that, and which of the devices that have layers are none. ``planned``: those that the plan
    could use; ``used``: those with layers."""
    software = [d for d in used if d.is_software]
    if software:
        names = ", ".join(sorted(f"{d.name} ({d.description})" for d in software))
        says = "computes on the processor: it is no GPU" if len(software) == 1 else (
            "compute on the processor: they are no GPUs")
        note(f"layers are on {names}, which {says}", as_json=as_json)
    if (placement.get("devices") is not None or placement.get("n_gpu_layers", "auto") == 0
            or not all(d.is_host for d in used)):
        return
    from unladen import gpu
    present = gpu.cards()
    why = why_unused([d for d in planned if not d.is_host]) if present else ""
    if why:
        makers = ", ".join(dict.fromkeys(present))
        note(f"a GPU is there and isn't used ({makers}): {why}", as_json=as_json)


def why_unused(planned: Sequence[Device]) -> str:
    """Why nothing runs on a GPU; "" where a warning has said it. ``planned`` are the devices other
    than the CPU that the plan could have used."""
    if planned:
        if any(not d.memory_bytes for d in planned):
            return ""
        names = ", ".join(d.name for d in planned)
        return f"the CPU alone is predicted to be faster than with {names} (-ngl all uses it)"
    if os.environ.get(DEVICES_VARIABLE):
        return f"{DEVICES_VARIABLE} is {os.environ[DEVICES_VARIABLE]}"
    from unladen import backends
    named = " and ".join(f"--device {d.name}" for d in backends.hardware_by_name())
    if named:
        return f"no device is named: {named} runs on it"
    return "; ".join(_refused() or backends.why_no_hardware()) or (
        "its driver has no device file in /dev: install the driver, or start the container with "
        "the GPU (docker run --gpus all, or --device /dev/dri)")


def _refused() -> list[str]:
    """Why cards can't be used that the drivers of ``cuda`` and ``hip`` show."""
    from unladen import backends, gpu
    drivers = (("cuda", gpu.cuda_available), ("hip", gpu.rocm_available))
    return [backends.listed(backends.backend_of(name))[1] for name, shows in drivers if shows()]
