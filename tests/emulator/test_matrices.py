"""The emulator's matrix primitives against NumPy, with the registers of the PTX ISA."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from emulator.backend import KernelFault
from emulator.small import WARP, Array, Launch
from unladen import quants

Rng = np.random.Generator


def registers(matrix: Array, per_word: int) -> Array:
    """uint32 [rows, words] of numbers of 8 or 16 bits."""
    return np.ascontiguousarray(matrix).view(np.uint32).reshape(len(matrix), -1)


def lanes(words: Array, row: Callable[[int, int], int], word: Callable[[int, int], int], n: int
          ) -> Array:
    """[lane, register]: word ``word(t, i)`` of row ``row(g, i)`` for thread 4 g + t."""
    return np.array([[words[row(lane // 4, i), word(lane % 4, i)] for i in range(n)]
                     for lane in range(WARP)], np.uint32)


def product(launch: Launch, call: str, kind: str, a: Array, b: Array, c: Array, order: int
            ) -> Array:
    """a [16, K] times b [K, 8] plus c [16, 8], by one instruction."""
    n_a, n_b = (4, 2) if a.shape[1] * a.itemsize == 32 else (2, 1)
    own_a = lanes(registers(a, 4), lambda g, i: g + i % 2 * 8, lambda t, i: t + i // 2 * 4, n_a)
    own_b = lanes(registers(b.T, 4), lambda g, i: g, lambda t, i: t + 4 * i, n_b)
    own_c = np.array([[c[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] for i in range(4)]
                      for lane in range(WARP)], c.dtype)
    given = np.concatenate([own_a, own_b, own_c.view(np.uint32)], axis=1)
    n = given.shape[1]
    y = launch(f"""
  u32 a[4], b[2];
  {kind} c[4];
  for (u32 i = 0u; i < {n_a}u; i++) a[i] = x[LANE * {n}u + i];
  for (u32 i = 0u; i < {n_b}u; i++) b[i] = x[LANE * {n}u + {n_a}u + i];
  for (u32 i = 0u; i < 4u; i++) {{
    const u32 bits = x[LANE * {n}u + {n_a + n_b}u + i];
    c[i] = {"as_f32(bits)" if kind == "float" else "(int)bits"};
  }}
  {call}(c, a, b);
  for (u32 i = 0u; i < 4u; i++) {{
    y[LANE * 4u + i] = {"as_u32(c[i])" if kind == "float" else "u32_of(c[i])"};
  }}""", given, WARP * 4, order).view(c.dtype).reshape(WARP, 4)
    out = np.zeros_like(c)
    for lane in range(WARP):
        for i in range(4):
            out[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] = y[lane, i]
    return out


@pytest.mark.parametrize("order", range(3))
@pytest.mark.parametrize(("call", "n"), [("mma_i8", 32), ("mma_i8_half", 16)])
def test_products_of_int8(call: str, n: int, order: int, launch: Launch, rng: Rng) -> None:
    a = rng.integers(-128, 128, (16, n)).astype(np.int8)
    b = rng.integers(-128, 128, (n, 8)).astype(np.int8)
    c = rng.integers(-1000, 1000, (16, 8)).astype(np.int32)
    wanted = a.astype(np.int32) @ b.astype(np.int32) + c
    assert np.array_equal(product(launch, call, "int", a, b, c, order), wanted)


@pytest.mark.parametrize("call", ["mma_f16", "mma_bf16"])
def test_products_of_16_bits(call: str, launch: Launch, rng: Rng) -> None:
    kind = "F16" if call == "mma_f16" else "BF16"

    def rounded(*shape: int) -> tuple[Array, Array]:
        raw = quants.quantize(kind, rng.standard_normal(shape).astype(np.float32))
        values = quants.dequantize(kind, raw.reshape(-1), shape)
        return raw.view(np.uint16).reshape(shape), values.astype(np.float64)
    (a, exact_a), (b, exact_b) = rounded(16, 16), rounded(16, 8)
    c = rng.standard_normal((16, 8)).astype(np.float32)
    y = product(launch, call, "float", a, b, c, 2)
    exact = exact_a @ exact_b + c
    assert np.all(np.abs(y - exact) <= lost(exact_a, exact_b, c))


def lost(a: Array, b: Array, c: Array | float) -> Array:
    """How much of c + a b may be lost: each addend, and the sum, is cut off at the 24th digit of
    the largest, which is less than twice the sum of their sizes."""
    sizes = np.abs(a) @ np.abs(b) + np.abs(c)
    return np.asarray((a.shape[1] + 2) * 2.0 ** -23 * sizes)


@pytest.mark.parametrize("call", ["mma_f16", "mma_bf16"])
def test_addends_are_cut_off_at_the_last_digit_of_the_largest(call: str, launch: Launch) -> None:
    """1 + 2^-24 is 1, even sixteen times, where adding up the small ones first would keep them."""
    kind = "F16" if call == "mma_f16" else "BF16"
    small = quants.quantize(kind, np.full((16, 16), 2.0 ** -12, np.float32)).view(np.uint16)
    a, b = small.reshape(16, 16), small.reshape(16, 16)[:, :8]
    c = np.ones((16, 8), np.float32)
    assert np.all(product(launch, call, "float", a, b, c, 0) == 1)


@pytest.mark.parametrize("transposed", [False, True])
def test_rows_of_matrices(transposed: bool, launch: Launch, rng: Rng) -> None:
    rows = rng.integers(0, 1 << 16, (32, 8)).astype(np.uint16)
    which = rng.permutation(WARP)
    call = "load_transposed" if transposed else "load_matrices"
    y = launch(f"""
  tile[LANE] = U4(x[4u * LANE], x[4u * LANE + 1u], x[4u * LANE + 2u], x[4u * LANE + 3u]);
  BARRIER();
  u32 out[4];
  {call}(out, tile, x[128u + LANE]);
  for (u32 j = 0u; j < 4u; j++) y[4u * LANE + j] = out[j];""",
               np.concatenate([rows.view(np.uint32).reshape(-1), which.astype(np.uint32)]),
               WARP * 4).reshape(WARP, 4)
    for j in range(4):
        matrix = rows[which[8 * j:8 * j + 8]]
        if transposed:
            matrix = matrix.T
        words = np.ascontiguousarray(matrix).view(np.uint32)
        assert np.array_equal(y[:, j], words.reshape(-1)), j


WARPGROUP = 4 * WARP
STORES = """for (u32 i = LANE; i < {n}u * 2u; i += WG) {{
    const u32 at = 128u + 4u * i;
    wide[i] = U4(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
  }}"""
COPIES = """for (u32 i = LANE; i < {n}u * 2u; i += WG) copy_async(wide, i, x, 512u + 16u * i);
  copy_commit();"""
BULK = """if (LANE == 0u) {{
    begin_arrivals(there, 0u, 1u);
    show_arrivals();
    expect_bytes(there, 0u, {n}u * 32u);
    copy_in_bulk(wide, 0u, x, 512u, {n}u * 32u, there, 0u);
  }}"""
"""How the columns of b come to shared memory."""


def four_warps(n: int, call: str, *, fill: str = STORES, begin: str = "wgmma_begin({n}u, c);",
               fence: str = "show_copies();", commit: str = "wgmma_commit();",
               between: str = "") -> str:
    """A kernel in which four warps have the same rows of a; one of them stores what they make. b
    lies in shared memory in blocks of eight columns by eight rows, as its descriptor says."""
    return f"""
  u32 a[4];
  float c[{n // 2}], before = 0.0f;
  for (u32 i = 0u; i < 4u; i++) a[i] = x[4u * IN_SUBGROUP + i];
  for (u32 i = 0u; i < {n // 2}u; i++) c[i] = 1.0f;
  {fill.format(n=n)}
  {fence}
  BARRIER();
  {begin.format(n=n)}
  {call}({n}u, c, a, wide, matrix_descriptor(wide, 0u, 128u, 256u));
  {commit}
  for (u32 i = 0u; i < {n // 2}u; i++) before = max_f32(before, c[i]);
  {between}
  wgmma_wait({n}u, c, 4u, a);
  if (LANE >= 32u) return;
  for (u32 i = 0u; i < {n // 2}u; i++) y[{n // 2 + 1}u * LANE + i] = as_u32(c[i]);
  y[{n // 2 + 1}u * LANE + {n // 2}u] = as_u32(before);"""


def operands(kind: str, n: int, rng: Rng) -> tuple[Array, Array, Array]:
    """The words of a and b, and both as float64."""
    raw = quants.quantize(kind, rng.standard_normal((16 + n, 16)).astype(np.float32)).reshape(-1)
    exact = quants.dequantize(kind, raw, (16 + n, 16)).astype(np.float64)
    words = raw.view(np.uint32).reshape(16 + n, 8)
    a = lanes(words[:16], lambda g, i: g + i % 2 * 8, lambda t, i: t + i // 2 * 4, 4)
    blocks = np.ascontiguousarray(words[16:].reshape(n // 8, 8, 2, 4).transpose(0, 2, 1, 3))
    return np.concatenate([a.reshape(-1), blocks.reshape(-1)]), exact[:16], exact[16:].T


@pytest.mark.parametrize("n", [32, 64, 128])
@pytest.mark.parametrize("call", ["wgmma_f16", "wgmma_bf16"])
def test_products_of_four_warps_are_there_after_the_wait(call: str, n: int, launch: Launch, rng: Rng
                                                         ) -> None:
    given, a, b = operands("F16" if call == "wgmma_f16" else "BF16", n, rng)
    n_each = n // 2 + 1
    y = launch(four_warps(n, call), given, n_each * WARP, threads=WARPGROUP)
    y = y.view(np.float32).reshape(WARP, n_each)
    assert np.all(y[:, -1] == 1)
    exact, allowed = a @ b + 1, lost(a, b, 1.0)
    for lane in range(WARP):
        for i in range(n // 2):
            row, column = lane // 4 + i % 4 // 2 * 8, i // 4 * 8 + lane % 4 * 2 + i % 2
            assert abs(y[lane, i] - exact[row, column]) <= allowed[row, column]


@pytest.mark.parametrize(("fault", "told"), [
    ({"begin": ""}, "multiplies before wgmma_begin"),
    ({"fence": ""}, "no fence showed"),
    ({"commit": ""}, "hasn't waited for products"),
    ({"between": "a[1] = 0u;"}, "changes rows of products"),
    ({"between": "c[1] = 0.0f;"}, "changes sums of products"),
    ({"between": "wide[LANE] = U4(0u, 0u, 0u, 0u);"}, "race: writes what another thread reads")])
def test_a_product_of_four_warps_without_its_order_is_told(fault: dict[str, str], told: str,
                                                           launch: Launch, rng: Rng) -> None:
    given, _, _ = operands("F16", 32, rng)
    with pytest.raises(KernelFault, match=told):
        launch(four_warps(32, "wgmma_f16", **fault), given, 17 * WARP, threads=WARPGROUP)


OVER = "BARRIER(); {} show_copies(); BARRIER();"
"""Writes b anew between barriers, so that no threads race."""


@pytest.mark.parametrize("order", range(3))
@pytest.mark.parametrize(("fault", "told"), [
    ({"fill": COPIES, "fence": "", "between": "copy_wait(0u);"}, "before a copy is waited for"),
    ({"fill": COPIES, "fence": "copy_wait(0u);", "between": "show_copies();"}, "no fence showed"),
    ({"fill": COPIES, "fence": "show_copies(); copy_wait(0u);"}, "no fence showed"),
    ({"fill": BULK, "between": "wait_for_arrivals(there, 0u, 0u);"}, "before a copy is waited for"),
    ({"fence": "", "between": "show_copies(); BARRIER();"}, "no fence showed"),
    ({"fence": "", "begin": "show_copies(); wgmma_begin({n}u, c);"}, "no fence showed"),
    ({"between": OVER.format("wide[LANE] = U4(0u, 0u, 0u, 0u);")}, "writes what products under"),
    ({"between": OVER.format("copy_async(wide, LANE, x, 512u); copy_commit(); copy_wait(0u);")},
     "writes what products under way"),
    ({"between": OVER.format(BULK.format(n=32) + "BARRIER(); wait_for_arrivals(there, 0u, 0u);")},
     "copies to what products under way read")])
def test_columns_of_a_product_under_way_are_there_from_its_beginning_to_its_end(
        fault: dict[str, str], told: str, order: int, launch: Launch, rng: Rng) -> None:
    given, _, _ = operands("F16", 32, rng)
    with pytest.raises(KernelFault, match=told):
        launch(four_warps(32, "wgmma_f16", **fault), given, 17 * WARP, order, WARPGROUP)


@pytest.mark.parametrize("good", [
    {"fill": COPIES, "fence": "copy_wait(0u); show_copies();"},
    {"fill": BULK, "begin": "wait_for_arrivals(there, 0u, 0u); wgmma_begin({n}u, c);"},
    {"between": "wgmma_wait({n}u, c, 4u, a); BARRIER(); wide[LANE] = U4(0u, 0u, 0u, 0u);"}])
def test_columns_that_come_and_go_in_order_are_no_fault(good: dict[str, str], launch: Launch,
                                                        rng: Rng) -> None:
    given, _, _ = operands("F16", 32, rng)
    text = four_warps(32, "wgmma_f16", **good).replace("{n}", "32")
    for order in range(3):
        launch(text, given, 17 * WARP, order, WARPGROUP)


TWO_GROUPS = """u32 other[4];
  for (u32 i = 0u; i < 4u; i++) other[i] = a[i];
  wgmma_begin_more(4u, other);
  wgmma_f16(32u, c, other, wide, matrix_descriptor(wide, 0u, 128u, 256u));
  wgmma_commit();
  wgmma_wait_but(1u, 4u, a);
  for (u32 i = 0u; i < 4u; i++) a[i] = 0u;"""
"""A second group, and the end of the first one, whose words change then."""


def test_a_group_ends_while_another_is_under_way(launch: Launch, rng: Rng) -> None:
    given, a, b = operands("F16", 32, rng)
    y = launch(four_warps(32, "wgmma_f16", between=TWO_GROUPS), given, 17 * WARP,
               threads=WARPGROUP)
    exact, allowed = 2 * (a @ b) + 1, 2 * lost(a, b, 1.0)
    found = y.view(np.float32).reshape(WARP, 17)[:, :2]
    for lane in range(WARP):
        at = lane // 4, lane % 4 * 2 + np.arange(2)
        assert np.all(np.abs(found[lane] - exact[at]) <= 2 * allowed[at])


@pytest.mark.parametrize(("old", "new", "told"), [
    ("wait_but(1u", "wait_but(2u", "changes rows of products"),
    ("wgmma_begin_more(4u, other);", "", "multiplies before wgmma_begin"),
    ("a[i] = 0u", "other[i] = 0u", "changes rows of products"),
    ("for (u32 i = 0u; i < 4u; i++) a[i] = 0u", "c[1] = 0.0f", "changes sums of products"),
    ("for (u32 i = 0u; i < 4u; i++) a[i] = 0u", "wide[LANE] = U4(0u, 0u, 0u, 0u)",
     "race: reads what another thread wrote")])
def test_a_group_that_is_used_too_early_is_told(old: str, new: str, told: str, launch: Launch,
                                                rng: Rng) -> None:
    assert TWO_GROUPS.count(old) == 1
    given, _, _ = operands("F16", 32, rng)
    with pytest.raises(KernelFault, match=told):
        launch(four_warps(32, "wgmma_f16", between=TWO_GROUPS.replace(old, new)), given, 17 * WARP,
               threads=WARPGROUP)


def test_four_warps_that_do_not_meet_are_told(launch: Launch, rng: Rng) -> None:
    given, _, _ = operands("F16", 32, rng)
    text = four_warps(32, "wgmma_f16").replace("  wgmma_commit();",
                                               "  if (LANE < 96u) wgmma_commit();")
    with pytest.raises(KernelFault, match="deadlock"):
        launch(text, given, 17 * WARP, threads=WARPGROUP)


def test_four_warps_that_do_not_wait_together_are_told(launch: Launch, rng: Rng) -> None:
    given, _, _ = operands("F16", 32, rng)
    wait = "if (LANE % 32u < 16u) { wgmma_wait({n}u, c, 4u, a); } else"
    text = four_warps(32, "wgmma_f16", between=wait).replace("{n}", "32")
    with pytest.raises(KernelFault, match="deadlock"):
        launch(text, given, 17 * WARP, threads=WARPGROUP)


def test_numbers_of_16_bits_and_neighbours(launch: Launch, rng: Rng) -> None:
    x = rng.standard_normal(64).astype(np.float32)
    y = launch("""
  const float low = as_f32(x[LANE]), high = as_f32(x[LANE + 32u]);
  y[3u * LANE] = halves_of(low, high);
  y[3u * LANE + 1u] = brains_of(low, high);
  y[3u * LANE + 2u] = as_u32(shuffle_xor(low, 5u));""", x.view(np.uint32), 96).reshape(32, 3)
    for i, kind in enumerate(("F16", "BF16")):
        raw = quants.quantize(kind, x.reshape(-1, 1)).view(np.uint16).reshape(2, 32)
        assert np.array_equal(y[:, i], raw[0] | raw[1].astype(np.uint32) << 16), kind
    assert np.array_equal(y[:, 2].view(np.float32), x[np.arange(32) ^ 5])


def test_a_warp_that_does_not_meet_is_told(launch: Launch) -> None:
    with pytest.raises(KernelFault, match="deadlock"):
        launch("  if (LANE < 31u) y[LANE] = as_u32(shuffle_xor(1.0f, 1u));",
               np.zeros(1, np.uint32), 32)


MEETINGS = {
    "a shuffle": "own = as_u32(shuffle_xor(as_f32(own), 1u));",
    "a product": "mma_i8(sums, words, words);",
    "rows": "load_matrices(words, tile, LANE % 32u);",
    "a meeting in order": "sync_warp();",
    "an addition": "own = (u32)subgroup_add(1.0f);",
    "a maximum": "own = subgroup_max_u32(own);",
    "a barrier": "BARRIER();"}
"""What the threads of a warp do together."""


def in_calls(meeting: str, calls: str) -> str:
    """A kernel that ``calls`` a function with the meeting in it."""
    return f"""
  u32 own = LANE, words[4] = {{1u, 2u, 3u, 4u}};
  int sums[4] = {{0, 0, 0, 0}};
  tile[LANE % 32u] = U4(1u, 2u, 3u, 4u);
  BARRIER();
  const auto together = [&]() {{ {MEETINGS[meeting]} }};
  {calls}
  y[LANE] = own + words[0] + u32_of(sums[0]);"""


@pytest.mark.parametrize("meeting", MEETINGS)
def test_threads_that_meet_in_other_calls_are_told(meeting: str, launch: Launch) -> None:
    x = np.zeros(1, np.uint32)
    launch(in_calls(meeting, "together(); together();"), x, WARP)
    with pytest.raises(KernelFault, match=r"deadlock.* by another call"):
        launch(in_calls(meeting, "if (LANE % 2u > 0u) { together(); } else { together(); }"), x,
               WARP)


@pytest.mark.parametrize("meeting", ["a shuffle", "a product", "rows", "a meeting in order",
                                     "a maximum"])
def test_a_warp_of_fewer_threads_is_told(meeting: str, launch: Launch) -> None:
    with pytest.raises(KernelFault, match="not all threads are there"):
        launch(in_calls(meeting, "together();"), np.zeros(1, np.uint32), 48, threads=48)


def test_three_warps_that_multiply_as_four_are_told(launch: Launch, rng: Rng) -> None:
    given, _, _ = operands("F16", 32, rng)
    with pytest.raises(KernelFault, match="not all threads are there"):
        launch(four_warps(32, "wgmma_f16"), given, 17 * WARP, threads=96)
