"""Kernel texts for Metal, which clang checks with the types of its language and compiles for the
emulator."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from emulator import build

HERE = Path(__file__).parent
FLAGS = ("-std=c++14", "-xc++", f"-I{HERE / 'include'}", f"-I{build.HERE}", "-Werror",
         "-Wno-c++11-narrowing", "-Wno-unknown-attributes", "-Wno-unknown-pragmas",
         "-Wno-unused")
ENTRY = """
#undef thread
extern "C" void kernel_entry(const emulator::Argument *a) {
  using emulator::thread;
  const metal::uint3 group = {thread.group[0], thread.group[1], thread.group[2]};
  const metal::uint3 n_groups = {thread.n_groups[0], thread.n_groups[1], thread.n_groups[2]};
  kernel_main(%s, thread.lane, group, n_groups, thread.lane / 32u, (thread.n_threads + 31u) / 32u,
              thread.lane %% 32u);
}
"""


@functools.cache
def compiler() -> str:
    """clang++, or skip where there is none: g++ has no address spaces. PoCL brings one whose name
    ends with its version."""
    names = ("clang++", *(f"clang++-{version}" for version in range(30, 13, -1)))
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("texts for Metal are checked by clang++: apt install clang")
    return found


def for_clang(text: str) -> str:
    """The text with what clang writes otherwise: vectors of several numbers are made with braces,
    and arrays that threads share are static."""
    text = re.sub(r"(#define [FU][24]\(.*\)) metal::(\w+)\((.*)\)$", r"\1 (metal::\2{\3})", text,
                  flags=re.M)
    return text.replace("(T, name, size) threadgroup", "(T, name, size) static threadgroup")


def said_of(text: str) -> str:
    """What clang says of the text; "" if it is right."""
    done = subprocess.run([compiler(), *FLAGS, "-fsyntax-only", "-"], input=for_clang(text),
                          capture_output=True, text=True)
    return done.stderr or ("failed" if done.returncode else "")


def compiled(text: str) -> Path:
    """A library with the function kernel_entry, which runs the kernel in a thread of the
    emulator. Raises AssertionError with the compiler's messages."""
    params = re.search(r"^#define KERNEL_PARAMS (.*)$", text, re.M)
    assert params, text
    kinds = {"IN": "(const {} *)a[{}].data", "OUT": "({} *)a[{}].data",
             "STRUCT": "*(const {} *)a[{}].data"}
    arguments = [kinds[kind].format(of, i) for kind, i, of in
                 re.findall(r"(\w+)_PARAM\((\d+), (\w+), \w+\)", params[1])]
    whole = for_clang(text) + ENTRY % ", ".join(arguments)
    flags = (*FLAGS, "-DEMULATED", "-O1", "-march=native", "-ffp-contract=off", "-shared", "-fPIC",
             "-fno-strict-aliasing")
    return build.library(whole, build.HERE, *flags, by=compiler())
