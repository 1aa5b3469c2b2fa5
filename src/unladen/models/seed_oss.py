"""Seed-OSS (ByteDance 2025)."""

from unladen.models._parts.decoder import Decoder


class SeedOss(Decoder):
    """The norm before the feed-forward network has another name; NeoX rotary embedding."""

    arch = "seed_oss"
    rope_style = "neox"
    ffn_norm = "post_attention_norm"
