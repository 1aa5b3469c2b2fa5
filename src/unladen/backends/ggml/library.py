"""Finds libggml, loads it at run time and declares the functions that this backend calls.

Only functions of ggml's public headers are called, and tensors are opaque, so that libraries of
different versions work. An old library without one of the functions is refused.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import logging
import os
import re
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from unladen.backends._gpu import forks
from unladen.errors import BackendNotInitialised

log = logging.getLogger(__name__)

VARIABLE: Final = "UNLADEN_GGML"
"""Environment variable with the path of libggml, or of the folder that it is in."""
PATTERNS: Final = MappingProxyType({"win32": ("ggml.dll", "ggml-base.dll", "ggml-cpu.dll"),
                                    "darwin": ("libggml.dylib", "libggml-base.dylib",
                                               "libggml-cpu.dylib")})
"""By system, the names of the library, of its base and of its CPU backend."""
NAMES: Final = PATTERNS.get(sys.platform, ("libggml.so", "libggml-base.so", "libggml-cpu.so"))
"""The names on this system."""
HINT: Final = (f"install ggml (Debian: libggml0), or set {VARIABLE} to the folder of "
               f"{NAMES[0]}; the package llama-cpp-python has one in llama_cpp/lib")
"""What to do where no library is found."""

PROCESS: Final = forks.Process("ggml")
"""The process that loaded the library first."""
_LOADING: Final = threading.Lock()
"""Held while the library is loaded: ggml keeps one log function and one list of devices."""

NO_BACKTRACE: Final = "GGML_NO_BACKTRACE"
"""ggml's own variable: it ends the process without a trace of the stack."""

LAST_TYPE: Final = 35
"""The largest number of a type that every library has; ggml ends the process for numbers that it
doesn't have."""

_P, _I, _L, _Z, _F, _B, _S = (ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_size_t,
                              ctypes.c_float, ctypes.c_bool, ctypes.c_char_p)


class InitParams(ctypes.Structure):
    """ggml's ``ggml_init_params``: memory of a context, without data of tensors."""

    _fields_ = (("mem_size", _Z), ("mem_buffer", _P), ("no_alloc", _B))


LogCallback: Final = ctypes.CFUNCTYPE(None, _I, _S, _P)
"""A function of level, text and user data that takes ggml's messages."""
SetThreads: Final = ctypes.CFUNCTYPE(None, _P, _I)
"""``ggml_backend_set_n_threads``, which only some of ggml's backends have."""

_UNARY: Final = ("sqr", "sqrt", "tanh", "sigmoid", "silu", "relu", "exp", "gelu_erf", "neg", "abs",
                 "cont", "sum_rows", "step")
"""Functions of a context and a tensor."""
_BINARY: Final = ("add", "mul", "sub", "div", "mul_mat", "get_rows", "cpy",
                  "repeat")
