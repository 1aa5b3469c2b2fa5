"""Every op against its reference, within the bound that the op itself derives."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backends.wgpu.single import Cache, Case, random_blocks, tokens_batch

from unladen.backends.base import KVLayout
from unladen.graph.graph import KVSpec
from unladen.graph.ops.activation import ACTIVATIONS
from unladen.types import Limits

LIMITS = Limits(n_tokens=80, n_outputs=20, n_seqs=8, n_blocks_per_seq=12, n_blocks=48)
DEVICE = "wgpu:0"
Rng = np.random.Generator
STEPS = {"decode": [(5, 1)], "several decodes": [(5, 1), (40, 1), (0, 1)],
         "prefill": [(0, 70)], "mixed": [(33, 1), (0, 9), (7, 40), (100, 1)]}
steps = pytest.mark.parametrize("lengths", STEPS.values(), ids=STEPS)


def f32(rng: Rng, *shape: int) -> tuple[str, tuple[int, ...], np.ndarray]:
    return "F32", shape, rng.normal(size=shape).astype(np.float32).view(np.uint8).reshape(-1)


def rows(rng: Rng, n: int, cols: int, size: float = 1.0) -> np.ndarray:
    return (rng.normal(size=(n, cols)) * size).astype(np.float32)


@steps
@pytest.mark.parametrize(("cols", "size"), [(64, 64), (300, 300), (96, 12), (2048, 2048)])
def test_rms_norm(rng: Rng, lengths: list[tuple[int, int]], cols: int, size: int) -> None:
    batch = tokens_batch(rng, LIMITS, lengths)
    Case("rms_norm", [rows(rng, batch.n_tokens, cols, 3)], batch, LIMITS, {"w": f32(rng, size)},
         {"eps": 1e-6}).check(DEVICE)


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("cols", [48, 2050])
def test_layer_norm(rng: Rng, cols: int, has_bias: bool) -> None:
    batch = tokens_batch(rng, LIMITS, [(0, 9)])
    weights = {"w": f32(rng, cols), "b": f32(rng, cols)} if has_bias else {"w": f32(rng, cols)}
    Case("layer_norm", [rows(rng, 9, cols) + 2], batch, LIMITS, weights,
         {"eps": 1e-5}).check(DEVICE)


@pytest.mark.parametrize("act", ACTIVATIONS)
def test_activations(rng: Rng, act: str) -> None:
    batch = tokens_batch(rng, LIMITS, [(0, 40)])
    x = rows(rng, 40, 333, 4)
    x[0, :9] = 0, -0.0, 1e-30, -1e-30, 50, -50, 200, -200, 88.5
    Case("activation", [x], batch, LIMITS, attrs={"act": act}).check(DEVICE)
    Case("glu", [x, rows(rng, 40, 333)], batch, LIMITS, attrs={"act": act}).check(DEVICE)


def test_elementwise(rng: Rng) -> None:
    batch = tokens_batch(rng, LIMITS, [(0, 33)])
    a, b = rows(rng, 33, 100), rows(rng, 33, 100)
    Case("add", [a, b], batch, LIMITS).check(DEVICE)
    Case("scale", [a], batch, LIMITS, attrs={"s": 0.3}).check(DEVICE)
    Case("select_rows", [a, "out_rows"], batch, LIMITS).check(DEVICE)


def test_far_angles(rng: Rng) -> None:
    limits = Limits(16, 1, 1, 1, 1)
    batch = tokens_batch(rng, LIMITS, [(0, 16)])
    batch.positions[:16] = np.concatenate([np.arange(4), rng.integers(0, 1 << 20, 12)])
    freqs = tuple((10000.0 ** -(np.arange(32) / 32)).tolist())
    Case("rope_table", ["positions"], batch, limits,
         attrs={"freqs": freqs, "magnitude": 1.17}).check(DEVICE)


@pytest.mark.parametrize("style", ["norm", "neox"])
@pytest.mark.parametrize(("n_heads", "head_dim", "n_rot"), [(3, 20, 20), (4, 64, 32), (1, 6, 2)])
def test_rope(rng: Rng, style: str, n_heads: int, head_dim: int, n_rot: int) -> None:
    batch = tokens_batch(rng, LIMITS, [(0, 11)])
    Case("rope", [rows(rng, 11, n_heads * head_dim), rows(rng, 11, n_rot)], batch, LIMITS,
         attrs={"head_dim": head_dim, "style": style}).check(DEVICE)


@steps
@pytest.mark.parametrize("quant", ["F32", "F16", "BF16", "Q4_0", "Q8_0", "Q4_K", "Q6_K", "IQ2_XS"])
def test_linear(rng: Rng, lengths: list[tuple[int, int]], quant: str) -> None:
    batch = tokens_batch(rng, LIMITS, lengths)
    n = int(rng.choice([256, 768, 2304]))
    shapes = {"w0": (130, n), "w1": (33, n)}
    weights = {role: (quant, s, random_blocks(rng, quant, s)) for role, s in shapes.items()}
    weights["b1"] = f32(rng, 33)
    Case("linear", [rows(rng, batch.n_tokens, n)], batch, LIMITS, weights).check(DEVICE)


@steps
@pytest.mark.parametrize("n", [37, 100, 172])
@pytest.mark.parametrize("quant", ["F32", "F16", "BF16"])
def test_ragged_rows(rng: Rng, lengths: list[tuple[int, int]], quant: str, n: int) -> None:
    batch = tokens_batch(rng, LIMITS, lengths)
    weights = {"w0": (quant, (70, n), random_blocks(rng, quant, (70, n)))}
    Case("linear", [rows(rng, batch.n_tokens, n)], batch, LIMITS, weights).check(DEVICE)
    limits = Limits(80, 20, 8, 12, 48)
    batch.tokens[:batch.n_tokens] = rng.integers(0, 70, batch.n_tokens)
    Case("embed", ["tokens"], batch, limits, {"w": weights["w0"]}).check(DEVICE)


@steps
@pytest.mark.parametrize(("gate", "up"), [("Q4_K", "Q4_K"), ("Q4_K", "Q6_K"), ("F32", "F32")])
@pytest.mark.parametrize("act", ["silu", "gelu"])
def test_gated(rng: Rng, lengths: list[tuple[int, int]], gate: str, up: str, act: str) -> None:
    batch = tokens_batch(rng, LIMITS, lengths)
    shape = (77, 512)
    weights = {"w0": (gate, shape, random_blocks(rng, gate, shape)),
               "w1": (up, shape, random_blocks(rng, up, shape)),
               "b0": f32(rng, 77), "b1": f32(rng, 77)}
    x = rows(rng, batch.n_tokens, 512, 0.1)
    Case("linear", [x], batch, LIMITS, weights, {"act": act}).check(DEVICE)
    Case("linear", [x, rows(rng, batch.n_tokens, 77)], batch, LIMITS, weights,
         {"act": act, "residual": True}).check(DEVICE)


@steps
def test_residual(rng: Rng, lengths: list[tuple[int, int]]) -> None:
    batch = tokens_batch(rng, LIMITS, lengths)
    weights = {"w0": ("Q5_K", (96, 256), random_blocks(rng, "Q5_K", (96, 256))),
               "b0": f32(rng, 96)}
    Case("linear", [rows(rng, batch.n_tokens, 256), rows(rng, batch.n_tokens, 96)], batch, LIMITS,
         weights, {"residual": True}).check(DEVICE)


def _cache(rng: Rng, heads: int, k_dim: int, v_dim: int, types: tuple[str, str]) -> Cache:
    return Cache.random(rng, KVSpec(0, heads, k_dim, v_dim),
                        KVLayout(32, LIMITS.n_blocks, *types))


TYPES = [("F32", "F32"), ("F16", "F16"), ("Q8_0", "Q8_0"), ("F16", "Q8_0"), ("Q8_0", "F32")]


@steps
@pytest.mark.parametrize("types", TYPES)
def test_kv_write(rng: Rng, lengths: list[tuple[int, int]], types: tuple[str, str]) -> None:
    batch = tokens_batch(rng, LIMITS, lengths)
    cache = _cache(rng, 3, 64, 32, types)
    k, v = rows(rng, batch.n_tokens, 192, 2), rows(rng, batch.n_tokens, 96)
    k[0, :8] = 0, -0.0, 65519, 65520, 1e-8, 3e-8, 2.0 ** -24 * 1.5, 1e-6
    v[0] = 0
    Case("kv_write", [k, v], batch, LIMITS, cache=cache).check(DEVICE)


@steps
@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize(("n_heads", "n_kv_heads", "k_dim", "v_dim"),
                         [(4, 4, 32, 32), (8, 2, 64, 64), (6, 1, 128, 96), (20, 1, 32, 160)])
def test_attention(rng: Rng, lengths: list[tuple[int, int]], types: tuple[str, str], n_heads: int,
                   n_kv_heads: int, k_dim: int, v_dim: int) -> None:
    batch = tokens_batch(rng, LIMITS, lengths)
    Case("attention", [rows(rng, batch.n_tokens, n_heads * k_dim)], batch, LIMITS,
         attrs={"n_heads": n_heads, "scale": k_dim ** -0.5},
         cache=_cache(rng, n_kv_heads, k_dim, v_dim, types)).check(DEVICE)


def test_attention_over_shared_keys(rng: Rng) -> None:
    limits = Limits(2, 2, 2, 40, 60)
    batch = tokens_batch(rng, limits, [(1000, 1), (70, 1)])
    cache = Cache.random(rng, KVSpec(0, 2, 64, 64), KVLayout(32, 60, "F16", "F16"))
    Case("attention", [rows(rng, 2, 256)], batch, limits,
         attrs={"n_heads": 4, "scale": 0.125}, cache=cache).check(DEVICE)


@steps
@pytest.mark.parametrize("quant", ["F32", "Q8_0", "Q4_K"])
@pytest.mark.parametrize("gating", ["softmax", "sigmoid"])
def test_moe(rng: Rng, lengths: list[tuple[int, int]], quant: str, gating: str) -> None:
    batch = tokens_batch(rng, LIMITS, lengths)
    n_experts, n, n_ff, n_used = 70, 256, 256, 3
    shapes = {"gate": (n_experts, n_ff, n), "up": (n_experts, n_ff, n),
              "down": (n_experts, n, n_ff)}
    weights = {role: (quant, s, random_blocks(rng, quant, s)) for role, s in shapes.items()}
    weights |= {"router": f32(rng, n_experts, n), "router_b": f32(rng, n_experts)}
    x = rows(rng, batch.n_tokens, n, 0.3)
    Case("moe", [x], batch, LIMITS, weights,
         {"n_used": n_used, "gating": gating, "normalize": bool(rng.integers(2)), "scale": 1.5,
          "act": "silu"}).check(DEVICE)
