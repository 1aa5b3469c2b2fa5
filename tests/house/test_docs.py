"""Checks the documentation: code runs, links have targets, lists are complete."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from house.tree import PACKAGE, ROOT
from unladen.graph.ops import registry as ops
from unladen.models import registry as models

DOCS = ROOT / "docs"
FOLDERS = (DOCS, PACKAGE, ROOT / "benchmarks", ROOT / "examples")
PAGES = sorted([*ROOT.glob("*.md"), *(p for folder in FOLDERS for p in folder.rglob("*.md"))])
BLOCK = re.compile(r"<!-- run -->\n```(python|bash)\n(.*?)```", re.S)
BLOCKS = [pytest.param(kind, code, id=f"{page.name}-{i}") for page in PAGES
          for i, (kind, code) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))]


@pytest.mark.parametrize(("kind", "code"), BLOCKS)
def test_block_runs(kind: str, code: str, tmp_path: Path) -> None:
    """Blocks after ``<!-- run -->`` run without an error, with ``unladen`` and ``python`` on the
    path."""
    for name, call in (("unladen", "-m unladen "), ("python", "")):
        script = tmp_path / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {call}"$@"\n', encoding="utf-8")
        script.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    shell = [sys.executable, "-c"] if kind == "python" else ["bash", "-euo", "pipefail", "-c"]
    changed = {"PATH": path, "UNLADEN_MODELS": str(tmp_path / "models")}
    ran = subprocess.run([*shell, code], cwd=ROOT, env=os.environ | changed, text=True,
                         capture_output=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_is_python(page: Path) -> None:
    """Blocks that can't run here, because they need a model, are at least valid Python."""
    for code in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        compile(code, page.name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_readme_shows_both_ways() -> None:
    assert {block.values[0] for block in BLOCKS} == {"python", "bash"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = []
    for target in re.findall(r"\]\(([^)\s]+)", re.sub(r"```.*?```", "", text, flags=re.S)):
        path, _, anchor = target.partition("#")
        leads_to = page.parent / path if path else page
        if "://" not in target and not (leads_to.exists() and (
                not anchor or anchor in anchors(leads_to))):
            missing.append(target)
    assert not missing


def anchors(page: Path) -> set[str]:
    """The anchors of a page: its headings in lower case, with hyphens for spaces."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_architectures_are_in_files_of_their_names() -> None:
    for arch, cls in models().items():
        assert cls.__module__.rpartition(".")[2] == re.sub(r"\W", "_", arch)


def test_ops_that_pages_name() -> None:
    """The generated page has every op; the one that explains them names none that is gone."""
    every = (DOCS / "reference/ops.md").read_text(encoding="utf-8")
    assert {name for name in ops() if f"`{name}`" not in every} == set()
    text = (DOCS / "concepts/graph.md").read_text(encoding="utf-8")
    table = text.partition("| part of a model | ops |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", table))
    assert len(named) > 30 and named <= set(ops())


def steps(text: str) -> Iterator[tuple[str, set[str]]]:
    """The file of each step of the walk "One token", and the names that the step uses."""
    for path, prose in re.findall(r"^### `([^`]+)`\n(.*?)(?=^##|\Z)", text, re.M | re.S):
        yield path, set(re.findall(r"`(\w+)`", prose))


def test_each_step_of_a_token_names_what_is_in_its_file() -> None:
    found = list(steps((DOCS / "concepts/one-token.md").read_text(encoding="utf-8")))
    assert len(found) > 10
    for path, names in found:
        assert (PACKAGE / path).is_file(), f"there is no {path}"
        code = (PACKAGE / path).read_text(encoding="utf-8")
        missing = {name for name in names if not re.search(rf"\b{name}\b", code)}
        assert not missing, f"{path} has no {missing}"


def test_steps_are_found() -> None:
    text = "## A\n### `a/b.py`\n`f` calls `g`.\n### `c.h`\n`x.y` is no name.\n## B\n`z`"
    assert list(steps(text)) == [("a/b.py", {"f", "g"}), ("c.h", set())]


def test_environment_page_names_every_variable() -> None:
    text = (DOCS / "reference/environment.md").read_text(encoding="utf-8")
    code = "\n".join(p.read_text(encoding="utf-8") for p in PACKAGE.rglob("*.py"))
    read = set(re.findall(r'"(UNLADEN_[A-Z_]+)"', code))
    assert set(re.findall(r"^\| `(UNLADEN_[A-Z_]+)`", text, re.M)) == read


def test_pages_stay_within_the_site() -> None:
    """A link that leaves docs/ would be broken on the site; other files are named as paths."""
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert "://" in target or (page.parent / target).resolve().is_relative_to(DOCS), page


def test_site_has_every_page() -> None:
    config = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    named = [path for shelf in config["project"]["nav"] for path in _paths(shelf)]
    assert sorted(named) == sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md"))


def _paths(entry: object) -> Iterator[str]:
    """The pages of an entry of the site's navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        assert isinstance(entry, dict | list)
        for inner in entry.values() if isinstance(entry, dict) else entry:
            yield from _paths(inner)


@pytest.mark.parametrize(("page", "most"), [("README.md", 150),
                                            ("docs/concepts/performance.md", 120)])
def test_pages_are_short(page: str, most: int) -> None:
    assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= most


def test_map_has_every_part() -> None:
    text = (PACKAGE / "README.md").read_text(encoding="utf-8")
    parts = {f"{p.name}/" for p in PACKAGE.iterdir() if (p / "__init__.py").exists()}
    parts |= {p.name for p in PACKAGE.glob("[!_]*.py")}
    assert {part for part in parts if f"`{part}`" not in text} == set()


def test_a_loose_file_has_a_reason() -> None:
    text = (PACKAGE / "README.md").read_text(encoding="utf-8")
    _, _, reasons = text.partition("is outside the folders")
    loose = {path.name for path in PACKAGE.glob("[!_]*.py")}
    assert {name for name in loose if f"`{name}`" not in reasons} == set()
