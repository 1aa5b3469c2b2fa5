"""What the emulator finds: planted faults in real kernels, one class after another, and in small
ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import cases
from cases import running
from cases.base import Case, Maker
from emulator import build
from emulator.backend import ORDERS, EmulatorBackend, KernelFault, run
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.target import Bytes
from unladen.graph.graph import KVSpec

Rng = np.random.Generator
Plant = Callable[[str], str]


def rows(rng: Rng) -> Case:
    m = Maker(rng, 3)
    return m.case("rms_norm", m.input("T", 96), weights={"w": m.weight("w", 96)},
                  attrs={"eps": 1e-5})


def few(rng: Rng) -> Case:
    m = Maker(rng, 3)
    return m.case("linear", m.input("T", 64), weights={"w0": m.weight("w0", 9, 64, quant="Q8_0")})


def many(rng: Rng) -> Case:
    m = Maker(rng, 17)
    return m.case("linear", m.input("T", 64), weights={"w0": m.weight("w0", 33, 64, quant="Q4_0")})


def attention(rng: Rng, k_dim: int = 32) -> Case:
    m = Maker(rng, 5, n_seqs=1, max_history=40, kv_types=("F16", "F16"))
    spec = KVSpec(0, 1, k_dim, 32)
    return m.case("attention", m.input("T", 2 * k_dim), state=spec,
                  attrs={"n_heads": 2, "scale": 0.2}, kv=m.cache(spec))


def narrow_attention(rng: Rng) -> Case:
    return attention(rng, 36)


def chosen(rng: Rng) -> Case:
    return next(islice(cases.registry()["argmax"](rng), 2, None))


def stored(rng: Rng) -> Case:
    m = Maker(rng, 5, kv_types=("F16", "F16"))
    spec = KVSpec(0, 2, 32, 32)
    return m.case("kv_write", m.input("T", 64), m.input("T", 64), state=spec, kv=m.cache(spec))


def without(line: str, number: int = 0) -> Plant:
    """Remove the line ``line``, counted from ``number`` 0 on among those that are alike."""
    def plant(text: str) -> str:
        found = list(re.finditer(rf"^ *{re.escape(line)}\n", text, re.M))
        assert len(found) > number, line
        return text[:found[number].start()] + text[found[number].end():]
    return plant


def instead(old: str, new: str) -> Plant:
    def plant(text: str) -> str:
        assert text.count(old) == 1, (text.count(old), old)
        return text.replace(old, new)
    return plant


RACE = "race|no thread wrote"
WRONG = "."
"""A fault that only the results show: each number is stored by one thread, in a wrong place."""
HALF = "if (LANE < WG / 2u) BARRIER();"
FAULTS = {
    "rows, a barrier less": (rows, "parts/sum.h", without("BARRIER();", 1), RACE),
    "rows, one further": (rows, "rms_norm.h", instead(
        "  y[i] = value * w", "  y[i + 1u] = value * w"), WRONG),
    "rows, half of the threads wait": (rows, "parts/sum.h", instead(
        "  const float total = shared_values[0];\n", f"  {HALF}\n"
        "  const float total = shared_values[0];\n"), "deadlock"),
    "rows, no end": (rows, "rms_norm.h", instead(
        "  if (group >= n_groups) return;\n", ""), None),
    "few rows, a barrier less": (few, "parts/dot_rows.h", without("BARRIER();", 1), RACE),
    "few rows, one further": (few, "matvec.h", instead(
        "token * m.n_out + m.first_row + row)", "token * m.n_out + m.first_row + row + 1u)"),
        WRONG),
    "few rows, half of the threads wait": (few, "matvec.h", instead(
        "  finish(args, partial);\n", f"  {HALF}\n  finish(args, partial);\n"), "deadlock"),
    "few rows, a row that isn't there": (few, "matvec.h", instead(
        "min_u32(first + r, m.n_rows - 1u)", "(first + r)"), "out of bounds: reads"),
    "many rows, a barrier less": (many, "matmul.h", without("BARRIER();"), RACE),
    "many rows, one further": (many, "matmul.h", instead(
        "t * m.n_out + all_row)", "t * m.n_out + all_row + 1u)"), WRONG),
    "many rows, half of the threads wait": (many, "matmul.h", instead(
        "    const u32 buffer =", f"    {HALF}\n    const u32 buffer ="), "deadlock"),
    "attention, a barrier less": (attention, "attention_wide.h", without("BARRIER();", 3), RACE),
    "attention, one further": (attention, "attention_wide.h", instead(
        "  y[at + 4u * d + 3u] =", "  y[at + 4u * d + 4u] ="), WRONG),
    "attention, half of the threads wait": (attention, "attention_wide.h", instead(
        "    weigh(args, score", f"    {HALF}\n    weigh(args, score"), "deadlock"),
    "attention of odd rows, a barrier less": (
        narrow_attention, "attention.h", without("BARRIER();", 4), RACE),
    "attention of odd rows, one further": (narrow_attention, "attention.h", instead(
        "y[at + d] =", "y[at + d + 1u] ="), WRONG),
    "attention of odd rows, half of the threads wait": (narrow_attention, "attention.h", instead(
        "    reduce_largest(args);", f"    {HALF}\n    reduce_largest(args);"), "deadlock"),
    "choosing, a barrier less": (chosen, "argmax.h", without("BARRIER();", 0), RACE),
    "choosing, one further": (chosen, "argmax.h", instead(
        "y[GROUP_Y] =", "y[GROUP_Y + 1u] ="), WRONG),
    "choosing, half of the threads wait": (chosen, "argmax.h", instead(
        "  if (LANE == 0u) {\n", f"  {HALF}\n  if (LANE == 0u) {{\n"), "deadlock"),
    "cache, one further": (stored, "kv_write.h", instead(
        "at + 2u * d, low |", "at + 2u * d + 4u, low |"), WRONG),
    "cache, a word that isn't whole": (stored, "kv_write.h", instead(
        "at + 2u * d, low |", "at + 2u * d + 2u, low |"), "misaligned")}
"""For each fault a case, the file, how to plant it, and what is told; None: it is no fault here,
since the grid has no more workgroups than groups."""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Plant], None]:
    """Copies the texts, and changes one."""
    def plant(name: str, how: Plant) -> None:
        for path in c_texts.FOLDER.rglob("*.h"):
            copy = tmp_path / path.relative_to(c_texts.FOLDER)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(path.read_text())
        (tmp_path / name).write_text(how((tmp_path / name).read_text()))
        monkeypatch.setattr(c_texts, "FOLDER", tmp_path)
    return plant


def check_in_all_orders(bench: running.Bench) -> None:
    for _ in ORDERS:
        running.check(bench.case, bench.run(), precise=False, what="planted")
        if bench.case.kv is not None:
            expected = running.on_paper(bench.case)[2]
            for mine, wanted in zip(bench.cache(), expected, strict=True):
                np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_told(name: str, planted: Callable[[str, Plant], None], rng: Rng
                                 ) -> None:
    make, file, how, told = FAULTS[name]
    case = make(rng)
    running.Bench(EmulatorBackend(), case).run()  # without the fault
    planted(file, how)
    bench = running.Bench(EmulatorBackend(), case)
    if told is None:
        bench.run()
        return
    with pytest.raises(AssertionError, match=told) as error:
        check_in_all_orders(bench)
    if told != WRONG:
        assert isinstance(error.value, KernelFault)
        assert re.search(r"threads (up|down|shuffled)", str(error.value))


HEAD = """#bind in u32 x
#bind out float y
#shared u4 tile 2
"""


def small(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, order: int = 0
          ) -> tuple[Bytes, str]:
    """What a kernel of one workgroup of 64 threads leaves in y, 64 numbers, and what is told."""
    (folder / "small.h").write_text(HEAD + text)
    monkeypatch.setattr(c_texts, "_shelf", lambda: c_texts.Shelf(folder, ".h", "c"))
    source = c_texts.assemble("small", "", {"WG": 64}, build.PORT)
    x = np.arange(64, dtype=np.uint32).view(np.uint8)
    y = np.zeros(64, np.float32)
    try:
        run(source, {"x": x, "y": y.view(np.uint8)}, (1, 1, 1), 64, order, 1)
    except KernelFault as error:
        return y, str(error)
    return y, ""


@pytest.mark.parametrize("order", range(3))
def test_copies_arrive_when_they_are_waited_for(order: int, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    text = """KERNEL(small) {
  if (LANE < 2u) copy_async(tile, LANE, x, 16u * LANE);
  copy_commit();
  copy_wait(%s);
  %s
  const u4 words = tile[LANE %% 2u];
  copy_wait(0);
  y[LANE] = (float)words.y;
}
"""
    good, told = small(text % ("0", "BARRIER();"), tmp_path, monkeypatch, order)
    assert not told and good.tolist() == [1.0, 5.0] * 32
    _, told = small(text % ("1", "BARRIER();"), tmp_path, monkeypatch, order)
    assert "before a copy is waited for" in told
    _, told = small(text % ("0", ""), tmp_path, monkeypatch, order)
    assert re.search("race|no thread wrote|before a copy is waited for", told)


@pytest.mark.parametrize(("body", "told"), [
    ("y[LANE] = (float)x[LANE + 1u];", "out of bounds: reads x[256]"),
    ("y[0] = 1.0f;", "race: writes what another thread wrote y"),
    ("y[LANE] = 1.0f; y[63u - LANE] += 1.0f;", "race"),
    ("y[LANE] = subgroup_add(1.0f);", ""),
    ("if (LANE > 3u) y[LANE] = subgroup_add(1.0f);", "deadlock"),
    ("tile[LANE] = U4(0u, 0u, 0u, 0u);", "out of bounds: writes tile[2]"),
    ("y[LANE] = (float)load_u32(x, 2u);", "misaligned x[2]"),
    ("copy_async(tile, 0u, x, 0u);", "hasn't waited"),
    ("float own[2]; own[0] = 1.0f; y[LANE] = own[0];", "")])
def test_small_faults(body: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                      ) -> None:
    _, found = small(f"KERNEL(small) {{\n  {body}\n}}\n", tmp_path, monkeypatch)
    assert (told in found) if told else not found


OWN_ARRAY = """
import sys
sys.path.append(sys.argv[1])
from pathlib import Path
import numpy as np
from emulator import build
from emulator.backend import run
from unladen.backends._gpu import c_texts

