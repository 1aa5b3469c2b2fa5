"""Modelfiles: shared cases, the rules beyond them, and hostile texts."""

from __future__ import annotations

import json
import os
import random
import secrets
from pathlib import Path

import pytest

from unladen.errors import ModelfileError, ModelNotFound
from unladen.hub import modelfile
from unladen.hub.modelfile import parse


def test_shared_cases(shared: Path) -> None:
    cases = json.loads((shared / "stores" / "modelfiles.json").read_text(encoding="utf-8"))["cases"]
    assert len(cases) >= 40
    for case in cases:
        if "error" in case:
            with pytest.raises(ModelfileError) as caught:
                parse(case["text"])
            assert caught.value.line == (case["error"]["line"] or 0), case["name"]
            assert caught.value.hint
        else:
            found = [[name, *value] if isinstance(value, tuple) else [name, value]
                     for name, value in parse(case["text"]).instructions]
            assert found == case["expect"], case["name"]


def test_document() -> None:
    found = parse("FROM a\nPARAMETER stop x\nPARAMETER num_ctx 8\nPARAMETER stop \"y \"\n"
                  "PARAMETER top_p .5\nPARAMETER use_mmap F\nPARAMETER mirostat 2\nFROM ./p.gguf\n"
                  "SYSTEM one\nSYSTEM two\nMESSAGE user hi\nMESSAGE assistant yes\nMMPROJ v.gguf\n"
                  "GPU_LAYERS 3\nFLASH_ATTENTION T\nCAPABILITY tools 1\nTHINKING enabled false\n")
    assert found.sources == ("a", "./p.gguf") and found.last("SYSTEM") == "two"
    assert found.parameters == {"num_ctx": 8, "top_p": 0.5, "use_mmap": False, "stop": ["x", "y "]}
    assert found.messages == [{"role": "user", "content": "hi"},
                              {"role": "assistant", "content": "yes"}]
    assert found.last("VISION_PROJECTOR") == "v.gguf" and found.last("TEMPLATE") is None
    assert found.last("GPU_LAYERS") == 3 and found.last("FLASH_ATTENTION") is True
    assert found.settings("CAPABILITY") == {"tools": True}
    assert found.settings("THINKING") == {"enabled": False}
    assert found.warnings == ("Modelfile, line 7: mirostat has no effect any more",)


@pytest.mark.parametrize(("value", "expected"), [
    ('"a "b" c"', 'a "b" c'), ('"""x""" y\nz"""', 'x""" y\nz'), ('""""\nx"""', '"\nx'),
    ('"""\r\nx\r"""  ', "\r\nx\r"), ('""', ""), ('"""  \n """', "  \n "), ("'a'", "'a'"),
    ('"\n"', "\n"), ("a\u00a0", "a\u00a0"), ("a\x0bb\u2028c", "a\x0bb\u2028c"),
    ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469")])
def test_values(value: str, expected: str) -> None:
    for end in ("", "\n", "\rLICENSE x"):
        assert parse(f"FROM a\nSYSTEM  {value}{end}").instructions[1] == ("SYSTEM", expected)


@pytest.mark.parametrize(("text", "line"), [
    ("FROM", 1), ('FROM ""', 1), ('FROM "  "', 1), ("FROM a\rPARAMETER seed", 2),
    ("FROM a\nPARAMETER", 2), ("FROM a\nPARAMETER top_k 1.0", 2), ("FROM a\nPARAMETER seed 1_0", 2),
    ("FROM a\nPARAMETER top_p nan", 2), ("FROM a\nPARAMETER top_p 1e39", 2),
    ("FROM a\nPARAMETER seed 9223372036854775808", 2), ("FROM a\nPARAMETER use_mmap yes", 2),
    ("FROM a\nPARAMETER seed \u0661", 2), ("FROM a\nPARAMETER Seed 1", 2),
    ("FROM a\nMESSAGE User hi", 2), ("FROM a\nMESSAGE user", 2), ("FROM a\nREQUIRES new", 2),
    ("FROM a\nREQUIRES 1.02", 2), ("FROM a\n\r\n\nDRAFT a", 4), ("FROM a\nADAPTER \"\"", 2),
    ("FROM a\nGPU_LAYERS many", 2), ("FROM a\nDIGEST sha256:00", 2), ("FROM a\nTHINKING on x", 2),
    ("FROM a\nCAPABILITY tools perhaps", 2), ('FROM a\nSYSTEM """a\n""', 2),
    ('FROM a\nSYSTEM"""x"""', 2), ("FROM a\nSYSTEM \"x\" y", 2), ("\x00", 1)])
def test_refused(text: str, line: int) -> None:
    with pytest.raises(ModelfileError) as caught:
        parse(text)
    assert caught.value.line == line and caught.value.hint


@pytest.mark.parametrize("version", ["0.14.0", "v1", "1.2", "1.2.3-rc.1+x"])
def test_versions(version: str) -> None:
    assert parse(f"FROM a\nREQUIRES {version}").last("REQUIRES") == version


def test_anything_ends_in_a_result_or_a_typed_error() -> None:
    seed = secrets.randbits(32)
    print(f"seed: {seed}")
    draw = random.Random(seed)
    words = ["FROM", "from", "SYSTEM", "PARAMETER", "MESSAGE", " ", "\t", "\n", "\r", '"', '"""',
             "#", "stop", "seed", "1", "user", "a", "\0", "\ufeff", "\ud800", "x" * 50]
    n_parsed = 0
    for _ in range(3000):
        text = "".join(draw.choices(words, k=draw.randrange(30)))
        try:
            n_parsed += bool(parse(text).instructions)
        except ModelfileError as error:
            assert error.hint  # noqa: PT017 - most texts are refused, some aren't
    assert n_parsed


def test_files(tmp_path: Path) -> None:
    path, text = tmp_path / "Modelfile", "FROM a\r\nSYSTEM \u00e9\n"
    for data in (text.encode(), text.encode("utf-8-sig"), text.encode("utf-16"),
                 b"\xfe\xff" + text.encode("utf-16-be")):
        path.write_bytes(data)
        assert modelfile.read(path).last("SYSTEM") == "\u00e9"
    path.write_bytes(b"FROM a\nSYSTEM \xff\n")
    with pytest.raises(ModelfileError, match="line 2"):
        modelfile.read(path)
    os.mkfifo(tmp_path / "pipe")
    for name in ("none", ".", "pipe"):
        with pytest.raises(ModelNotFound):
            modelfile.read(tmp_path / name)
