"""Checks rules for C++ that a compiler doesn't check."""

from __future__ import annotations

import re
from collections.abc import Iterator

from house.tree import Source, native_sources

MAX_FUNCTION = 60
"""Lines that a function may have."""
ISA_HEADERS = {"cmath", "cstddef", "cstdint", "cstring", "limits", "type_traits",
               "immintrin.h", "arm_neon.h"}
"""Headers that code may include which is compiled once per instruction-set level: headers without
inline functions. The linker keeps one copy of an inline function, which may be the one with
instructions that the machine lacks."""
AFTER_PARAMETERS = re.compile(r"(const|noexcept|override|mutable|->\s*[\w:<>*& ]+|\s)*")
NO_FUNCTION = {"if", "for", "while", "switch", "catch", "constexpr"}


def functions(source: Source) -> Iterator[tuple[int, int]]:
    """(first line, number of lines) of every block that opens like a function's."""
    text = re.sub(r"//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'",
                  lambda m: " " * len(m[0]), source.text)
    opened: list[int | None] = []
    for i, char in enumerate(text):
        if char == "{":
            opened.append(text.count("\n", 0, i) + 1 if _is_function(text, i) else None)
        elif char == "}":
            start = opened.pop()
            if start is not None:
                yield start, text.count("\n", 0, i) + 2 - start


def _is_function(text: str, brace: int) -> bool:
    """Whether the block at ``brace`` belongs to a function or lambda: it follows parameters."""
    close = text.rfind(")", 0, brace)
    if close < 0 or not AFTER_PARAMETERS.fullmatch(text, close + 1, brace):
        return False
    depth, at = 0, close
    while at >= 0:
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            break
        at -= 1
    word = re.search(r"(\w+)\s*$", text[max(0, at - 80):max(0, at)])
    return word is None or word[1] not in NO_FUNCTION


def test_functions_are_short() -> None:
    found = [f"{s.path}:{line}: {n} lines" for s in native_sources() if not s.generator
             for line, n in functions(s) if n > MAX_FUNCTION]
    assert not found, "\n".join(found)


def test_long_function_is_noticed() -> None:
    body = "    for (int i = 0; i < n; ++i) {\n        x += '{';  // }\n    }\n"
    bad = "struct A {\n  void f(int n) const {\n" + body * 25 + "  }\n};\n"
    assert list(functions(Source("a.cc", bad))) == [(2, 77)]


def test_levels_include_no_inline_library_code() -> None:
    by_path = {s.path.removeprefix("src/unladen/"): s for s in native_sources()}
    # The build generates a file that includes every header of such a folder, and nothing else.
    for folder in ("backends/cpu/csrc/isa/formats/", "backends/cpu/csrc/quantize/"):
        by_path[folder + "all.h"] = Source(folder + "all.h", "\n".join(
            f'#include "{path}"' for path in by_path if path.startswith(folder)))
    wanted = [s for path, s in by_path.items() if "/isa/" in path]
    assert wanted
    seen: set[str] = set()
    found = []
    while wanted:
        source = wanted.pop()
        seen.add(source.path)
        for system, own in re.findall(r'^\s*#\s*include\s*(?:<(.+?)>|"(.+?)")', source.text, re.M):
            if own and by_path[own].path not in seen:
                wanted.append(by_path[own])
            elif system and system not in ISA_HEADERS:
                found.append(f"{source.path} includes <{system}>")
    assert not found, "\n".join(found)
