"""Seed-OSS (ByteDance 2025)."""

from unladen.models._parts.decoder import Decoder


class SeedOss(Decoder):
    """The norm before the feed-forward goes by another name; rotation of half-way pairs."""

    arch = "seed_oss"
    rope_style = "neox"
    ffn_norm = "post_attention_norm"
