"""The library belongs to one process, in which it is loaded once."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest

from backends.ggml.test_ggml import place, run
from engine.test_fork import in_child
from unladen import Model
from unladen.backends.base import BackendOptions
from unladen.backends.ggml.backend import GgmlBackend
from unladen.errors import BackendNotInitialised

has_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@has_fork
def test_a_forked_child_opens_no_device(ggml: GgmlBackend) -> None:
    with Model("tiny", devices=["ggml:0"], context_size=128, n_threads=2) as model:
        expected = model.logits([5] * 30)

        def new_model() -> None:
            with pytest.raises(BackendNotInitialised, match="forked") as error:
                Model("tiny", devices=["ggml:0"], context_size=128)
            assert "spawn" in error.value.hint
        in_child(new_model)
        np.testing.assert_array_equal(model.logits([5] * 30), expected)


@has_fork
def test_a_forked_child_frees_nothing(ggml: GgmlBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    device = ggml.open("ggml:0", BackendOptions())
    functions, freed = ggml._driver(device).library._functions, []
    monkeypatch.setitem(functions, "ggml_backend_buffer_free", freed.append)
    buffers = [ggml.alloc(device, 64, "arena")]

    def drop() -> None:
        buffers.clear()
        gc.collect()
        assert not freed
    in_child(drop)
    drop_here = buffers.pop()
    assert not freed
    del drop_here
    assert len(freed) == 1


MANY = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from unladen.backends.ggml import library
sys.setswitchinterval(1e-6)
together = Barrier(8)
def load(i):
    together.wait()
    return library.load()
with ThreadPoolExecutor(8) as pool:
    print(len(set(map(id, list(pool.map(load, range(8)))))))
"""


def test_threads_that_load_it_at_once(ggml: GgmlBackend) -> None:
    assert run(MANY, place()) == "1\n"
