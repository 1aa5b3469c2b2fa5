"""Stores of models as other programs leave them, with normal and trap cases."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

VARIABLES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "LLAMA_CACHE", "OLLAMA_MODELS",
             "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "UNLADEN_MODELS",
             "UNLADEN_NAMES")


class Built:
    """Stores in ``root``. ``rows``: what a reader should list; ``tools``: the script that built
    them."""

    def __init__(self, tools: ModuleType, root: Path, scenario: str) -> None:
        self.tools = tools
        self.root = root
        self.places: dict[str, Path] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # the script leaves files to Python
            self.rows: list[dict[str, Any]] = tools.build(root, scenario, more=self._places)

    def _places(self, store: object, places: dict[str, Path], gguf: object) -> None:
        self.places = places

    def gguf(self, name: str, quant: str = "Q4_K_M", kind: str = "model", **more: Any) -> bytes:
        """A small file."""
        return bytes(self.tools.gguf(name, quant, kind, **more))

    def real(self, row: dict[str, Any]) -> str:
        """The real path of a row's file."""
        return os.path.realpath(self.root / row["path"])


@pytest.fixture(scope="session")
def build_tools(shared: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_stores", shared / "stores" / "build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def no_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without any models."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "stores" / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("unladen.hub.stores.ollama._SERVICE", tmp_path / "no-service")
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / ".cache" / "huggingface" / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return home


@pytest.fixture
def scenario() -> str:
    """Whether variables name the stores ("env") or they are at their usual places ("home")."""
    return "env"


@pytest.fixture
def pile() -> bool:
    """Whether 3,000 other files lie among the models, which takes a while to write."""
    return False


@pytest.fixture
def built(scenario: str, pile: bool, build_tools: ModuleType, tmp_path: Path, no_stores: Path,
          monkeypatch: pytest.MonkeyPatch) -> Iterator[Built]:
    """All stores."""
    root = tmp_path / "stores"
    put = build_tools.Store.put

    def put_few(store: object, path: Path, data: bytes = b"") -> Path:
        return path if "pile" in Path(path).parts else put(store, path, data)

    if not pile:
        monkeypatch.setattr(build_tools.Store, "put", put_few)
    found = Built(build_tools, root, scenario)
    if scenario == "env":
        for name, folder in (("HF_HOME", "hf"), ("OLLAMA_MODELS", "ollama"),
                             ("LLAMA_CACHE", "llama")):
            monkeypatch.setenv(name, str(root / folder))
        constants = pytest.importorskip("huggingface_hub.constants")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(root / "hf" / "hub"))
    yield found
    build_tools.unlock(root)
