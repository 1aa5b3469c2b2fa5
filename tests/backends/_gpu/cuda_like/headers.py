"""What a maker's C headers say about functions, numbers and structs: a program of g++ tells it."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

TELLS = """
#include <cstddef>
#include <cstdio>
#include <type_traits>
#include <utility>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

template <class T, class = void> struct Pointee { static constexpr int n_bytes = 0; };
template <class T> struct Pointee<T *, std::void_t<decltype(sizeof(T))>> {
  static constexpr int n_bytes = int(sizeof(T));
};
template <> struct Pointee<void *> { static constexpr int n_bytes = 0; };
template <> struct Pointee<const void *> { static constexpr int n_bytes = 0; };

template <class T> void tell_type(const char *before) {
  printf("%s[%d, %d, %d]", before, int(sizeof(T)), int(std::is_pointer_v<T>),
         Pointee<T>::n_bytes);
}
template <class R, class... A> void tell_function(const char *name, const char *symbol,
                                                  R (*)(A...)) {
  printf("{\\"kind\\": \\"function\\", \\"name\\": \\"%s\\", ", name);
  printf("\\"symbol\\": \\"%s\\", \\"types\\": [", symbol);
  tell_type<R>("");
  (tell_type<A>(", "), ...);
  printf("]}\\n");
}
void tell_number(const char *name, long value) {
  printf("{\\"kind\\": \\"number\\", \\"name\\": \\"%s\\", \\"value\\": %ld}\\n", name, value);
}
"""
"""The text before ``main``. A type is told as its bytes, whether it is a pointer, and the bytes of
what it points to (0: nothing with a size)."""


def folder_of(header: str, packages: Iterable[str], folders: Iterable[str | Path]) -> Path:
    """The folder for g++ that has ``header``: of a package of this Python, or of the system. Skips
    the test where there is none, or no g++."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    found: list[Path] = []
    for name in packages:
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            continue
        places = (spec.submodule_search_locations or ()) if spec else ()
        found += [Path(place) / "include" for place in places]
    for folder in [*found, *map(Path, folders)]:
        if (folder / header).exists():
            return folder
    pytest.skip(f"there is no {header} in {', '.join(packages) or 'packages'}, nor in "
                f"{', '.join(map(str, folders))}")


def roots(variables: Sequence[str], *folders: str) -> list[Path]:
    """Folders with headers: ``include`` under those that environment variables name, and others."""
    return [*(Path(os.environ[v]) / "include" for v in variables if os.environ.get(v)),
            *map(Path, folders)]


class Headers:
    """What headers say. ``function`` by symbol: the symbol that the header means by the name
    without a version, and types of the result and the arguments. ``number``: values of expressions.
    """

    def __init__(self, before: str, folder: Path, options: Sequence[str], symbols: Iterable[str],
                 expressions: Iterable[str]) -> None:
        lines = [f'tell_function("{symbol}", TEXT({plain(symbol)}), &{symbol});'
                 for symbol in symbols]
        lines += [f'tell_number("{each}", long({each}));' for each in expressions]
        text = f"{before}{TELLS}int main() {{\n" + "\n".join(lines) + "\n}\n"
        self.function: dict[str, tuple[str, list[list[int]]]] = {}
        self.number: dict[str, int] = {}
        for each in map(json.loads, _told(text, folder, tuple(options)).splitlines()):
            if each["kind"] == "function":
                self.function[each["name"]] = each["symbol"], each["types"]
            else:
                self.number[each["name"]] = each["value"]

    def differences(self, symbol: str, types: Sequence[Any]) -> str:
        """How the arguments ``types`` differ from those of the function; "" if they don't."""
        _, (result, *wanted) = self.function[symbol]
        if [result[0], len(wanted)] != [ctypes.sizeof(ctypes.c_int), len(types)]:
            return f"returns {result}, and takes {len(wanted)} arguments"
        for i, (mine, (n_bytes, is_pointer, pointee)) in enumerate(zip(types, wanted, strict=True)):
            to = getattr(mine, "_type_", None)
            points_to = ctypes.sizeof(to) if isinstance(to, type) else 0
            if ctypes.sizeof(mine) != n_bytes:
                return f"argument {i} has {n_bytes} bytes"
            if points_to and (not is_pointer or pointee not in (0, points_to)):
                return f"argument {i} points to {pointee} bytes"
            if not is_pointer and mine in (ctypes.c_void_p, ctypes.c_char_p):
                return f"argument {i} is no pointer"
        return ""


@functools.cache
def _told(text: str, folder: Path, options: tuple[str, ...]) -> str:
    with tempfile.TemporaryDirectory() as made:
        source, program = Path(made, "tells.cc"), Path(made, "tells")
        source.write_text(text)
        done = subprocess.run(["g++", "-std=c++17", "-w", f"-I{folder}", *options, str(source),
                               "-o", str(program), "-Wl,--unresolved-symbols=ignore-all"],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]
        return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout


def plain(symbol: str) -> str:
    """The name of a function without its version, as programs in C call it."""
    return re.sub(r"_v\d+$", "", symbol)


def expressions_of(struct: str, places: Mapping[str, str]) -> list[str]:
    """What asks for the size of a struct, and for the places of some of its fields."""
    return [f"sizeof({struct})", *(f"offsetof({struct}, {theirs})" for theirs in places.values())]
