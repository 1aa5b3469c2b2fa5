"""The C family: every dispatch meets a text that takes it, and what WGSL has and C hasn't."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import cases
from backends._gpu.emulated import EmulatedBackend, EmulatedProgram
from cases import running
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.dispatch import Dispatch
from unladen.backends._gpu.lowering import registry
from unladen.backends._gpu.step_header import CONSTANTS
from unladen.backends.wgpu import source as wgsl

Rng = np.random.Generator
PORTS = sorted(p.stem for p in (c_texts.FOLDER / "ports").glob("*.h"))
INT_DOT = frozenset({"subgroups", "int_dot"})
MATRICES = INT_DOT | {"mma"}


def names(folder: Path, suffix: str) -> set[str]:
    return {path.stem for path in folder.glob(f"*{suffix}")}


def test_both_families_have_the_same_kernels() -> None:
    own = names(c_texts.FOLDER, ".h")
    assert own >= c_texts.NVIDIA_ONLY
    assert own - c_texts.NVIDIA_ONLY == names(wgsl.FOLDER, ".wgsl")


def nvidia_names() -> set[str]:
    """What ports/nvidia.h defines."""
    text = (c_texts.FOLDER / "ports/nvidia.h").read_text(encoding="utf-8")
    return {name for pair in re.findall(
        r"^FN [\w ]+?[ *](\w+)\(|^ *#define (\w+)|^typedef .*?(\w+);$", text, re.M)
            for name in pair if name}


@pytest.mark.parametrize("kernel", sorted(c_texts.NVIDIA_ONLY))
def test_kernels_for_one_vendor_use_what_only_its_port_has(kernel: str) -> None:
    """No kernel is kept from other devices without a reason."""
    words, used = nvidia_names() - {"UNROLL", "NO_UNROLL"}, set()
    todo, seen = [c_texts.FOLDER / f"{kernel}.h"], set()
    while todo:
        path = todo.pop()
        if path not in seen and path.exists():
            seen.add(path)
            content = path.read_text(encoding="utf-8")
            used |= set(re.findall(r"\w+", content)) & words
            todo += [c_texts.FOLDER / f"parts/{name}.h"
                     for line in re.findall(r"^#use (.*)$", content, re.M) for name in line.split()]
    assert used


def test_both_families_have_the_same_formats() -> None:
    assert names(c_texts.FOLDER / "quants", ".h") == names(wgsl.FOLDER / "quants", ".wgsl")
    for quant in names(wgsl.FOLDER / "quants", ".wgsl"):
        assert c_texts.has_codes(quant) == wgsl.has_codes(quant), quant


def dispatches(op: str, rng: Rng) -> Iterator[Dispatch]:
    """Those of the op's cases, with all features of the hardware and with none."""
    for features in (MATRICES, INT_DOT, frozenset[str]()):
        backend = EmulatedBackend(c_texts, features=features)
        for case in cases.registry()[op](rng):
            if backend.supports(backend.target.device, case.node):
                program = running.Bench(backend, case).program
                assert isinstance(program, EmulatedProgram)
                yield from program.lowered.dispatches


def struct_bytes(text: str, name: str) -> int:
    """Bytes of the struct called ``name``: every number has 32 bits."""
    body = re.search(rf"^typedef struct {{([^}}]*)}} {name};", text, re.M)
    assert body, name
    total = 0
    for kind, members in re.findall(r"^ *(\w+) ([^;]+);", body[1], re.M):
        for member in members.split(","):
            size = 4 if kind in ("u32", "float", "int") else struct_bytes(text, kind)
            times = re.search(r"\[(\w+)\]", member)
            if times and not times[1].isdigit():
                found = re.search(rf"^#define {times[1]} (\d+)u?$", text, re.M)
                assert found, times[1]
                size *= int(found[1])
            elif times:
                size *= int(times[1])
            total += size
    return total


@pytest.mark.parametrize("op", sorted(registry()))
def test_the_texts_take_every_dispatch(op: str, rng: Rng) -> None:
    seen = set()
    for d in dispatches(op, rng):
        key = (d.kernel, d.quant, tuple(sorted(d.constants.items())), tuple(sorted(d.ranges)))
        if key in seen:
            continue
        seen.add(key)
        made = c_texts.assemble(d.kernel, d.quant, d.constants, c_texts.FOLDER / "ports/cuda.h")
        kinds = {b.name: b.kind for b in made.bindings if b.name not in ("grid", "step")}
        assert kinds.keys() == d.ranges.keys(), d.kernel
        for binding in made.bindings:
            what = d.ranges.get(binding.name, b"" if binding.kind == "struct" else None)
            assert isinstance(what, bytes) == (binding.kind == "struct"), (d.kernel, binding)
            if isinstance(what, bytes):
                assert len(what) == struct_bytes(made.text, binding.type), (d.kernel, binding)
        assert re.findall(r"^KERNEL\((\w+)\)", made.text, re.M) == [d.kernel]
    assert seen


