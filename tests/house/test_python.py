"""Every Python file keeps the rules, and every rule finds the code that breaks it."""

from __future__ import annotations

import ast

import pytest

from house import rules
from house.tree import Source, package_sources, python_sources


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_rule_is_kept(rule: rules.Rule) -> None:
    # Tests may name types, backends and architectures.
    everywhere = rule in (rules.short_functions, rules.no_vague_names, rules.no_silent_except)
    sources = python_sources() if everywhere else package_sources()
    found = [f"{s.path}:{line}: {what}" for s in sources for line, what in rule(s)]
    assert not found, f"{rule.__doc__}\n" + "\n".join(found)


@pytest.mark.parametrize(("rule", "bad"), rules.RULES.items(),
                         ids=[rule.__name__ for rule in rules.RULES])
def test_rule_bites(rule: rules.Rule, bad: str) -> None:
    assert list(rule(Source("src/unladen/api/model.py", bad)))


def test_everything_is_documented() -> None:
    """Modules, public classes and public functions have docstrings."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found = []
    for source in package_sources():
        for node in (source.tree, *source.tree.body):
            name = getattr(node, "name", "")
            if isinstance(node, kinds) and name[:1] != "_" and not ast.get_docstring(node):
                found.append(f"{source.path}: {name or 'the module'}")
    assert not found, "no docstring:\n" + "\n".join(found)
