"""``unladen tokenize``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Run
from unladen import Model


def test_ids_are_those_of_the_model(unladen: Run, model: str) -> None:
    with Model(model) as loaded:
        ids = loaded.tokenizer.encode("ab c")
        plain = loaded.tokenizer.encode("ab c", add_bos=False)
        bos = loaded.tokenizer.bos_id
        name = loaded.tokenizer.token_text(bos) if bos is not None else "</s>"
        unnamed = loaded.tokenizer.encode(name, add_bos=False, special=False)
    ran = unladen("tokenize", model, "ab c")
    assert (ran.code, ran.err) == (0, "") and [int(i) for i in ran.out.split()] == ids
    assert json.loads(unladen("tokenize", model, "--json", stdin="ab c").out) == ids
    assert json.loads(unladen("tokenize", model, "ab c", "--json", "--no-bos").out) == plain
    ran = unladen("tokenize", model, name, "--json", "--no-bos", "--no-special")
    assert json.loads(ran.out) == unnamed


def test_pieces_make_up_the_text(unladen: Run, model: str) -> None:
    ran = unladen("tokenize", model, "ab c", "--json", "--pieces", "--no-bos")
    assert "".join(token["piece"] for token in json.loads(ran.out)).strip() == "ab c"
    lines = unladen("tokenize", model, "ab c", "--pieces", "--no-bos").out.splitlines()
    assert [int(line.split()[0]) for line in lines] == [t["id"] for t in json.loads(ran.out)]


def test_empty_text(unladen: Run, model: str) -> None:
    assert unladen("tokenize", model, "", "--no-bos").out == "\n"


def test_a_tokenizer_json_instead(unladen: Run, tmp_path: Path) -> None:
    hf = pytest.importorskip("tokenizers", reason="the extra hf-tokenizer isn't installed")
    made = hf.Tokenizer(hf.models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    made.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = hf.decoders.ByteLevel()
    made.save(str(tmp_path / "tokenizer.json"))
    ran = unladen("tokenize", "tiny", "abba", "--tokenizer", str(tmp_path / "tokenizer.json"))
    assert (ran.code, ran.out) == (0, "2 1 0\n")
    ran = unladen("tokenize", "tiny", "abba", "--tokenizer", str(tmp_path / "none.json"))
    assert ran.code != 0 and "none.json" in ran.err
