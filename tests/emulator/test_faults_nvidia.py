"""Faults planted in the kernels for matrix units, and what the emulator tells of each."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import moe, running
from cases.attention import divided
from cases.base import Case, Maker
from emulator import build
from emulator.backend import FEATURES, ORDERS, EmulatorBackend, KernelFault
from emulator.mutants import HALF
from emulator.test_nvidia import attention, product
from unladen.backends._gpu import c_texts

Rng = np.random.Generator
MATRICES = FEATURES | {"mma"}
Plant = Callable[[str], str]


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


def fault_of(bench: running.Bench) -> AssertionError | None:
    """What the emulator or the results tell, in any order of threads."""
    try:
        for _ in ORDERS:
            running.check(bench.case, bench.run(), precise=False, what="planted")
    except AssertionError as error:
        return error
    return None


def coded(rng: Rng) -> Case:
    return product("Q4_K", 70, rng, 32, 512)


def split(rng: Rng) -> Case:
    return product("F16", 17, rng, 32, 256)


def together(rng: Rng) -> Case:
    return product("Q8_0", 70, rng, 64, 1024)


def few(rng: Rng) -> Case:
    return product("Q8_0", 1, rng, 32, 256)


def several(rng: Rng) -> Case:
    return product("Q6_K", 3, rng, 32, 512)


def gate(quant: str, n_tokens: int, rng: Rng, n_out: int, n_in: int) -> Case:
    m = Maker(rng, n_tokens)
    return m.case("linear", m.input("T", n_in), attrs={"act": "silu"}, weights={
        f"w{i}": m.weight(f"w{i}", n_out, n_in, quant=quant) for i in range(2)})


def gated(rng: Rng) -> Case:
    return gate("Q4_K", 3, rng, 64, 256)


def norm(rng: Rng) -> Case:
    m = Maker(rng, 3)
    return m.case("rms_norm", m.input("T", 96), weights={"w": m.weight("w", 96)},
                  attrs={"eps": 1e-5})


def skinny(rng: Rng) -> Case:
    return product("Q4_K", 11, rng, 32, 1024)


def skinny_split(rng: Rng) -> Case:
    return product("F16", 6, rng, 32, 512)


def paired(rng: Rng) -> Case:
    return gate("Q6_K", 11, rng, 32, 512)


def experts(rng: Rng) -> Case:
    return moe.one(rng, 40, 4, 2, "silu", "Q8_0", "Q8_0", twists=("gate_up",),
                   sizes=(256, 256))


def prefill(rng: Rng) -> Case:
    return attention(rng, 21, 4, 1, 64, 64)


def uneven(rng: Rng) -> Case:
    return moe.one(rng, 10, 3, 2, "silu", "Q8_0", "Q8_0", twists=("gate_up",), sizes=(192, 320))


def seeing(**attrs: Any) -> Callable[[Rng], Case]:
    """A prefill of one block or two; without a history where later keys are seen."""
    return lambda rng: attention(rng, 40, 4, 1, 32, 32, 0 if "causal" in attrs else 50, **attrs)


def decode(rng: Rng) -> Case:
    return divided(rng, 64, 8)


def shares(rng: Rng) -> Case:
    m = Maker(rng, 17)
    return m.case("linear", m.input("T", 256), weights={"w0": m.weight("w0", 32, 256, quant="F16")})


RACE = "race|no thread wrote"
WRONG = "."
"""A fault that only the results show: each number is stored by one thread, in a wrong place."""
DRAWS = 20
"""How often a case is drawn until a fault is told: some histories are too short for it."""
TILE, BULK = "parts/mma_tile.h", "parts/bulk_tile.h"
PAIR, UNITS = "parts/pair_sums.h", "parts/tile_units.h"
MANY, SOME, GATED = "matmul_mma.h", "attention_mma.h", "gated_rows.h"
SCORING = "parts/scoring.h"
SKINNY, FEW = "parts/skinny_tile.h", "matvec_mma.h"
AGAIN = "race: copies to what another thread reads"
LATE = "before a copy is waited for|hasn't waited"
IN_USE = "products under way read|hasn't waited for products"
FAULTS = {
    "product, no wait": (coded, TILE, without("copy_wait(STAGES - 2u);"), LATE),
    "product, a group less": (coded, TILE, instead(
        "copy_wait(STAGES - 2u)", "copy_wait(STAGES - 1u)"), LATE),
    "product, a barrier less": (coded, TILE, without("BARRIER();", 0), RACE),
    "product, one further": (coded, MANY, instead(
        "y[to + more * m.n_out + rows]", "y[to + more * m.n_out + rows + 1u]"), WRONG),
    "product, another lane's word": (coded, "parts/tiles.h", instead(
        "out[4] = first8.x;", "out[4] = first.x;"), WRONG),
    "product, half of the threads wait": (coded, TILE, instead(
        "    add_slice(args, b, slice, bands, acc);",
        f"    {HALF}\n    add_slice(args, b, slice, bands, acc);"), "deadlock"),
    "product, half of a warp multiplies": (coded, PAIR, instead(
        "    mma_i8(sum, own, x + 2u * p);",
        "    if (LANE % 32u < 16u) mma_i8(sum, own, x + 2u * p);"), "deadlock"),
    "split product, no wait": (split, TILE, without("copy_wait(STAGES - 2u);"), LATE),
    "split product, a part less": (split, "split_rows.h", instead(
        "part < PARTS; part++", "part + 1u < PARTS; part++"), WRONG),
    "split rows, one further": (split, "split_rows.h", instead(
        "parts[at + apart] =", "parts[at + apart + 1u] ="), WRONG),
    "split rows, a barrier less": (shares, "parts/sum.h", without("BARRIER();", 4), RACE),
    "split rows, half of the threads wait": (split, "split_rows.h", instead(
        "  // The exponent of", f"  {HALF}\n  // The exponent of"), "deadlock"),
    "four warps, no wait": (together, BULK, without("wgmma_wait(TN, acc, 32u, words);"),
                            "hasn't waited"),
    "four warps, a group more under way": (together, BULK, instead(
        "wgmma_wait_but(1u", "wgmma_wait_but(2u"), "changes rows"),
    "four warps, a sum changes meanwhile": (together, BULK, instead(
        "    wgmma_commit();", "    wgmma_commit();\n    acc[0] = 1.0f;"), "changes sums"),
    "four warps, tells of columns under way": (together, BULK, instead(
        "if (IN_SUBGROUP == 0u && turn > 0u) arrive_at(used, (turn - 1u) % STAGES);",
        "if (IN_SUBGROUP == 0u) arrive_at(used, stage);"), AGAIN),
    "four warps, no group": (together, BULK, without("wgmma_commit();"), IN_USE),
    "four warps, no beginning": (together, BULK, without("wgmma_begin_more(16u, a);"),
                                 "before wgmma"),
    "four warps, the next columns": (together, BULK, instead(
        "128u, 256u)", "256u, 128u)"), f"{WRONG}|out of bounds"),
    "four warps, half of a warp multiplies": (together, BULK, instead(
        "      wgmma_part(TN", "      if (LANE % 32u < 16u) wgmma_part(TN"), "deadlock"),
    "four warps, one warp leaves": (together, BULK, instead(
        "    wgmma_commit();", "    if (SUBGROUP > 0u) wgmma_commit();"), "deadlock"),
    "four warps, words of the next columns too early": (together, BULK, instead(
        "raw, next);", "raw, (PRIVATE u32 *)a);"), "changes rows"),
    "four warps, no wait for columns": (together, BULK, without(
        "wait_for_arrivals(filled, stage, turn / STAGES % 2u);"), LATE),
    "four warps, the phase before": (together, BULK, instead(
        "filled, stage, turn / STAGES % 2u", "filled, stage, (turn / STAGES + 1u) % 2u"), LATE),
    "four warps, no wait for warps": (together, BULK, without(
        "wait_for_arrivals(used, last % STAGES, last / STAGES % 2u);"), AGAIN),
    "four warps, a warp tells too early": (together, BULK, without("sync_warp();", 1), AGAIN),
    "four warps, one warp for all": (together, BULK, instead(
        "begin_arrivals(used, stage, WG / 32u)", "begin_arrivals(used, stage, 1u)"),
        f"{AGAIN}|deadlock .* 1 arrivals are missing"),
    "four warps, a warp more": (together, BULK, instead(
        "begin_arrivals(used, stage, WG / 32u)", "begin_arrivals(used, stage, WG / 32u + 1u)"),
        "deadlock .* 1 arrivals are missing"),
    "four warps, fewer bytes": (together, BULK, instead("stage, 128u * TN)", "stage, 112u * TN)"),
                                "deadlock .*copies bring 4096 of 3584"),
    "four warps, more bytes": (together, BULK, instead("stage, 128u * TN)", "stage, 144u * TN)"),
                               "deadlock .*copies bring 4096 of 4608"),
    "four warps, not shown": (together, BULK, without("show_arrivals();"), "no fence showed"),
    "four warps, a barrier less": (together, BULK, without("BARRIER();"), "began"),
    "four warps, the next row": (together, BULK, instead(
        "32u * (token % PADDED)", "32u * (token % PADDED) + 16u"), WRONG),
    "four warps, other columns": (together, "split_rows.h", instead("apart = 8u,", "apart = 16u,"),
                                  WRONG),
    "experts of four warps, no wait": (experts, TILE, without("copy_wait(STAGES - 2u);"), LATE),
    "experts of four warps, not shown": (experts, TILE, without("show_copies();"),
                                         "no fence showed"),
    "experts of four warps, no wait for products": (experts, TILE, without(
        "wgmma_wait(TN, acc, 16u, a);"), IN_USE),
    "few rows, a barrier less": (few, "parts/tile_rows.h", without("BARRIER();", 0), RACE),
    "few rows, one further": (few, "parts/tile_rows.h", instead(
        "totals[o] = total;", "totals[o ^ 1u] = total;"), WRONG),
    "few rows, half of the threads wait": (few, "parts/tile_rows.h", instead(
        "  NO_UNROLL for (u32 o", f"  {HALF}\n  NO_UNROLL for (u32 o"),
        "deadlock"),
    "few rows, no wait for the launch before": (few, "matvec.h", without("wait_for_previous();"),
                                                "not waited for the launch before"),
    "few rows, the wrong row of four": (few, "parts/tile_rows.h", instead(
        "(second_row ? sums[p] : sums[2u + p], 2u)", "(second_row ? sums[p] : sums[2u + p], 1u)"),
        WRONG),
    "several rows, a barrier less": (several, UNITS, without("BARRIER();", 0), RACE),
    "several rows, one further": (several, UNITS, instead(
        "totals[o] = total;", "totals[o ^ 1u] = total;"), WRONG),
    "several rows, half of the threads wait": (several, UNITS, instead(
        "  NO_UNROLL for (u32 o", f"  {HALF}\n  NO_UNROLL for (u32 o"), "deadlock"),
    "several rows, the next row of x": (several, UNITS, instead(
        "? LANE_G : 2u", "? LANE_G + 1u : 2u"), WRONG),
    "several rows, the scale of the next": (several, UNITS, instead(
        "LANE_T + (i) - 1u", "LANE_T + (i)"), WRONG),
    "several rows, half of a warp multiplies": (several, PAIR, instead(
        "    mma_i8_half(sum, own, x + 2u * p);",
        "    if (LANE % 32u < 16u) mma_i8_half(sum, own, x + 2u * p);"), "deadlock"),
    "several rows, no zero": (several, PAIR, instead("if (ZERO > 0u)", "if (ZERO > 99u)"), WRONG),
    "few rows, a tile more": (few, "matvec.h", instead(
        "rows[0], R * m.row_bytes", "rows[0], 2u * R * m.row_bytes"), "out of bounds: prefetches"),
    "few rows, half of a block": (few, "matvec.h", instead(
        "rows[0], R * m.row_bytes", "rows[0], R * m.row_bytes - 8u"),
        "isn't a multiple of 16: prefetches"),
    "few rows, from an odd place": (few, "matvec.h", instead(
        "rows[0], R * m.row_bytes", "rows[0] + 8u, 16u"), "misaligned: prefetches"),
    "rounded rows, columns of other scales": (few, "parts/runs.h", instead(
        "m < 4u * RUNS; m *= 2u", "m < 2u * RUNS; m *= 2u"), WRONG),
    "gated rows, a barrier less": (gated, GATED, without("BARRIER();", 0), RACE),
    "gated rows, half of the threads wait": (gated, GATED, instead(
        "  // A subgroup has the columns", f"  {HALF}\n  // A subgroup has the columns"),
        "deadlock"),
    "gated rows, no wait for the launch before": (gated, GATED, without("wait_for_previous();"),
                                                  "not waited for the launch before"),
    "gated rows, tiles after the last": (gated, GATED, instead(
        "rows[0], R * m.row_bytes", "rows[0], 2u * R * m.row_bytes"), "out of bounds: prefetches"),
    "gated rows, the first tile twice": (gated, GATED, instead(
        "first + team / 2u * R", "first"), WRONG),
    "gated rows, one further": (gated, GATED, instead(
        "if (is_there) y[i] = value;", "if (is_there) y[i ^ 1u] = value;"), WRONG),
    "norms, no wait for the launch before": (norm, "rms_norm.h", without("wait_for_previous();"),
                                             "not waited for the launch before"),
    "norms, weights after the last": (norm, "rms_norm.h", instead(
        "min_u32(params.size, params.period - from)", "(params.size + 4u)"),
        "out of bounds: prefetches"),
    "skinny, no wait": (skinny, SKINNY, without("copy_wait(STAGES - 2u);"), LATE),
    "skinny, a group less": (skinny, SKINNY, instead(
        "copy_wait(STAGES - 2u)", "copy_wait(STAGES - 1u)"), LATE),
    "skinny, a warp doesn't meet": (skinny, SKINNY, without("sync_warp();"), RACE),
    "skinny, sums over columns in use": (skinny, SKINNY, without("BARRIER();", 0),
                                         f"{RACE}|{LATE}"),
    "skinny, sums that aren't there": (skinny, SKINNY, without("BARRIER();", 1), RACE),
    "skinny, x of the next rows": (skinny, SKINNY, instead(
        "return stage * 2u * NT + 8u * n;", "return stage * 2u * NT + 8u * (n ^ 1u);"), WRONG),
    "skinny, another lane's scales": (skinny, SKINNY, instead(
        "pair_scales(args, b, at, LANE_G + 8u, c, p);", "pair_scales(args, b, at, LANE_G, c, p);"),
        WRONG),
    "skinny, another base": (skinny, SKINNY, instead(
        "#define INT_BASE 0x4b400000", "#define INT_BASE 0x4b401000"), WRONG),
    "skinny, a warp's sums less": (skinny, SKINNY, instead(
        "for (u32 s = 0u; s < WARPS; s++)", "for (u32 s = 1u; s < WARPS; s++)"), WRONG),
    "skinny, a tile twice": (skinny, SKINNY, instead(
        "return first + k / CHUNKS * WARPS;", "return first + k / CHUNKS;"), WRONG),
    "skinny, tiles after the last": (skinny, SKINNY, instead(
        "bands[r], 16u * row_bytes", "bands[r], 32u * row_bytes"), "out of bounds: prefetches"),
    "skinny, rows after the last": (skinny, SKINNY, instead(
        "min_u32(begin + own + after, count - 1u)", "begin + own + after"), "out of bounds"),
    "skinny, one further": (skinny, FEW, instead(
        "store(args, which, value, token * n_out + row);",
        "store(args, which, value, token * n_out + row + 1u);"), WRONG),
    "skinny, no wait for the launch before": (skinny, FEW, without("wait_for_previous();"),
                                              "not waited for the launch before"),
    "skinny, half of the threads wait": (skinny, FEW, instead(
        "  multiply_bands(args", f"  {HALF}\n  multiply_bands(args"), "deadlock"),
    "skinny, half of a warp multiplies": (skinny, SKINNY, instead(
        "    mma_i8(first, own, x + 2u * p);",
        "    if (LANE % 32u < 16u) mma_i8(first, own, x + 2u * p);"), "deadlock"),
    "skinny, a part less": (skinny_split, SKINNY, instead(
        "q + 1u < PARTS", "q + 2u < PARTS"), WRONG),
    "skinny, factors of other rows": (skinny_split, SKINNY, instead(
        "total.z * one, total.w * two", "total.z * two, total.w * one"), WRONG),
    "skinny, one weight twice": (paired, SKINNY, instead(
        "return matrix_bytes(args, r);", "return matrix_bytes(args, 0u);"), WRONG),
    "skinny, the gate for both": (paired, FEW, instead(
        "u = sum_of_warps(args, SUMS + i, count)", "u = sum_of_warps(args, i, count)"), WRONG),
    "experts, a barrier less": (experts, "moe_mma.h", without("BARRIER();", 0), RACE),
    "experts, the second product too early": (experts, TILE, without("BARRIER();", 1),
                                               f"{RACE}|{LATE}"),
    "experts, no wait": (experts, TILE, without("copy_wait(STAGES - 2u);"), LATE),
    "experts, one further": (experts, "moe_mma.h", instead(
        "y[mine * m.n_out + row] =", "y[mine * m.n_out + row + 1u] ="), WRONG),
    "experts, half of the threads wait": (experts, "moe_mma.h", instead(
        "  u32 bands[RM];\n  float acc", f"  {HALF}\n  u32 bands[RM];\n  float acc"), "deadlock"),
    "experts, rows after the last": (uneven, "moe_mma.h", instead(
        "min_u32(first + warp_row(args) + 16u * r, m.n_out - 16u)",
        "first + warp_row(args) + 16u * r"), "out of bounds|misaligned"),
    "experts, results after the last": (uneven, "moe_mma.h", instead(
        "row >= m.n_out || k >= count", "k >= count"), f"{RACE}|out of bounds"),
    "attention, its own key alone of a chunk": (
        seeing(window=13, window_kind="chunked"), SCORING, instead(
            "p / params.window * params.window", "p"), WRONG),
    "attention, all later keys": (
        seeing(window=13, window_kind="symmetric", causal=False), SCORING, instead(
            "min_u32((u32)batch(args, KV_LEN, seq), p + params.window / 2u + 1u)",
            "(u32)batch(args, KV_LEN, seq)"), WRONG),
    "attention, no later key": (seeing(causal=False), SCORING, instead(
        "#else\n  return (u32)batch(args, KV_LEN, seq);", "#else\n  return p + 1u;"), WRONG),
    "attention, no spans": (seeing(spans=True), SCORING, instead(
        "batch(args, SEES_TO, t)", "batch(args, INDEX, t)"), WRONG),
    "attention, a share's sum of another": (decode, SOME, instead(
        "y[at + VD + 1u] = sum;", "y[at + VD + 1u] = 1.0f;"), WRONG),
    "attention, no wait for keys": (prefill, SOME, without("copy_wait(1);", 0), LATE),
    "attention, no wait for values": (prefill, SOME, without("copy_wait(1);", 1), LATE),
    "attention, keys copied too early": (prefill, SOME, without("BARRIER();", 2),
                                         f"{RACE}|{LATE}"),
    "attention, values copied too early": (prefill, SOME, without("BARRIER();", 4),
                                           f"{RACE}|{LATE}"),
    "attention, one further": (prefill, SOME, instead(
        "y[at + 8u * d + 2u * t + 1u] =", "y[at + 8u * d + 2u * t + 2u] ="), WRONG),
    "attention, half of the threads wait": (prefill, SOME, instead(
        "    multiply_keys(args, s);", f"    {HALF}\n    multiply_keys(args, s);"), "deadlock")}
"""For each fault a case, the file, how to plant it, and what is told."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_told(name: str, planted: Callable[[str, Plant], None], rng: Rng
                                 ) -> None:
    make, file, how, told = FAULTS[name]
    planted(file, how)
    features = MATRICES | {"pdl"} | ({"wgmma"} if "four warps" in name else set())
    for _ in range(DRAWS):
        found = fault_of(running.Bench(EmulatorBackend(features), make(rng)))
        if found is not None:
            assert re.search(told, str(found)) and " error: " not in str(found)  # of the compiler
            assert told.startswith(WRONG) or isinstance(found, KernelFault)
            return
    raise AssertionError("no case shows the fault")


def test_a_kernel_that_begins_early_and_does_not_wait(monkeypatch: pytest.MonkeyPatch, rng: Rng
                                                      ) -> None:
    monkeypatch.setattr(c_texts, "WAIT_THEMSELVES", c_texts.WAIT_THEMSELVES | {"quantize"})
    found = fault_of(running.Bench(EmulatorBackend(MATRICES | {"pdl"}), coded(rng)))
    assert isinstance(found, KernelFault) and "not waited for the launch before" in str(found)


def test_rows_that_share_a_bank_are_counted(planted: Callable[[str, Plant], None], rng: Rng
                                            ) -> None:
    planted(SOME, instead("#define K_STRIDE (K_ROW | 1u)", "#define K_STRIDE K_ROW"))
    before = build.runtime().bank_conflicts()
    running.Bench(EmulatorBackend(MATRICES), prefill(rng)).run()
    assert build.runtime().bank_conflicts() > before
