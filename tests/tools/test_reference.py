"""The pages of docs/reference that tools/gen_reference.py writes are up to date."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

import unladen
from unladen import Model, errors, gpu
from unladen.cli._ending import Code
from unladen.cli.app import build_app

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("gen_reference")


def page(name: str) -> str:
    return (ROOT / "docs/reference" / name).read_text(encoding="utf-8")


def test_up_to_date(tool: ModuleType, monkeypatch: pytest.MonkeyPatch,
                    capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["gen_reference", "--check"])
    assert tool.main() == 0, capsys.readouterr().err


def test_a_stale_page_is_noticed(tool: ModuleType, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    path = tool.ROOT / "docs/reference/no-such-page.md"
    monkeypatch.setattr(tool, "pages", lambda: {path: "text"})
    monkeypatch.setattr("sys.argv", ["gen_reference", "--check"])
    assert tool.main() == 1 and "no-such-page.md is out of date" in capsys.readouterr().err
    assert not path.exists()


def test_commands_and_options() -> None:
    text = page("commands.md")
    for command in build_app().registered_commands:
        assert f"## unladen {command.name}\n" in text
        assert command.callback is not None
        for name, parameter in inspect.signature(command.callback).parameters.items():
            declared = [o for info in getattr(parameter.annotation, "__metadata__", ())
                        for o in getattr(info, "param_decls", ()) or ()]
            assert all(f"`{o}`" in text for o in declared if o.startswith("--")), name


def test_exit_codes() -> None:
    codes = re.findall(r"^\| (\d+) \|", page("exit-codes.md"), re.M)
    assert [int(code) for code in codes] == [code.value for code in Code]


def test_variables() -> None:
    code = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py"))
    read = set(re.findall(r'"(UNLADEN_[A-Z_]+)"', code))
    assert set(re.findall(r"^\| `(UNLADEN_[A-Z_]+)`", page("environment.md"), re.M)) == read


def test_python_names() -> None:
    """The page has every public name of the package, of a model and of errors."""
    text = page("python.md")
    for name in set(unladen.__all__) - {"__version__", "backends", "gpu"}:
        assert f"### unladen.{name}\n" in text, name
    for name in dir(Model):
        if not name.startswith("_") and inspect.isfunction(getattr(Model, name)):
            assert f"#### Model.{name}\n" in text, name
    for name in ("cuda_available", "metal_available", "rocm_available", "vulkan_available",
                 "cuda_device_count", "cuda_memory_info"):
        assert f"### unladen.gpu.{name}\n" in text and hasattr(gpu, name)
    for name, value in vars(errors).items():
        if isinstance(value, type) and value.__module__ == errors.__name__:
            assert f"| `{name}` |" in text


def test_prose(tool: ModuleType) -> None:
    markdown = importlib.import_module("reference.markdown")
    assert markdown.prose(":class:`~unladen.a.B`, :meth:`generate`, :func:`a.b.c`, ``x <y>``") == (
        "`B`, `generate`, `c`, `x <y>`")
    assert markdown.cell("a | b\n  c") == "a \\| b c"
