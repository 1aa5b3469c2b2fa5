"""``run`` with the form of an answer: a schema or a grammar, as text or as a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SCHEMA = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"],
          "additionalProperties": False}


def test_schemas_and_grammars(unladen: Any, tmp_path: Path) -> None:
    pytest.importorskip("llguidance")
    schema, grammar = tmp_path / "schema.json", tmp_path / "a.gbnf"
    schema.write_text(json.dumps(SCHEMA))
    grammar.write_text('root ::= "yes" | "no"')
    long = {**SCHEMA, "description": "longer than a file's name may be" * 20}
    for given in (json.dumps(SCHEMA), json.dumps(long), str(schema)):
        ran = unladen("run", "tiny", "Once", "--json-schema", given)
        assert ran.code == 0 and json.loads(ran.out)["n"] in (1, 2), ran.err
    for given in (grammar.read_text(), str(grammar)):
        ran = unladen("run", "tiny", "Once", "--grammar", given)
        assert ran.code == 0 and ran.out.strip() in ("yes", "no"), ran.err


@pytest.mark.parametrize(("options", "said"), [
    (["--json-schema", '{"not": {}}'], "not at #"),
    (["--json-schema", "/no/file"], "can't be read"),
    (["--json-schema", "tools.json"], "can't be read"),
    (["--grammar", "root ::= x"], "no rule x"), (["--grammar", "/no/file"], "can't be read"),
    (["--json-schema", "{}", "--grammar", 'root ::= "a"'], "both")])
def test_errors(unladen: Any, options: list[str], said: str) -> None:
    pytest.importorskip("llguidance")
    ran = unladen("run", "tiny", "Once", *options)
    assert (ran.code, ran.out) == (1, "") and said in ran.err