def test_a_struct_of_structs_is_measured() -> None:
    text = ("#define N 3u\ntypedef struct {\n  u32 a, b[2];\n} A;\n"
            "typedef struct {\n  A each[N];\n} B;\n")
    assert struct_bytes(text, "B") == 36


def test_ports_define_the_same_names() -> None:
    """A text that one compiler takes names nothing that another port lacks."""
    words = {}
    for port in PORTS:
        if port not in ("all", "vectors", "nvidia"):
            text = c_texts.port_text(c_texts.FOLDER / f"ports/{port}.h")
            words[port] = {name for name in re.findall(
                r"^ *#define (\w+)|^typedef .*?(\w+);$|^struct (?:alignas\(\d+\) )?(\w+)|"
                r"^FN [\w ]+?[ &*](\w+)\(", text, re.M) for name in name if name}
    own = {"UNLADEN_F2", "UNLADEN_F4", "UNLADEN_U", "copy_16"} | nvidia_names()
    shared = set.intersection(*words.values())
    assert {"KERNEL", "BARRIER", "f4", "Bytes", "load_u128", "dot_i8", "copy_wait"} <= shared
    for port, found in words.items():
        assert found - own == shared, port


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("parts", "quants", "ports"):
        (tmp_path / name).mkdir()
    (tmp_path / "ports/all.h").write_text("// all\n")
    (tmp_path / "ports/p.h").write_text('// port\n#include "more.h"\n')
    (tmp_path / "ports/more.h").write_text("// more\n")
    monkeypatch.setattr(c_texts, "FOLDER", tmp_path)
    return tmp_path


def test_types_of_arguments_come_first(folder: Path) -> None:
    """Every function takes all arguments; what they consist of is known before the first one."""
    (folder / "parts/a.h").write_text("FN int f(ARGS);\n")
    (folder / "k.h").write_text("#use a\ntypedef struct {\n  u32 n;\n} In;\ntypedef float Other;\n"
                                "typedef struct {\n  In each[N];\n} Out;\n#bind struct Out params\n"
                                "#bind in f4 x\n#shared float sums (WG * 2u)\nKERNEL(k) {}\n")
    made = c_texts.assemble("k", "", {"N": 3, "F": True}, folder / "ports/p.h")
    lines = [line for line in made.text.splitlines()
             if line and not line.startswith(("#line", "// "))]
    assert lines == [
        "#define N 3u", "#define F 1", "typedef struct {", "  u32 n;", "} In;",
        "typedef struct {", "  In each[N];", "} Out;",
        "#define KERNEL_PARAMS STRUCT_PARAM(0, Out, params), IN_PARAM(1, f4, x)",
        "#define KERNEL_BEGIN STRUCT_BEGIN(0, Out, params) IN_BEGIN(1, f4, x) "
        "SHARED_BEGIN(float, sums, (WG * 2u))",
        "#define ARGS THREAD_ARG STRUCT_ARG(Out, params), IN_ARG(f4, x), SHARED_ARG(float, sums)",
        "#define args THREAD_PASS params, x, sums",
        "FN int f(ARGS);", "typedef float Other;", "KERNEL(k) {}"]
    assert [(b.kind, b.type, b.name) for b in made.bindings] == [("struct", "Out", "params"),
                                                                 ("in", "f4", "x")]


def test_memory_that_a_launch_gives(folder: Path) -> None:
    (folder / "k.h").write_text("#shared u32 own 4\n#launched tile STAGES * 8u * TN\n"
                                "KERNEL(k) {}\n")
    made = c_texts.assemble("k", "", {"STAGES": 3, "TN": 32}, folder / "ports/p.h")
    assert made.launched_bytes == 16 * 3 * 8 * 32
    assert "SHARED_BEGIN(u32, own, 4) LAUNCHED_BEGIN(u4, tile, (STAGES * 8u * TN))" in made.text
    assert "SHARED_ARG(u4, tile)" in made.text
    (folder / "k.h").write_text("#shared u32 own 4\nKERNEL(k) {}\n")
    assert c_texts.assemble("k", "", {}, folder / "ports/p.h").launched_bytes == 0


def test_a_compiler_names_the_file_and_the_line(folder: Path) -> None:
    (folder / "parts/a.h").write_text("a1\n#words\na3\n")
    (folder / "k.h").write_text("#use a\n#if NO\nk3\n#end\nk5\n")
    text = c_texts.assemble("k", "", {}, folder / "ports/p.h").text
    assert f'#line 1 "parts/a.h"\na1\n#define N_TOKENS {CONSTANTS["N_TOKENS"]}u\n' in text
    assert text.endswith(f'#line 3 "parts/a.h"\na3\n#line 5 "{folder.name}/k.h"\nk5\n')


def test_a_codebook_is_an_argument(folder: Path) -> None:
    (folder / "quants/q9.h").write_text("#grid some\n")
    (folder / "k.h").write_text("#use quant\n#bind out f4 y\nKERNEL(k) {}\n")
    made = c_texts.assemble("k", "Q9", {}, folder / "ports/p.h")
    assert made.grid == "some" and [b.name for b in made.bindings] == ["grid", "y"]
