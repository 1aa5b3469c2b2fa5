"""The tiny model: Llama's architecture in PyTorch, which only this tool needs.

Modules have the names of GGUF's tensors. Rotation uses neighbouring pairs (2i, 2i+1) as in GGUF's
architecture "llama", so nothing is permuted on export.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    """Sizes of the model, as GGUF's metadata names them."""

    n_vocab: int = 2048
    n_embd: int = 192
    n_layer: int = 4
    n_head: int = 6
    n_ff: int = 384
    n_ctx: int = 512
    rope_freq_base: float = 10000.0
    rms_eps: float = 1e-5

    @property
    def head_dim(self) -> int:
        """Numbers per attention head."""
        return self.n_embd // self.n_head


class Norm(nn.Module):
    """RMS norm with a weight."""

    def __init__(self, n: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., n] to [..., n]."""
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def rotations(shape: Shape) -> tuple[Tensor, Tensor]:
    """Cosine and sine [n_ctx, head_dim / 2] of every position and pair."""
    exponents = torch.arange(0, shape.head_dim, 2) / shape.head_dim
    angles = torch.outer(torch.arange(shape.n_ctx), shape.rope_freq_base ** -exponents)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the neighbouring pairs of x [batch, heads, positions, head_dim]."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


class Block(nn.Module):
    """One layer: attention, then the gated feed-forward part."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        n = shape.n_embd
        self.head_dim = shape.head_dim
        self.attn_norm = Norm(n, shape.rms_eps)
        self.attn_q = nn.Linear(n, n, bias=False)
        self.attn_k = nn.Linear(n, n, bias=False)
        self.attn_v = nn.Linear(n, n, bias=False)
        self.attn_output = nn.Linear(n, n, bias=False)
        self.ffn_norm = Norm(n, shape.rms_eps)
        self.ffn_gate = nn.Linear(n, shape.n_ff, bias=False)
        self.ffn_up = nn.Linear(n, shape.n_ff, bias=False)
        self.ffn_down = nn.Linear(shape.n_ff, n, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, seen: Tensor | None = None) -> Tensor:
        """[batch, positions, n_embd] to the same; ``seen`` as for the whole model."""
        h = self.attn_norm(x)
        q, k, v = (linear(h).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
                   for linear in (self.attn_q, self.attn_k, self.attn_v))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=seen is None)
        x = x + self.attn_output(mixed.transpose(1, 2).flatten(2))
        h = self.ffn_norm(x)
        gated: Tensor = self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))
        return x + gated


class TinyLlama(nn.Module):
    """Token ids [batch, positions] to logits [batch, positions, n_vocab]; tied embeddings."""

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.n_vocab, shape.n_embd)
        self.blk = nn.ModuleList(Block(shape) for _ in range(shape.n_layer))
        self.output_norm = Norm(shape.n_embd, shape.rms_eps)
        cos, sin = rotations(shape)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                last = name.endswith(("attn_output.weight", "ffn_down.weight"))
                std = 0.06 if weight is self.token_embd.weight else 0.04
                nn.init.normal_(weight, std=std / (2 * shape.n_layer) ** 0.5 if last else std)

    def forward(self, ids: Tensor, seen: Tensor | None = None) -> Tensor:
        """Ids int64 [batch, positions] to logits.

        ``seen`` bool [batch, 1, positions, positions] says which positions each one sees; without
        it each sees all before it.
        """
        x = self.token_embd(ids)
        cos, sin = self.cos[:ids.shape[1]], self.sin[:ids.shape[1]]
        for block in self.blk:
            x = block(x, cos, sin, seen)
        return F.linear(self.output_norm(x), self.token_embd.weight)

    @torch.no_grad()
    def generate(self, ids: list[int], n: int, eos: int, temperature: float) -> list[int]:
        """Continue ``ids`` by up to ``n`` tokens, until ``eos``; temperature 0 is greedy."""
        ids = list(ids)
        for _ in range(min(n, self.shape.n_ctx - len(ids))):
            logits = self(torch.tensor([ids]))[0, -1]
            if temperature == 0:
                token = int(logits.argmax())
            else:
                token = int(torch.multinomial(F.softmax(logits / temperature, -1), 1))
            ids.append(token)
            if token == eos:
                break
        return ids
