"""The CPU's kernels, of this machine and of those that an emulator stands in for.

Has what ``unladen._native.cpu`` has of kernels. Where ``UNLADEN_TEST_EMULATED`` holds a command, as
``make emulated`` says it, that program's levels are tested too: ``qemu-aarch64 -cpu max
build/arm/kernel_server``. Each function takes a ``level``, which says whose kernels answer.
"""

from __future__ import annotations

import atexit
import functools
import os
import shlex
import struct
import subprocess
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

from unladen._native import cpu as _here

COMMAND_VARIABLE = "UNLADEN_TEST_EMULATED"
TAGS: dict[np.dtype[Any], bytes] = {np.dtype(np.float32): b"f", np.dtype(np.uint8): b"b",
                                    np.dtype(np.int32): b"i"}
PREFIX = "emulated "
"""Of an emulated level's name, where this machine has one of the same name."""


class Server:
    """A running ``kernel_server``; one call at a time."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        atexit.register(self.close)

    @property
    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        return stdin, stdout

    def close(self) -> None:
        """Ends the program."""
        stdin, stdout = self._pipes
        stdin.close()
        stdout.close()
        self._process.wait()

    def call(self, name: str, *arguments: Any) -> list[Any]:
        """The values of the answer. Raises ValueError with what the program says is wrong."""
        values = [name, *arguments]
        request = struct.pack("<I", len(values)) + b"".join(map(_packed, values))
        stdin, stdout = self._pipes
        stdin.write(request)
        stdin.flush()
        (count,) = struct.unpack("<I", _read(stdout, 4))
        answer = [_unpacked(stdout) for _ in range(count)]
        if name != "levels" and isinstance(answer[0], str):
            raise ValueError(answer[0])
        return answer


def _packed(value: Any) -> bytes:
    if value is None:
        return b"n"
    if isinstance(value, str):
        return b"s" + struct.pack("<I", len(value.encode())) + value.encode()
    if isinstance(value, np.ndarray):
        shape = struct.pack(f"<{1 + value.ndim}I", value.ndim, *value.shape)
        return TAGS[value.dtype] + shape + np.ascontiguousarray(value).tobytes()
    return b"d" + struct.pack("<d", float(value))


def _read(stream: IO[bytes], n: int) -> bytes:
    data = stream.read(n)
    assert len(data) == n, "the emulated program ended"
    return data


def _unpacked(stream: IO[bytes]) -> Any:
    tag = _read(stream, 1)
    (n,) = struct.unpack("<I", _read(stream, 4))
    if tag == b"s":
        return _read(stream, n).decode()
    shape = struct.unpack(f"<{n}I", _read(stream, 4 * n))
    dtype = next(dtype for dtype, of in TAGS.items() if of == tag)
    data = _read(stream, int(np.prod(shape)) * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(shape).copy()


@functools.cache
def _server() -> Server | None:
    command = os.environ.get(COMMAND_VARIABLE)
    return Server(shlex.split(command)) if command else None


@functools.cache
def _emulated() -> dict[str, str]:
    """Emulated levels: the names that tests give them, and their own."""
    server = _server()
    names = server.call("levels") if server else []
    return {PREFIX + name if name in _here.levels() else name: name for name in names}


def levels() -> list[str]:
    """This machine's levels, then those emulated."""
    return [*_here.levels(), *_emulated()]


def _call(name: str, before: tuple[Any, ...], level: str, after: tuple[Any, ...] = ()) -> Any:
    if level not in _emulated():
        return getattr(_here, name)(*before, level, *after)
    server = _server()
    assert server is not None
    answer = server.call(name, *before, _emulated()[level], *_flat(after))
    return answer[0] if len(answer) == 1 else tuple(answer)


def _flat(values: tuple[Any, ...]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from value
        else:
            yield value


def _with_level_last(name: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        return _call(name, arguments[:-1], arguments[-1])
    return call


rms_norm = _with_level_last("rms_norm")
layer_norm = _with_level_last("layer_norm")
rope = _with_level_last("rope")
activate = _with_level_last("activate")
glu = _with_level_last("glu")
add = _with_level_last("add")
scale_add = _with_level_last("scale_add")
kv_store = _with_level_last("kv_store")
attention = _with_level_last("attention")
dequantize = _with_level_last("dequantize")


def matmul(*arguments: Any) -> Any:
    """As ``cpu.matmul``: type, w, n_rows_w, n_cols, x, level, precise, n_range, t_range."""
    return _call("matmul", arguments[:5], arguments[5], arguments[6:])
