"""Tries a compiler in a process of its own: hiprtc ends the process where it doesn't know a chip.

    python -m unladen.backends._gpu.cuda_like.trial < JSON

reads {"libraries": names, "symbols": names of functions, "options": texts, "text": the text of a
kernel} and compiles it. Before that it writes a line. The exit code is 0 if all works.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import subprocess
import sys
from typing import Final

from unladen.backends._gpu import c_texts
from unladen.backends._gpu.binaries import Binaries
from unladen.backends._gpu.cuda_like.vendor import COMPILES, Vendor
from unladen.backends._gpu.loading import load_library

log = logging.getLogger("unladen")

TEXT: Final = """extern "C" __global__ void kernel_main(u32 *y) {
  y[0] = (u32)dot_i8(y[1], y[2], 0) + f32_to_f16(subgroup_add(f16_to_f32(y[3])));
}
"""
"""A kernel with instructions that not all chips have, as the port says."""
BEGIN: Final = "compiling"
"""What the trial's process writes before it compiles."""
ENDED: Final = frozenset(getattr(signal, name, 0) for name in (
    "SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"))
"""Signals by which others end a process."""
SECONDS: Final = 120
"""How long the trial may last."""


class _NotTried(Exception):
    """Why the compiler wasn't tried."""


def refuses(vendor: Vendor, compiler: str, target: str, kept: Binaries) -> str:
    """Why the vendor's compiler, which ``compiler`` tells from others, can't make code for
    ``target``; "" if it can. What the compiler does is kept."""
    if not sys.executable or getattr(sys, "frozen", False):
        log.debug("%s isn't tried: this program has no Python of its own", vendor.backend)
        return ""
    text, options = c_texts.port_text(vendor.port) + TEXT, vendor.options(target)
    try:
        return kept.get(("trial", compiler, target, text, "\n".join(options)),
                        lambda: _tried(vendor, target, text).encode()).decode()
    except _NotTried as error:
        return f"its compiler can't be tried: {error}"


def _tried(vendor: Vendor, target: str, text: str) -> str:
    wanted = {"libraries": [*vendor.find_compiler(), *vendor.compilers],
              "symbols": {name: vendor.compiler_symbols[name] for name in COMPILES},
              "options": vendor.options(target), "text": text}
    path = os.pathsep.join(p for p in sys.path if p)
    try:
        done = subprocess.run([sys.executable, "-m", __name__], input=json.dumps(wanted),
                              capture_output=True, text=True, timeout=SECONDS,
                              env={**os.environ, "PYTHONPATH": path})
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _NotTried(str(error)) from error
    if done.returncode == 0:
        return ""
    said = [*done.stderr.strip().splitlines(), f"exit code {done.returncode}"]
    if BEGIN not in done.stdout or -done.returncode in ENDED:
        raise _NotTried(said[-2:][0])
    return f"its compiler can't make code for {target} ({said[-2:][0]}): update {vendor.driver}"


def main() -> int:
    """Compile a kernel as the standard input says; returns the exit code."""
    wanted = json.load(sys.stdin)
    symbols = wanted["symbols"]
    library = load_library(wanted["libraries"], *symbols.values())
    if library is None:
        print("it can't be loaded", file=sys.stderr)
        return 1
    call = {name: getattr(library, symbol) for name, symbol in symbols.items()}
    for name, types in COMPILES.items():
        call[name].argtypes = types
    program, options = ctypes.c_void_p(), [text.encode() for text in wanted["options"]]
    print(BEGIN, flush=True)
    call["create"](ctypes.byref(program), wanted["text"].encode(), b"trial", 0, None, None)
    failed = call["compile"](program, len(options), (ctypes.c_char_p * len(options))(*options))
    if failed:
        print(f"error {failed}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