"""Functions of a context and two tensors."""
_SIGNATURES: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "ggml_init": (_P, InitParams),
    "ggml_free": (None, _P),
    "ggml_version": (_S,),
    "ggml_type_name": (_S, _I),
    "ggml_log_set": (None, LogCallback, _P),
    "ggml_tensor_overhead": (_Z,),
    "ggml_graph_overhead_custom": (_Z, _Z, _B),
    "ggml_new_graph_custom": (_P, _P, _Z, _B),
    "ggml_build_forward_expand": (None, _P, _P),
    "ggml_nbytes": (_Z, _P),
    "ggml_new_tensor_1d": (_P, _P, _I, _L),
    "ggml_new_tensor_2d": (_P, _P, _I, _L, _L),
    "ggml_new_tensor_3d": (_P, _P, _I, _L, _L, _L),
    "ggml_view_1d": (_P, _P, _P, _L, _Z),
    "ggml_view_2d": (_P, _P, _P, _L, _L, _Z, _Z),
    "ggml_view_3d": (_P, _P, _P, _L, _L, _L, _Z, _Z, _Z),
    "ggml_view_4d": (_P, _P, _P, _L, _L, _L, _L, _Z, _Z, _Z, _Z),
    "ggml_reshape_1d": (_P, _P, _P, _L),
    "ggml_reshape_2d": (_P, _P, _P, _L, _L),
    "ggml_reshape_3d": (_P, _P, _P, _L, _L, _L),
    "ggml_reshape_4d": (_P, _P, _P, _L, _L, _L, _L),
    "ggml_permute": (_P, _P, _P, _I, _I, _I, _I),
    "ggml_concat": (_P, _P, _P, _P, _I),
    "ggml_cast": (_P, _P, _P, _I),
    "ggml_scale_bias": (_P, _P, _P, _F, _F),
    "ggml_clamp_inplace": (_P, _P, _P, _F, _F),
    "ggml_rms_norm": (_P, _P, _P, _F),
    "ggml_norm": (_P, _P, _P, _F),
    "ggml_set_rows": (_P, _P, _P, _P, _P),
    "ggml_soft_max_ext": (_P, _P, _P, _P, _F, _F),
    "ggml_soft_max_add_sinks": (None, _P, _P),
    **{f"ggml_{name}": (_P, _P, _P) for name in _UNARY},
    **{f"ggml_{name}": (_P, _P, _P, _P) for name in _BINARY},
    "ggml_backend_load_all_from_path": (None, _S),
    "ggml_backend_dev_count": (_Z,),
    "ggml_backend_dev_get": (_P, _Z),
    "ggml_backend_dev_name": (_S, _P),
    "ggml_backend_dev_description": (_S, _P),
    "ggml_backend_dev_memory": (None, _P, ctypes.POINTER(_Z), ctypes.POINTER(_Z)),
    "ggml_backend_dev_type": (_I, _P),
    "ggml_backend_dev_backend_reg": (_P, _P),
    "ggml_backend_dev_buffer_type": (_P, _P),
    "ggml_backend_dev_init": (_P, _P, _S),
    "ggml_backend_dev_supports_op": (_B, _P, _P),
    "ggml_backend_reg_get_proc_address": (_P, _P, _S),
    "ggml_backend_free": (None, _P),
    "ggml_backend_synchronize": (None, _P),
    "ggml_backend_graph_compute": (_I, _P, _P),
    "ggml_backend_buft_alloc_buffer": (_P, _P, _Z),
    "ggml_backend_buft_get_max_size": (_Z, _P),
    "ggml_backend_buffer_get_base": (_P, _P),
    "ggml_backend_buffer_clear": (None, _P, ctypes.c_uint8),
    "ggml_backend_buffer_free": (None, _P),
    "ggml_backend_tensor_alloc": (_I, _P, _P, _P),
    "ggml_backend_view_init": (_I, _P),
    "ggml_backend_tensor_set": (None, _P, _P, _Z, _Z),
    "ggml_backend_tensor_get": (None, _P, _P, _Z, _Z),
    "ggml_backend_tensor_copy": (None, _P, _P),
})
"""By name, the type of a function's result and those of its arguments."""
_EARLIER_NAMES: Mapping[str, str] = MappingProxyType({"ggml_clamp_inplace": "ggml_clamp"})
"""Names that functions had in older libraries. Since 0.25 at the latest ``ggml_clamp`` makes a new
tensor; before, it was what ``ggml_clamp_inplace`` is now."""


class Library:
    """A loaded libggml. ``library["init"]`` is its function ``ggml_init``."""

    def __init__(self, handles: list[ctypes.CDLL]) -> None:
        self._functions = {name: _declared(handles, name, kinds)
                           for name, kinds in _SIGNATURES.items()}
        self.types = self._types()
        self._log = LogCallback(_forward)  # ggml keeps the pointer
        self["log_set"](self._log, None)
        # Without a path ggml would also load libraries from the current directory.
        for folder in _folders(self.folder):
            self["backend_load_all_from_path"](os.fsencode(folder))

    @property
    def folder(self) -> Path:
        """The folder that the library was loaded from."""
        return _folder_of(self["backend_dev_count"])

    def _types(self) -> Mapping[str, int]:
        """ggml's numbers of types, by their names in GGUF."""
        names = ((i, self["type_name"](i)) for i in range(LAST_TYPE + 1))
        return {name.decode().upper(): i for i, name in names if name}

    def __getitem__(self, name: str) -> Any:
        return self._functions["ggml_" + name]

    @property
    def version(self) -> str:
        """ggml's version, as in "0.9.4"."""
        return str(self["version"]().decode(errors="replace"))


def frees_with(owner: object, free: Callable[[int], None], handle: int) -> None:
    """Call ``free(handle)`` once ``owner`` is gone, unless in a forked child or at the end of the
    process."""
    weakref.finalize(owner, PROCESS.frees(free), handle).atexit = False


class _Place(ctypes.Structure):
    """``Dl_info`` of the system: in which file a function is."""

    _fields_ = (("file", _S), ("base", _P), ("symbol", _S), ("address", _P))


