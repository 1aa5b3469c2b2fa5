"""Every example runs, with ``tiny`` or with a model made here."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
WORDS = {"continue_text.py": "there was", "chat.py": "21 degrees", "stream.py": "\n",
         "async_batch.py": "One day|",
         "perplexity.py": "perplexity ", "own_step.py": "fading: ", "own_constraint.py": "",
         "plan_a_machine.py": "tokens a second predicted", "activations.py": "difference "}
"""What a script writes; those that aren't here need more than ``tiny``."""


def run(name: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, EXAMPLES / name, *arguments], text=True, check=False,
                          capture_output=True, timeout=120, env=os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sorted(WORDS))
def test_runs_with_tiny(name: str) -> None:
    text = run(name)
    assert WORDS[name] in text
    assert text.strip()


def test_constraint_holds() -> None:
    assert "e" not in run("own_constraint.py").lower()


def test_search_needs_an_encoder(make_bert: Callable[..., Path]) -> None:
    ranked = run("search.py", str(make_bert(pooling_type=1)), "a query").splitlines()
    scores = [float(line.split()[0]) for line in ranked]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    assert all(-1.001 <= score <= 1.001 for score in scores)


def test_notebook_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Its cells one after another, as a kernel runs them: ``await`` stands outside functions."""
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells), "outputs are cleared before a commit"

    async def all_of_them() -> None:
        names: dict[str, Any] = {}
        for cell in cells:
            if cell["cell_type"] == "code":
                code = compile("".join(cell["source"]), "cell", "exec",
                               ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                came = eval(code, names)
                if inspect.isawaitable(came):
                    await came

    asyncio.run(all_of_them())
    assert "tokens/s predicted" in capsys.readouterr().out


def test_each_is_listed_and_says_how_to_run_it() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert set(SCRIPTS) - set(WORDS) == {"search.py"}
    for path in EXAMPLES.iterdir():
        assert path.name == "README.md" or f"| `{path.name}` |" in page, path
    for name in SCRIPTS:
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        assert f"python examples/{name}" in text
