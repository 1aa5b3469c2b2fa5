"""Fixture: a tiny model that the tests of a file share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tiny_model import write_tiny
from unladen import Model


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny.gguf", np.random.default_rng(0),
                      context=96)


@pytest.fixture(scope="module")
def model(path: Path) -> Model:
    return Model(path, kv_type="f32")
