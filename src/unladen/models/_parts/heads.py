"""Reads how many heads each layer has, and their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unladen.errors import GGUFError
from unladen.gguf import HParams


@dataclass(frozen=True, slots=True)
class Heads:
    """Geometry of attention: query heads, key/value heads, their sizes, rotated dimensions."""

    n_heads: int
    n_kv_heads: int
    k_dim: int
    v_dim: int
    n_rot: int

    @classmethod
    def read(cls, hp: HParams, n_embd: int, sliding: Sequence[bool], fewest: int = 1
             ) -> list[Heads]:
        """The heads of every layer, from the ``attention.*`` and ``rope.*`` keys.

        Layers that are ``sliding`` may have heads of other sizes. ``fewest`` 0: layers may have no
        heads. Raises :class:`GGUFError`.
        """
        n_layers = len(sliding)
        counts = hp.per_layer("attention.head_count", n_layers, minimum=fewest)
        default = n_embd // max(counts) if max(counts) else 1
        kv_counts = (hp.per_layer("attention.head_count_kv", n_layers, minimum=fewest)
                     if "attention.head_count_kv" in hp else counts)
        k_dim = hp.int("attention.key_length", default, minimum=1)
        v_dim = hp.int("attention.value_length", k_dim, minimum=1)
        n_rot = hp.int("rope.dimension_count", k_dim)
        sizes = {False: (k_dim, v_dim, n_rot), True: (k_dim, v_dim, n_rot)}
        if any(sliding):
            sizes[True] = (hp.int("attention.key_length_swa", k_dim, minimum=1),
                           hp.int("attention.value_length_swa", v_dim, minimum=1),
                           hp.int("rope.dimension_count_swa", n_rot))
        return [cls(n, n_kv, *sizes[slides])._checked(hp)
                for n, n_kv, slides in zip(counts, kv_counts, sliding, strict=True)]

    def _checked(self, hp: HParams) -> Heads:
        uneven = self.n_kv_heads > 0 and self.n_heads % self.n_kv_heads
        if uneven or self.k_dim < 1 or self.n_rot > self.k_dim or self.n_rot % 2:
            raise GGUFError(f"attention can't have {self}", path=hp.path,
                            hint="the metadata is damaged: convert or fetch the file again")
        return self


def sliding_layers(hp: HParams, n_layers: int, period: int, *, dense_first: bool = False
                   ) -> list[bool]:
    """For each layer, whether it sees only a window: as ``attention.sliding_window_pattern`` says,
    by layer or as a period; without that key all layers but every ``period``-th.

    The last layer of each period sees everything, or with ``dense_first`` the first one. A period
    of 0 means windows in all layers. Raises :class:`GGUFError`.
    """
    key = "attention.sliding_window_pattern"
    if hp.is_array(key):
        return hp.per_layer_bool(key, n_layers)
    period = hp.int(key, period)
    if period == 0:
        return [True] * n_layers
    whole = 0 if dense_first else period - 1
    return [i % period != whole for i in range(n_layers)]
