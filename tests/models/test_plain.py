"""Architectures equal a direct implementation: whole matrices, no cache, no graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from unladen import quants
from unladen.api import Model
from unladen.gguf import open_gguf

Array = npt.NDArray[np.float64]


class Plain:
    """A model's weights by name, and its formulas."""

    def __init__(self, path: Path) -> None:
        file = open_gguf(path)
        self.keys = dict(file.metadata)
        self.arch = str(self.keys["general.architecture"])
        self.w = {name: quants.dequantize(t.quant, t.data, t.shape).astype(np.float64)
                  for name, t in file.tensors.items()}

    def key(self, name: str, default: Any = None) -> Any:
        return self.keys.get(f"{self.arch}.{name}", default)

    def affine(self, x: Array, name: str) -> Array:
        return x @ self.w[name + ".weight"].T + self.w.get(name + ".bias", 0.0)

    def rms(self, x: Array, name: str) -> Array:
        if name + ".weight" not in self.w:
            return x
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * self.w[name + ".weight"]

    def norm(self, x: Array, name: str) -> Array:
        if self.arch != "gpt2":
            return self.rms(x, name)
        y = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return y * self.w[name + ".weight"] + self.w[name + ".bias"]

    def rotate(self, x: Array) -> Array:
        """x [heads, T, head_dim] with each pair, as a complex number, times e^(i position freq)."""
        if self.arch == "gpt2":
            return x
        n_rot = self.key("rope.dimension_count", x.shape[-1])
        freqs = 10000.0 ** (-np.arange(0, n_rot, 2) / n_rot)
        turn = np.exp(1j * np.outer(np.arange(x.shape[1]), freqs))
        y = x.copy()
        half = n_rot // 2
        first, second = ((slice(0, n_rot, 2), slice(1, n_rot, 2)) if self.arch == "llama"
                         else (slice(0, half), slice(half, n_rot)))
        turned = (x[..., first] + 1j * x[..., second]) * turn
        y[..., first], y[..., second] = turned.real, turned.imag
        return y

    def attention(self, x: Array, blk: str) -> Array:
        n_heads = self.key("attention.head_count")
        n_kv = self.key("attention.head_count_kv", n_heads)

        def heads(y: Array, n: int) -> Array:
            return y.reshape(len(x), n, -1).swapaxes(0, 1)

        if self.arch == "gpt2":
            q, k, v = np.split(self.affine(x, blk + "attn_qkv"), 3, axis=-1)
        else:
            q, k, v = (self.affine(x, f"{blk}attn_{name}") for name in "qkv")
        q = self.rotate(self.rms(heads(q, n_heads), blk + "attn_q_norm"))
        k = self.rotate(self.rms(heads(k, n_kv), blk + "attn_k_norm"))
        v = heads(v, n_kv)
        outs = []
        for h in range(n_heads):
            scores = q[h] @ k[h * n_kv // n_heads].T / np.sqrt(q.shape[-1])
            p = np.exp(scores) * np.tri(len(x))
            outs.append(p / p.sum(-1, keepdims=True) @ v[h * n_kv // n_heads])
        return self.affine(np.concatenate(outs, axis=-1), blk + "attn_output")

    def feed_forward(self, x: Array, blk: str) -> Array:
        if self.arch == "gpt2":
            u = self.affine(x, blk + "ffn_up")
            gelu = u / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (u + 0.044715 * u ** 3)))
            return self.affine(gelu, blk + "ffn_down")
        if blk + "ffn_gate_inp.weight" not in self.w:
            gate = self.affine(x, blk + "ffn_gate")
            hidden = gate / (1 + np.exp(-gate)) * self.affine(x, blk + "ffn_up")
            return self.affine(hidden, blk + "ffn_down")
        return np.array([self.mixture(row, blk) for row in x])

    def mixture(self, x: Array, blk: str) -> Array:
        logits = self.affine(x, blk + "ffn_gate_inp")
        best = sorted(range(len(logits)), key=lambda e: -logits[e])[:self.key("expert_used_count")]
        shares = np.exp(logits[best]) / np.exp(logits[best]).sum()
        total = np.zeros_like(x)
        for share, e in zip(shares, best, strict=True):
            gate, up, down = (self.w[f"{blk}ffn_{part}_exps.weight"][e]
                              for part in ("gate", "up", "down"))
            g = gate @ x
            total += share * (down @ (g / (1 + np.exp(-g)) * (up @ x)))
        return total

    def logits(self, tokens: list[int]) -> Array:
        x = self.w["token_embd.weight"][tokens]
        if self.arch == "gpt2":
            x = x + self.w["position_embd.weight"][:len(tokens)]
        for i in range(self.key("block_count")):
            x = x + self.attention(self.norm(x, f"blk.{i}.attn_norm"), f"blk.{i}.")
            x = x + self.feed_forward(self.norm(x, f"blk.{i}.ffn_norm"), f"blk.{i}.")
        head = "output" if "output.weight" in self.w else "token_embd"
        return self.affine(self.norm(x, "output_norm"), head)


@pytest.mark.parametrize("arguments", [
    {"arch": "llama"}, {"arch": "llama", "tied": True, "biases": True, "n_rot": 4},
    {"arch": "llama", "n_experts": 4, "n_used": 2}, {"arch": "llama", "k_dim": 12, "v_dim": 20},
    {"arch": "qwen2", "n_rot": 6}, {"arch": "qwen3", "k_dim": 16},
    {"arch": "qwen3moe", "n_experts": 6, "n_used": 3}, {"arch": "gpt2", "n_kv_heads": 4},
    {"arch": "gpt2", "tied": True, "n_heads": 2}], ids=str)
def test_logits(arguments: dict[str, Any], make_model: Callable[..., Path],
                rng: np.random.Generator) -> None:
    path = make_model(**arguments)
    tokens = [int(t) for t in rng.integers(0, 272, 23)]
    expected = Plain(path).logits(tokens)
    with Model(path, devices=["reference"], kv_type="f32") as model:
        y = model.logits(tokens)
    # Values are float32 between the nodes: a few hundred roundings in all.
    assert np.mean((y - expected) ** 2) < 1e-10 * np.mean(expected ** 2)
