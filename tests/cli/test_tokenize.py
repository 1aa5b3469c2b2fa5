"""``unladen tokenize``."""

from __future__ import annotations

import json

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
