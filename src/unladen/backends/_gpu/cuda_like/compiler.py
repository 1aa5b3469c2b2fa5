"""The maker's run-time compiler through ctypes. What it makes is kept on disk."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from typing import Any

from unladen.backends._gpu.binaries import Binaries
from unladen.backends._gpu.c_texts import not_compiled
from unladen.backends._gpu.cuda_like.driver import driver_of
from unladen.backends._gpu.cuda_like.vendor import COMPILES, COMPILES_MORE, Chip, Vendor
from unladen.backends._gpu.loading import lacks, load_library


class Compiler:
    """A compiler that was loaded. ``chips``: numbers of those that it knows; none: it doesn't
    say."""

    def __init__(self, vendor: Vendor, library: ctypes.CDLL) -> None:
        self.vendor = vendor
        self._functions: dict[str, Callable[..., int]] = {}
        for name, types in {**COMPILES, **COMPILES_MORE}.items():
            symbol = vendor.compiler_symbols.get(name)
            if symbol is not None and (name in COMPILES or hasattr(library, symbol)):
                function = getattr(library, symbol)
                function.argtypes = types
                self._functions[name] = function
        major, minor = c_int(0), c_int(0)
        self._functions["version"](byref(major), byref(minor))
        self.major, self.version = major.value, f"{major.value}.{minor.value}"
        self.chips = self._chips()
        self.identity = f"{vendor.backend} {self.version}"
        """What tells this compiler from others, whose code is another."""
        driver = driver_of(vendor) if vendor.compiler_is_of_driver else None
        if driver is not None:
            self.identity += f" of {driver.version_number}"

    def _chips(self) -> tuple[int, ...]:
        n = c_int(0)
        if "n_chips" not in self._functions or self._functions["n_chips"](byref(n)):
            return ()
        found = (c_int * n.value)()
        return tuple(sorted(found)) if not self._functions["chips"](found) else ()

    def target(self, chip: Chip) -> str | None:
        """The name under which code for ``chip`` is compiled: the chip's own, or for a newer chip
        than the compiler knows that of the newest one, whose code the driver translates
        ("compute_120"). None for one that is too old."""
        if not chip.number or not self.chips or chip.number in self.chips:
            return self.vendor.name_for(chip, self.major)
        older = [n for n in self.chips if n < chip.number]
        return f"compute_{older[-1]}" if older else None

    def binary(self, kept: Binaries, text: str, target: str, what: str) -> bytes:
        """The code of ``text`` for ``target``: what was kept, or what is compiled now. Raises
        :class:`UnsupportedOp` with the compiler's message; ``what`` is compiled, for people: the
        device, a colon, and the kernel."""
        return kept.get(self._key(text, target), lambda: self.compiled(text, target, what))

    def forget(self, kept: Binaries, text: str, target: str) -> None:
        """Remove what was kept, which the driver refuses."""
        kept.forget(self._key(text, target))

    def _key(self, text: str, target: str) -> tuple[str, ...]:
        return text, "\n".join(self.vendor.options(target)), self.identity, target

    def compiled(self, text: str, target: str, what: str) -> bytes:
        """The code of ``text``, compiled now. Raises like :meth:`binary`."""
        code, log = self.attempt(text, self.vendor.options(target), target)
        if code is None:
            raise not_compiled(
                what, log, "another version of the driver or of the compiler may help", target)
        return code

    def attempt(self, text: str, options: tuple[str, ...], target: str) -> tuple[bytes | None, str]:
        """The code, None where it doesn't compile, and what the compiler says."""
        call, program = self._functions, c_void_p()
        # Messages name files by the lines of the text, so the name of the whole isn't seen.
        if call["create"](byref(program), text.encode(), b"kernel.cu", 0, None, None):
            return None, "the compiler doesn't start"
        try:
            given = (c_char_p * len(options))(*(option.encode() for option in options))
            failed = call["compile"](program, len(options), given)
            log = self._bytes("log", program).rstrip(b"\0").decode("utf-8", "replace").strip()
            if failed:
                return None, log or f"error {failed}"
            kind = "text" if target.startswith("compute_") else "code"
            return self._bytes(kind, program), log
        finally:
            call["destroy"](byref(program))

    def _bytes(self, kind: str, program: c_void_p) -> bytes:
        """The program's "log", "code" or "text"; empty where there is none."""
        size = c_size_t(0)
        if self._functions[f"{kind}_size"](program, byref(size)) or not size.value:
            return b""
        found: Any = ctypes.create_string_buffer(size.value)
        return found.raw if not self._functions[kind](program, found) else b""


@functools.cache
def compiler_of(vendor: Vendor) -> Compiler | None:
    """The vendor's compiler; None where there is none."""
    library = load_library(*_wanted(vendor))
    return None if library is None else Compiler(vendor, library)


def why_no_compiler(vendor: Vendor) -> str:
    """Why there is none, and what to do about it."""
    lacking = lacks(*_wanted(vendor))
    return (f"its compiler is here, but too old: it lacks {lacking}: install a newer one" if lacking
            else vendor.no_compiler)


def _wanted(vendor: Vendor) -> tuple[Any, ...]:
    """Names of the library, and its functions."""
    return ((*vendor.find_compiler(), *vendor.compilers),
            *(vendor.compiler_symbols[name] for name in COMPILES))
