"""DBRX (Databricks 2024)."""

from __future__ import annotations

from unladen.models._parts.decoder import Decoder


class Dbrx(Decoder):
    """Layer norms; queries, keys and values are clamped."""

    arch = "dbrx"
    rope_style = "neox"
    norm_op = "layer_norm"
    ffn_norm = "attn_output_norm"
