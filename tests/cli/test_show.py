"""``unladen show`` shows everything in a file, without characters that control a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Run
from factory import Shape, write_model
from unladen import Model
from unladen.cli._text import visible

HARMFUL = "\x1b[31m\x07\x9b2J\x7f\u202e\u2028\r"
TEMPLATE = "{% for m in messages %}\n{{ m }}\x1b[2J{% endfor %}"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that runs and whose texts are all full of control characters."""
    path = tmp_path_factory.mktemp("show") / "hostile.gguf"
    tokens = ["<unk>", "<s>" + HARMFUL, "</s>", *(f"<0x{b:02X}>" for b in range(256)), HARMFUL]
    keys = {"general.name": HARMFUL, HARMFUL: HARMFUL, "x.list": [HARMFUL] * 3, "x.nan": np.nan,
            "x.long": list(range(5000)), "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": np.array([2, 3, 3] + [6] * 256 + [1], np.int32),
            "tokenizer.ggml.scores": np.zeros(len(tokens), np.float32),
            "tokenizer.chat_template": TEMPLATE, "tokenizer.chat_template." + HARMFUL: "x",
            "tokenizer.ggml.pre": HARMFUL}
    return str(write_model(path, np.random.default_rng(0), Shape(n_vocab=len(tokens), n_ctx=5000),
                           keys=keys, extra={HARMFUL: np.zeros(3, np.float32)}))


def unharmed(text: str) -> bool:
    return all(c == "\n" or not visible(c).startswith("\\") or c == "\\" for c in text)


def test_what_is_harmful() -> None:
    shown = visible(HARMFUL)
    assert shown == "\\x1b[31m\\x07\\x9b2J\\x7f\\u202e\\u2028\\r" and unharmed(shown)
    assert visible("a\tb\n\u00e9 \u4e2d\U0001F600", keep="\n\t") == "a\tb\n\u00e9 \u4e2d\U0001F600"
    assert visible("\udc80") == "\\udc80"


@pytest.mark.parametrize("options", [[], ["--tensors"]])
def test_text(unladen: Run, hostile: str, options: list[str]) -> None:
    ran = unladen("show", hostile, *options)
    assert ran.code == 0 and unharmed(ran.out) and "Traceback" not in ran.err
    for part in ("tensors by type", "tokenizer", "memory by context", "metadata", "it can run",
                 "5,000 values: 0, 1, 2", "bos      1 <s>", "ends     2 </s>", "  2,048",
                 f"{len(TEMPLATE)} characters"):
        assert part in ran.out, part
    assert ("blk.0.attn_q.weight" in ran.out) == bool(options)


def test_json(unladen: Run, hostile: str) -> None:
    ran = unladen("show", hostile, "--json")
    facts = json.loads(ran.out, parse_constant=lambda name: pytest.fail(name))
    assert unharmed(ran.out) and facts["metadata"]["general.name"] == HARMFUL
    assert facts["metadata"]["x.long"] == {"n": 5000, "first": [0, 1, 2, 3, 4, 5]}
    assert facts["metadata"]["x.nan"] == "nan"
    assert facts["chat_templates"][""] == TEMPLATE
    assert [m["n_tokens"] for m in facts["kv_bytes"]] == [2048, 4096, 5000]
    with Model(hostile) as model:
        assert facts["tokenizer"]["eog_ids"] == sorted(model.tokenizer.eog_ids)
        assert facts["tokenizer"]["token_ids"] == dict(model.tokenizer.token_ids)
    assert facts["can_run"] and facts["problems"] == []


def test_template(unladen: Run, hostile: str, model: str) -> None:
    assert unladen("show", hostile, "--template").out == TEMPLATE + "\nx\n"
    ran = unladen("show", model, "--template")
    assert (ran.code, ran.out) == (1, "") and "no chat template" in ran.err


@pytest.mark.parametrize("command", [["show"], ["show", "--template"]])
def test_on_a_terminal(hostile: str, command: list[str]) -> None:
    """On a terminal of 80 columns no line is wider, and colours are off."""
    controller, terminal = pty.openpty()
    environment = os.environ | {"COLUMNS": "80"}
    process = subprocess.Popen([sys.executable, "-m", "unladen", *command, hostile],
                               stdout=terminal, stderr=subprocess.PIPE, env=environment)
    os.close(terminal)
    out = b""
    while True:
        try:
            piece = os.read(controller, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        out += piece
    assert process.wait() == 0, process.communicate()
    text = out.decode().replace("\r\n", "\n")
    assert unharmed(text)
    lines = [line for line in text.splitlines() if hostile not in line]
    assert max(map(len, lines)) <= 80
    process.communicate()


def test_what_cannot_run(unladen: Run, tmp_path: Path, rng: np.random.Generator) -> None:
    path = write_model(tmp_path / "m.gguf", rng, Shape("abacus"),
                       keys={"tokenizer.ggml.model": "runes\x1b"})
    ran = unladen("show", path)
    assert ran.code == 0 and unharmed(ran.out)
    out = re.sub(r"\s+", " ", ran.out)
    assert "it can't run: " in out and "'abacus' isn't implemented" in out
    assert "none that can be used" in out and "unknown, because it can't run" in out


def test_errors_quote_nothing_harmful(unladen: Run, tmp_path: Path, rng: np.random.Generator
                                      ) -> None:
    path = write_model(tmp_path / "m.gguf", rng, Shape())
    raw, name = path.read_bytes(), b"blk.1.ffn_up.weight"
    other = b"blk.1\x1b]0;gotcha\x07".ljust(len(name), b"a")
    for damaged, word in ((raw.replace(name, other), "ffn_up.weight is missing"),
                          (raw.replace(name + b"\2", other + b"\7"), "7 dimensions")):
        path.write_bytes(damaged)
        ran = unladen("run", path, "a")
        assert ran.code == 1 and word in ran.err and unharmed(ran.err)
