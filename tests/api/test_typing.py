"""Type checkers accept right names in a user's script and report misspelt ones."""

from __future__ import annotations

import json
import re
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest

import unladen

GOOD = '''
import numpy as np
import numpy.typing as npt
import unladen
from unladen import Completion, Model, SamplerChain
from unladen.api import PlanReport, Stream

model = Model("tiny", context_size=256, n_gpu_layers="all", kv_type=("f16", "f16"), strict=True)
ported = Model(model_path="tiny", n_ctx=256, n_batch=64, n_gpu_layers=-1)
one: Completion = model.generate("Once", max_tokens=3, temperature=0.0, top_k=40, seed=1, stop="x")
two: list[Completion] = model.generate(["a", "b"], temperature=0.0, max_tokens=3)
by_ids: Completion = model.generate(model.tokenize("a"), max_tokens=3, repeat_penalty=1.1)
by_array: Completion = model.generate(np.array([3, 4]), max_tokens=3, logit_bias={5: -1.0})
several: list[Completion] = model.generate([[3, 4], [5]], sampler=SamplerChain().greedy())
pieces: Stream = model.stream("a", max_new_tokens=3, temp=0.5)
row: npt.NDArray[np.float32] = model.logits([3, 4])
rows: list[npt.NDArray[np.float32]] = model.logits(["a", "b"])
report: PlanReport = unladen.plan("tiny", pretend="2x24GB", context_size=256)
model.place(n_gpu_layers=0, context_size=128)
ids: list[int] = model.tokenize("b", add_special=False, continues=True)


async def later() -> None:
    first: Completion = await model.agenerate("a", min_p=0.1)
    both: list[Completion] = await model.agenerate(["a", "b"], min_p=0.1)
    async for piece in model.astream("a", dry_multiplier=0.8):
        print(piece.upper(), first, both)


def embedded(encoder: Model) -> tuple[npt.NDArray[np.float32], list[npt.NDArray[np.float32]]]:
    return encoder.embed(["a", "b"]), encoder.embed(["a", "b"], pooling="none")
'''
BAD = '''
import unladen
from unladen import Model

model = Model("tiny")
Model("tiny", context_sizes=256)  # context_sizes
Model("tiny", context_size="256")  # context_size
unladen.plan("tiny", batch_sise=5)  # batch_sise
model.place(n_gpu_layer=5)  # n_gpu_layer
model.generate("a", temprature=0.0)  # temprature
model.generate("a", temperature="0.0")  # temperature
model.stream("a", topk=5)  # topk
model.generate({"a": 1})  # generate
model.tokenize("a", add_specials=True)  # add_specials
model.no_such_method()  # no_such_method
len(model.generate("a"))  # len
model.generate(["a"]).text  # text


async def later() -> None:
    await model.agenerate("a", top_q=0.5)  # top_q
    model.astream("a", seed="1")  # seed
'''
SOURCES = Path(unladen.__file__).parents[1]
IS_INSTALLED = str(SOURCES) in site.getsitepackages()
"""Whether the package is installed: mypy then finds it by itself, and refuses a path to it."""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "good.py").write_text(GOOD)
    (folder / "bad.py").write_text(BAD)
    return folder


def marked(text: str) -> set[int]:
    """The numbers of lines, from 1 on, that a checker must report."""
    return {i for i, line in enumerate(text.split("\n"), 1) if re.search(r"  # \w+$", line)}


def test_mypy(scripts: Path) -> None:
    pytest.importorskip("mypy", reason="mypy isn't installed")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(scripts / "cache"),
         "--follow-imports", "silent", "--no-error-summary", "good.py", "bad.py"],
        cwd=scripts, env={"MYPYPATH": "" if IS_INSTALLED else str(SOURCES), "PATH": ""},
        capture_output=True, text=True, timeout=250, check=False)
    found = re.findall(r"^(\w+)\.py:(\d+): error: ", ran.stdout, re.M)
    assert {int(line) for name, line in found if name == "bad"} == marked(BAD), ran.stdout
    assert not [line for name, line in found if name != "bad"], ran.stdout


def test_pyright(scripts: Path) -> None:
    program = shutil.which("pyright")
    if program is None:
        pytest.skip("pyright isn't installed (npm install pyright)")
    (scripts / "pyrightconfig.json").write_text(json.dumps({
        "extraPaths": [str(SOURCES)], "typeCheckingMode": "standard",
        "reportUnusedExpression": False}))
    ran = subprocess.run([program, "--outputjson", "--pythonpath", sys.executable], cwd=scripts,
                         capture_output=True, text=True, timeout=250, check=False)
    found = [(Path(each["file"]).name, each["range"]["start"]["line"] + 1)
             for each in json.loads(ran.stdout)["generalDiagnostics"]
             if each["severity"] == "error"]
    assert {line for name, line in found if name == "bad.py"} == marked(BAD), ran.stdout
    assert not [each for each in found if each[0] != "bad.py"], ran.stdout
