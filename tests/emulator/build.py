"""Compiles kernels and the runtime of the emulator with g++, once for each text."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / "build/emulator"
"""The folder of what was compiled; a file's name is the hash of its text and flags."""
FLAGS = ("-std=c++17", "-shared", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing",
         "-Wall", "-Wno-unused", "-Wno-unknown-pragmas")
POISON = ("-ftrivial-auto-var-init=pattern",)
"""Variables that no one sets hold what no one wants; the flag is g++ 12's."""
FRAMES = "-fno-omit-frame-pointer"
"""So code keeps a pointer to the frame of each call, by which the runtime knows the calls."""
ALONE = ("-nodefaultlibs", "-lgcc")
"""Kernels find the C library through the runtime, so that the linker, which takes a fifth of the
time, needn't read it. They come last."""
AT_ONCE = 2
"""Kernels that are compiled at the same time."""
ASAN_VARIABLE = "UNLADEN_EMULATOR_ASAN"
"""With this variable the kernels check private arrays, too. Python then has to be started with
libasan in LD_PRELOAD."""


@dataclass(frozen=True, slots=True)
class Mode:
    """How kernels are compiled and run: the port, the compiler's flags, whether accesses are
    checked."""

    port: Path
    flags: tuple[str, ...]
    checks: bool


CHECKED = Mode(HERE / "emulator.h", ("-O0", FRAMES), True)
"""Finds faults of kernels."""
FAST = Mode(HERE / "fast.h", ("-O1", "-march=native"), False)
"""Runs whole models."""
MODES = {"checked": CHECKED, "fast": FAST}
PORT = CHECKED.port


@functools.cache
def compiler() -> str:
    """g++, or skip where there is none."""
    found = shutil.which(os.environ.get("CXX", "g++"))
    if found is None:
        pytest.skip("the emulator needs g++")
    return found


@functools.cache
def flags() -> tuple[str, ...]:
    asan = ("-fsanitize=address", "-g") if os.environ.get(ASAN_VARIABLE) else ()
    return (*FLAGS, *_known(POISON), *asan)


@functools.cache
def alone() -> tuple[str, ...]:
    """Flags of kernels, which need no library but the runtime; the sanitizer needs its own."""
    return () if os.environ.get(ASAN_VARIABLE) else _known(ALONE)


def _known(wanted: tuple[str, ...]) -> tuple[str, ...]:
    """``wanted``, or nothing where the compiler doesn't take these flags."""
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.cc"
        empty.write_text("")
        done = subprocess.run([compiler(), *FLAGS, str(empty), "-o", f"{folder}/empty.so", *wanted],
                              capture_output=True)
    return () if done.returncode else wanted


@functools.cache
def processor() -> str:
    """What the compiler knows of this processor: libraries made for one may not run on another."""
    return subprocess.run([compiler(), "-march=native", "-dM", "-E", "-xc++", "-"], input="",
                          capture_output=True, text=True, check=True).stdout


@functools.cache
def headers(folder: str) -> str:
    """A hash of the headers in the folder: ``*.h``, and files without a suffix as the system's."""
    found = hashlib.sha256()
    for path in sorted(Path(folder).iterdir()):
        if path.is_file() and path.suffix in ("", ".h"):
            found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def library(text: str, folder: Path, *more: str, by: str = "") -> Path:
    """The library made of ``text``, whose includes are in ``folder`` and those that flags name, by
    g++ with its :func:`flags` and ``more``, or ``by`` another compiler with only these. It is made
    anew where a header changes. Raises AssertionError with the compiler's messages."""
    all_flags = (f"-I{folder}", *(more if by else (*flags(), *more)))
    included = [headers(flag[2:]) for flag in all_flags if flag.startswith("-I")]
    key = hashlib.sha256("\0".join([text, processor(), by, *all_flags, *included]).encode()
                         ).hexdigest()[:24]
    made = CACHE / f"{key}.so"
    if not made.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        own = f"{key}.{os.getpid()}.{threading.get_ident()}"
        source, part = CACHE / f"{own}.cc", CACHE / f"{own}.so"
        source.write_text(text)
        done = subprocess.run([by or compiler(), str(source), "-o", str(part), *all_flags],
                              capture_output=True, text=True)
        source.unlink()
        assert done.returncode == 0, done.stderr
        part.replace(made)
    return made


@functools.cache
def runtime() -> Any:
    """The runtime, whose functions the kernels find."""
    made = library((HERE / "runtime.cc").read_text(), HERE, "-O2", FRAMES)
    loaded = ctypes.CDLL(str(made), ctypes.RTLD_GLOBAL)
    loaded.fault_text.restype = ctypes.c_char_p
    return loaded


@functools.cache
def kernel(text: str, mode: Mode = CHECKED) -> Any:
    """The entry of the kernel with this text."""
    runtime()
    return ctypes.CDLL(str(library(text, HERE, *mode.flags, *alone()))).kernel_main


def prepare(texts: Iterable[str], mode: Mode) -> None:
    """Compile these kernels, several at once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda text: library(text, HERE, *mode.flags, *alone()), sorted(set(texts))))
