"""Tries a compiler in a process of its own: hiprtc ends the process where it doesn't know a chip.

    python -m unladen.backends._gpu.cuda_like.trial < JSON

reads {"libraries": names, "symbols": names of functions, "options": texts} and compiles a small
kernel. The exit code is 0 if that works.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import subprocess
import sys
from typing import Final

from unladen.backends._gpu.binaries import Binaries
from unladen.backends._gpu.cuda_like.vendor import COMPILES, Vendor
from unladen.backends._gpu.loading import load_library

log = logging.getLogger("unladen")

TEXT: Final = b'extern "C" __global__ void kernel_main(float *y) { y[0] = 1.0f; }'
"""A kernel that every compiler takes."""
SECONDS: Final = 120
"""How long the trial may last."""


def refuses(vendor: Vendor, version: str, target: str, kept: Binaries) -> str:
    """Why the vendor's compiler of this version can't make code for ``target``; "" if it can. What
    was found is kept."""
    found = kept.get(("trial", vendor.backend, version, target),
                     lambda: _tried(vendor, target).encode())
    return found.decode()


def _tried(vendor: Vendor, target: str) -> str:
    if not sys.executable:
        log.debug("%s isn't tried: this program has no Python of its own", vendor.backend)
        return ""
    wanted = {"libraries": [*vendor.find_compiler(), *vendor.compilers],
              "symbols": {name: vendor.compiler_symbols[name] for name in COMPILES},
              "options": vendor.options(target)}
    path = os.pathsep.join(p for p in sys.path if p)
    try:
        done = subprocess.run([sys.executable, "-m", __name__], input=json.dumps(wanted),
                              capture_output=True, text=True, timeout=SECONDS,
                              env={**os.environ, "PYTHONPATH": path})
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"its compiler can't be tried: {error}"
    if done.returncode == 0:
        return ""
    said = done.stderr.strip().splitlines()
    return (f"its compiler can't make code for {target} ({said[-1] if said else 'no message'}): "
            f"update {vendor.driver}")


def main() -> int:
    """Compile the kernel as the standard input says; returns the exit code."""
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
    call["create"](ctypes.byref(program), TEXT, b"trial", 0, None, None)
    failed = call["compile"](program, len(options), (ctypes.c_char_p * len(options))(*options))
    if failed:
        print(f"error {failed}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
