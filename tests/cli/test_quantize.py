"""``unladen quantize``."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Run
from unladen.cli._progress import Bar
from unladen.gguf import open_gguf


def test_writes_a_file(unladen: Run, model: str, tmp_path: Path) -> None:
    target = tmp_path / "q.gguf"
    ran = unladen("quantize", model, target, "Q8_0", "-t", 2, "--tensor-type", "attn_q=Q4_0",
                  "--tensor-type", "attn_k=F16", "--output-tensor-type", "Q5_1",
                  "--token-embedding-type", "bf16")
    assert ran.code == 0 and "bits per weight" in ran.out and str(target) in ran.out
    with open_gguf(target) as file:
        types = {name: t.quant for name, t in file.tensors.items()}
    assert types["blk.0.attn_q.weight"] == "Q4_0" and types["blk.0.attn_k.weight"] == "F16"
    assert types["blk.0.attn_v.weight"] == "Q8_0" and types["token_embd.weight"] == "BF16"
    assert types["output.weight"] == "Q5_1"
    again = unladen("quantize", model, target)
    assert again.code == 1 and "exists already" in again.err and "--force" in again.err
    assert unladen("quantize", model, target, "--force").code == 0


def test_progress(unladen: Run, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                  ) -> None:
    """The progress has the bytes written, all bytes, their rate and the tensor."""
    shown: list[tuple[float, float, str]] = []
    monkeypatch.setattr(Bar, "__call__", lambda bar, *now: shown.append(now))
    assert unladen("quantize", model, tmp_path / "q.gguf", "Q4_0").code == 0
    done, totals, texts = zip(*shown, strict=True)
    assert list(done) == sorted(done) and done[-1] == totals[-1] and len(set(totals)) == 1
    assert all("MiB/s" in text for text in texts) and any("blk.0" in text for text in texts)


def test_dry_run(unladen: Run, model: str, tmp_path: Path) -> None:
    target = tmp_path / "q.gguf"
    ran = unladen("quantize", model, target, "Q4_K_M", "--dry-run")
    assert ran.code == 0 and not target.exists()
    assert "blk.0.ffn_down.weight" in ran.out and "F32 -> " in ran.out and "MiB ->" in ran.out
    # The model's rows are narrow, so notes name the formats that replace others.
    assert "blk.0.attn_q.weight: Q5_0 in place of Q4_K" in ran.err


def test_pure(unladen: Run, model: str, tmp_path: Path) -> None:
    ran = unladen("quantize", model, tmp_path / "q.gguf", "Q4_0", "--pure", "--dry-run")
    assert "Q6_K" not in ran.out and "Q8_0" not in ran.out


def test_quantized_source(unladen: Run, tmp_path: Path) -> None:
    ran = unladen("quantize", "tiny", tmp_path / "q.gguf", "Q4_0")
    assert ran.code == 1 and "quantized already" in ran.err and "--allow-requantize" in ran.err
    assert unladen("quantize", "tiny", tmp_path / "q.gguf", "Q4_0", "--allow-requantize").code == 0


def test_wrong_options(unladen: Run, model: str, tmp_path: Path) -> None:
    for options in (["--tensor-type", "Q4_K"], ["--tensor-type", "a=Q9"], ["--imatrix", "absent"]):
        ran = unladen("quantize", model, tmp_path / "q.gguf", "Q4_K_M", *options)
        assert ran.code == 1 and "error:" in ran.err and "hint:" in ran.err
