"""The CPU's kernels: those of this machine, or those of an emulated one.

The functions are those of ``unladen._native.cpu`` for kernels, with the same arguments. If
``UNLADEN_TEST_EMULATED`` is a command that runs a ``kernel_server``, they call its kernels instead
of this machine's: ``make emulated`` builds one for 64-bit Arm and tests it."""

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
        """End the program."""
        stdin, stdout = self._pipes
        stdin.close()
        stdout.close()
        self._process.wait()

    def call(self, name: str, *arguments: Any) -> list[Any]:
        """The values of the answer. Raises ValueError with the program's error text."""
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


def _kernel(name: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        server = _server()
        if server is None:
            return getattr(_here, name)(*arguments)
        answer = server.call(name, *_flat(arguments))
        return answer[0] if len(answer) == 1 else tuple(answer)
    return call


def _flat(values: tuple[Any, ...]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from value
        else:
            yield value


def levels() -> list[str]:
    """Instruction-set levels, slowest first."""
    server = _server()
    return server.call("levels") if server else _here.levels()


rms_norm = _kernel("rms_norm")
layer_norm = _kernel("layer_norm")
rope = _kernel("rope")
activate = _kernel("activate")
glu = _kernel("glu")
add = _kernel("add")
largest = _kernel("largest")
scale_add = _kernel("scale_add")
kv_store = _kernel("kv_store")
attention = _kernel("attention")
dequantize = _kernel("dequantize")
matmul = _kernel("matmul")
screened = _kernel("screened")


def spared_bytes(level: str, quant: str) -> float:
    """Bytes of a block that need not be read to find a head's largest product."""
    return float(_kernel("spared_bytes")(level, quant))
