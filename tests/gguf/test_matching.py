"""A warning names expressions that match no tensor, and suggests names."""

from __future__ import annotations

import logging

import pytest

from unladen.gguf import warn_unmatched
from unladen.gguf.matching import close_names

NAMES = ["token_embd.weight", "blk.0.attn_v.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight",
         "output.weight"]


@pytest.mark.parametrize(("pattern", "near"), [
    ("ATTN_V", "attn_v"), ("ffn_upp", "ffn_up"), (r"blk\.0\.ffn_dwon", "ffn_down"),
    ("tok_embd", "token_embd"), ("^outputs", "output"), ("zzz", None), ("[0-9]{3}", None)])
def test_close_names(pattern: str, near: str | None) -> None:
    assert close_names(pattern, NAMES)[:1] == ([] if near is None else [near])


def test_a_line_for_each(caplog: pytest.LogCaptureFixture) -> None:
    patterns = ["ffn_(up|down)", r"blk\.7\.", "ATTN_V", "(", ""]
    with caplog.at_level(logging.WARNING, "unladen"):
        warn_unmatched("override_tensor", patterns, NAMES)
    first, second = (r.getMessage() for r in caplog.records)
    assert first.startswith("override_tensor: 'blk")
    assert "'ATTN_V' is found in no tensor of this model (did you mean attn_v?)" in second
