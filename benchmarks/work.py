"""Computes how many bytes a model must read and how many products it must compute for a token."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from programs import Test

from unladen import quants
from unladen._native import cpu as native
from unladen.backends.cpu.features import isa_level
from unladen.gguf import HParams, open_gguf


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a model for a token, from the sizes in its file.

    * ``weight_bytes``: bytes of the matrices that every step reads.
    * ``expert_bytes``: bytes of all experts, of which a token uses ``expert_share``.
    * ``macs``, ``late_macs``: multiply-adds up to the last attention, and after it.
    * ``kv_bytes``: bytes of a token in a float16 cache.
    * ``screened_bytes``: bytes of the output head that this machine's kernels needn't read to find
      the likeliest token.
    """

    weight_bytes: int
    expert_bytes: int
    expert_share: float
    macs: float
    late_macs: float
    kv_bytes: int
    screened_bytes: int

    @classmethod
    def of(cls, path: Path) -> Work:
        """The work of the model at ``path``; raises :class:`unladen.GGUFError`."""
        with open_gguf(path) as file:
            hp = HParams(file.metadata)
            matrices = {n: t for n, t in file.tensors.items() if len(t.shape) > 1}
            head = matrices.get("output.weight") or matrices["token_embd.weight"]
            dense = {n: t for n, t in matrices.items()
                     if n.startswith("blk.") and "_exps." not in n}
            experts = {n: t for n, t in matrices.items() if "_exps." in n}
            share = (hp.int("expert_used_count") / hp.int("expert_count") if experts else 0.0)
            n_heads, n_embd = hp.int("attention.head_count"), hp.int("embedding_length")
            dim = hp.int("attention.key_length", n_embd // n_heads)
            n_layers = hp.int("block_count")
            kv = 2 * 2 * n_layers * hp.int("attention.head_count_kv", n_heads) * dim
            macs = {n: t.n_elements for n, t in dense.items()}
            macs |= {n: share * t.n_elements for n, t in experts.items()}
            last = f"blk.{n_layers - 1}."
            late = sum(n for name, n in macs.items()
                       if name.startswith((f"{last}attn_output", f"{last}ffn")))
            n_blocks = head.n_elements // quants.get(head.quant).block_size
            return cls(sum(t.nbytes for t in dense.values()) + head.nbytes,
                       sum(t.nbytes for t in experts.values()), share,
                       sum(macs.values()) - late, head.n_elements + late, kv,
                       round(n_blocks * native.spared_bytes(isa_level(), head.quant)))

    def bytes_per_step(self, test: Test) -> float:
        """Bytes that one decode step of ``test`` reads from memory. Every sequence is assumed to
        choose its experts by itself, evenly, so that some are chosen by several."""
        share = 1 - (1 - self.expert_share) ** test.n_seqs
        depth = test.n_depth + test.n_gen / 2
        return self.weight_bytes + share * self.expert_bytes + test.n_seqs * depth * self.kv_bytes

    def share_read(self, test: Test) -> float:
        """The share of these bytes that a step must read if it only finds the likeliest token. A
        scale of twelve bits counts with the sixteen that are read."""
        spared = self.screened_bytes if test.n_seqs <= native.MOST_SCREENED else 0
        return 1 - spared / self.bytes_per_step(test)

    def macs_per_token(self, test: Test) -> float:
        """Multiply-adds with weights for one token of ``test``. In a prompt only the last token is
        computed after the last attention."""
        return self.macs + (self.late_macs if test.n_gen else self.late_macs / test.n_prompt)