def _folder_of(function: Any) -> Path:
    """The folder of the library that ``function`` is in."""
    if sys.platform == "win32":
        return _folder_named(Path(found()))
    place = _Place()
    look_up = ctypes.CDLL(None).dladdr
    look_up.argtypes = (_P, ctypes.POINTER(_Place))
    if not look_up(ctypes.cast(function, _P), ctypes.byref(place)) or not place.file:
        raise BackendNotInitialised("the system doesn't say where libggml was loaded from",
                                    hint=f"name its folder in {VARIABLE}")
    return Path(os.fsdecode(place.file)).resolve().parent


def _folders(folder: Path) -> list[Path]:
    """Folders with libraries of ggml's devices: the library's own, and those that Debian makes."""
    return [folder, *sorted(path for path in folder.glob("ggml/*") if path.is_dir())]


def _declared(handles: list[ctypes.CDLL], name: str, kinds: tuple[Any, ...]) -> Any:
    names = (name, _EARLIER_NAMES[name]) if name in _EARLIER_NAMES else (name,)
    for each in names:
        for handle in handles:
            function = getattr(handle, each, None)
            if function is not None:
                function.restype, *function.argtypes = kinds
                return function
    raise BackendNotInitialised(f"this libggml has no function {name}: it is too old",
                                hint=f"install a newer one, or name one in {VARIABLE}")


def _forward(level: int, text: bytes | None, user: object) -> None:
    """Pass a message of ggml on to this package's log; ggml counts levels from debug up."""
    if text and text.strip():
        is_problem = level in (3, 4)
        log.log(logging.WARNING if is_problem else logging.DEBUG, "ggml: %s",
                text.decode(errors="replace").strip())


@functools.cache
def found() -> str:
    """The path or name of the library that :func:`load` takes; "" where there is none."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    return ctypes.util.find_library("ggml") or ""


def is_named() -> bool:
    """Whether the user names a library, so that it may be loaded without being asked for."""
    return bool(os.environ.get(VARIABLE))


@functools.cache
def load() -> Library:
    """The library of this process. Raises :class:`BackendNotInitialised`."""
    PROCESS.check()  # before the lock, which a thread of the parent may have held
    with _LOADING:
        return _load(found())


@functools.cache
def _load(name: str) -> Library:
    if not name:
        raise BackendNotInitialised("there is no libggml on this machine", hint=HINT)
    path = Path(name)
    # Where ggml ends the process it would first fork a debugger, which hangs on some machines.
    os.environ.setdefault(NO_BACKTRACE, "1")
    try:
        if path.parent == Path() and not path.is_dir():
            return Library([ctypes.CDLL(name)])
        return Library(_load_file(_library_in(path) if path.is_dir() else path))
    except OSError as error:
        raise BackendNotInitialised(f"libggml can't be loaded from {name}: {error}",
                                    hint=HINT) from None


def _folder_named(path: Path) -> Path:
    """The folder ``path``, or that of the file ``path``."""
    return path if path.is_dir() else path.parent


def _load_file(file: Path) -> list[ctypes.CDLL]:
    """The library ``file``, and what of its parts are beside it. The base comes first, since the
    others need it and the system doesn't look for it in this folder."""
    ending = file.name.removeprefix(NAMES[0].partition(".")[0])
    parts = [_file_of(file.parent, name, ending) for name in NAMES[1:]]
    return [ctypes.CDLL(str(part)) for part in (*parts, file) if part is not None][::-1]


def _library_in(folder: Path) -> Path:
    file = _file_of(folder, NAMES[0])
    if file is None:
        raise BackendNotInitialised(f"{folder} has no {NAMES[0]}", hint=HINT)
    return file


def _file_of(folder: Path, name: str, ending: str = "") -> Path | None:
    """The library ``name`` in ``folder``, also with a version ("libggml.so.0") and with the number
    that a wheel adds ("libggml-684d824a.so.0.13.1"). With ``ending``, one that ends like this is
    preferred, then one without additions, then the shortest name."""
    stem, _, kind = name.partition(".")
    version = r"(\.\d+)*"
    end = rf"{version}\.{kind}" if kind == "dylib" else rf"\.{kind}{version}"
    pattern = re.compile(rf"{stem}(-[0-9a-f]{{8,}})?{end}")
    fitting = (file for file in folder.glob(f"{stem}*") if pattern.fullmatch(file.name))
    return min(fitting, default=None, key=lambda file: (
        file.name != stem + ending, file.name != name, len(file.name), file.name))
