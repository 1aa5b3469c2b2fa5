"""One server for all tests of a process, with models that answer in milliseconds."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from clients.serving import Served, serving
from factory import write_bert
from unladen import Model


@pytest.fixture(scope="package")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model that makes embeddings."""
    seed = secrets.randbits(32)
    print(f"encoder's seed: {seed}")
    return write_bert(tmp_path_factory.mktemp("encoder") / "encoder.gguf",
                      np.random.default_rng(seed), {"pooling_type": 1})


@pytest.fixture(scope="package")
def served(encoder: Path) -> Iterator[Served]:
    """``unladen serve`` with ``tiny-chat``, ``tiny`` and ``encoder``."""
    with serving({"ref": "tiny-chat", "aliases": ["small"]}, {"ref": "tiny"},
                 {"ref": encoder, "name": "encoder"}) as found:
        yield found


@pytest.fixture(scope="package")
def model() -> Iterator[Model]:
    """``tiny-chat`` in this process: what the server must answer, too."""
    with Model("tiny-chat", devices=["cpu"], n_threads=1) as made:
        yield made