folder = Path(sys.argv[2])
c_texts._shelf = lambda: c_texts.Shelf(folder, ".h", "c")
memory = {"x": np.zeros(256, np.uint8), "y": np.zeros(256, np.uint8)}
for name in ("good", "bad"):
    run(c_texts.assemble(name, "", {"WG": 64}, build.PORT), memory, (1, 1, 1), 64, 2, 1)
    print(name, "ran", flush=True)
"""


def test_private_arrays_are_checked_with_asan(tmp_path: Path) -> None:
    found = subprocess.run([build.compiler(), "-print-file-name=libasan.so"], capture_output=True,
                           text=True, check=True).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip("needs libasan")
    for name, at in (("good", "LANE % 2u"), ("bad", "x[LANE] + 2u")):
        (tmp_path / f"{name}.h").write_text(
            f"#bind in u32 x\n#bind out float y\n\nKERNEL({name}) {{\n  float own[2];\n"
            f"  own[0] = own[1] = 1.0f;\n  BARRIER();\n  y[LANE] = own[{at}];\n}}\n")
    done = subprocess.run(
        [sys.executable, "-c", OWN_ARRAY, str(build.HERE.parent), str(tmp_path)], text=True,
        capture_output=True, env={**os.environ, "LD_PRELOAD": found, build.ASAN_VARIABLE: "1",
                                  "ASAN_OPTIONS": "detect_leaks=0"})
    assert done.stdout == "good ran\n", done.stderr
    assert "stack-buffer-overflow" in done.stderr and "bad.h:8" in done.stderr


def test_subgroups_have_32_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    y, told = small("KERNEL(small) { y[LANE] = subgroup_max((float)LANE) + subgroup_add(1.0f); }\n",
                    tmp_path, monkeypatch)
    assert not told and y.tolist() == [63.0] * 32 + [95.0] * 32
