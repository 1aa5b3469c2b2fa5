"""What the emulator finds: faults that only some kernels can have, and faults of small kernels.
``test_mutants.py`` plants those that every class of kernels can have."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import attention, running
from cases.base import Case, Maker
from emulator import build
from emulator.backend import ORDERS, EmulatorBackend, KernelFault, run
from emulator.mutants import Mutant, plant
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.target import Bytes
from unladen.graph.graph import KVSpec

Rng = np.random.Generator


def rows(rng: Rng) -> Case:
    m = Maker(rng, 3)
    return m.case("rms_norm", m.input("T", 96), weights={"w": m.weight("w", 96)},
                  attrs={"eps": 1e-5})


def few(rng: Rng) -> Case:
    m = Maker(rng, 3)
    return m.case("linear", m.input("T", 64), weights={"w0": m.weight("w0", 9, 64, quant="Q8_0")})


def stored(rng: Rng) -> Case:
    m = Maker(rng, 5, kv_types=("F16", "F16"))
    spec = KVSpec(0, 2, 32, 32)
    return m.case("kv_write", m.input("T", 64), m.input("T", 64), state=spec, kv=m.cache(spec))


FAULTS = {
    "no end": (rows, "rms_norm.h",
               "  if (GROUP_Y > 0u && group >= n_rows(args, ROW_KIND) * (params.n_items / "
               "params.size)) return;\n", "", None),
    "a row that isn't there": (few, "matvec.h", "min_u32(row, n - PER_ADDRESS)", "(row)",
                               "out of bounds: reads"),
    "an array beyond its end": (stored, "parts/step.h", "step[(u32)step[which] + i]",
                                "step[(u32)step[which] + i + 1u]",
                                "reads between the arrays of step"),
    "a word that isn't whole": (stored, "parts/store_row.h", "at + 2u * d, stored_halves",
                                "at + 2u * d + 2u, stored_halves", "misaligned")}
"""For each fault a case, the file, what is replaced by what, and what is told; None: it is no fault
here, since the grid has no more workgroups than groups."""


def in_all_orders(bench: running.Bench) -> None:
    for _ in ORDERS:
        bench.run()


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_told(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                 rng: Rng) -> None:
    make, file, old, new, told = FAULTS[name]
    bench = running.Bench(EmulatorBackend(), make(rng))
    bench.run()  # without the fault
    text = (c_texts.FOLDER / file).read_text()
    assert text.count(old) == 1
    plant(Mutant(file, 0, old, text.replace(old, new)), tmp_path)
    monkeypatch.setattr(c_texts, "FOLDER", tmp_path)
    if told is None:
        bench.run()
        return
    with pytest.raises(KernelFault, match=told) as error:
        in_all_orders(bench)
    assert any(f"threads {order}" in str(error.value) for order in ORDERS)


def test_columns_of_a_later_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: Rng) -> None:
    """A workgroup that joins shares of keys has fewer threads than a row has columns."""
    bench = running.Bench(EmulatorBackend(), attention.divided(rng, 320))
    running.check(bench.case, bench.run(), precise=False, what="without a fault")
    old = "min_u32(first + column, VD - 1u)"
    text = (c_texts.FOLDER / "attention_join.h").read_text()
    assert text.count(old) == 1
    plant(Mutant("attention_join.h", 0, old, text.replace(old, "column")), tmp_path)
    monkeypatch.setattr(c_texts, "FOLDER", tmp_path)
    bench = running.Bench(EmulatorBackend(), bench.case)
    (y,), (wanted,) = bench.run(), running.on_paper(bench.case)[0]
    with pytest.raises(AssertionError, match="planted"):
        running.check(bench.case, [y], precise=False, what="planted")
    wrong = np.abs(y - wanted).reshape(2, 320) > 1e-3
    assert wrong[:, 256:].any() and not wrong[:, :256].any()


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
    ("y[LANE] = 1.0f; BARRIER(); if (LANE == 0u) { copy_async(tile, 0u, y, 0u); copy_wait(0); }",
     "race: reads what another thread wrote y[4]"),
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


@pytest.mark.parametrize("n", [1022, 1023])
def test_a_workgroup_has_no_more_than_every_device_gives_it(
        n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"#shared u4 more {n}\n\nKERNEL(small) {{ y[LANE] = 0.0f; }}\n"
    _, told = small(text, tmp_path, monkeypatch)
    assert told.count("more bytes than a workgroup has, up to and with more[16400]") == n - 1022
    assert bool(told) == (n > 1022)


def test_a_workgroup_has_what_its_device_gives_it(rng: Rng) -> None:
    running.Bench(EmulatorBackend(workgroup_bytes=1 << 10), rows(rng)).run()
    with pytest.raises(KernelFault, match=r"more bytes than a workgroup has, .* shared_values"):
        running.Bench(EmulatorBackend(workgroup_bytes=100), rows(rng)).run()


def test_orders_follow_from_the_seed_of_a_test(rng: Rng, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = rng.bit_generator.seed_seq.entropy  # type: ignore[attr-defined]
    state = np.random.get_state()[1]  # type: ignore[index]
    assert np.array_equal(state, np.random.RandomState(seed).get_state()[1])  # type: ignore[index]
    case, taken = few(rng), []

    def note(*given: Any) -> None:
        taken.append(given[4:6])
    monkeypatch.setattr("emulator.backend.run", note)
    for _ in range(2):
        np.random.seed(seed)
        bench = running.Bench(EmulatorBackend(), case)
        in_all_orders(bench)
    n = len(taken) // 2
    assert taken[:n] == taken[n:] and len({seed for _, seed in taken}) == n
    assert {order for order, _ in taken} == set(range(len(ORDERS)))


def test_a_fault_names_its_order_and_seed(rng: Rng) -> None:
    bench = running.Bench(EmulatorBackend(workgroup_bytes=100), rows(rng))
    with pytest.raises(KernelFault, match=rf"threads ({'|'.join(ORDERS)}), seed \d+:"):
        bench.run()
