"""What ggml reads is there while it reads it, and goes when nobody needs it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from unladen import Model
from unladen.backends.base import BackendOptions
from unladen.backends.ggml.backend import GgmlBackend
from unladen.backends.ggml.memory import GgmlBuffer
from unladen.graph.graph import Node, Value, Weight

VALUE = Value("x", ("T", 64))
LINEAR = Node("p", "linear", (VALUE,), (Value("y", ("T", 64)),),
              {"w0": Weight("w", (64, 64), "F32")})


def test_tensors_are_there_while_the_device_is_asked(ggml: GgmlBackend,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    device = ggml.open("ggml:0", BackendOptions())
    functions, calls = ggml._driver(device).library._functions, []

    def noted(name: str) -> Any:
        function = functions[name]

        def call(*arguments: Any) -> Any:
            calls.append(name)
            return function(*arguments)
        return call
    asks, frees = "ggml_backend_dev_supports_op", "ggml_free"
    for name in (asks, frees):
        monkeypatch.setitem(functions, name, noted(name))
    assert ggml.supports(device, LINEAR)
    assert asks in calls and frees not in calls[:calls.index(asks)]


def buffers() -> dict[int, weakref.ref[GgmlBuffer]]:
    return {id(x): weakref.ref(x) for x in gc.get_objects() if type(x) is GgmlBuffer}


@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_memory_goes_without_the_garbage_collector(ggml: GgmlBackend, kv_type: str) -> None:
    gc.collect()
    gc.disable()
    try:
        earlier = buffers()
        with Model("tiny", devices=["ggml:0"], context_size=128, kv_type=kv_type) as model:
            model.logits("Once upon a time")
            made = [ref for i, ref in buffers().items() if i not in earlier]
            assert made
        assert [ref() for ref in made if ref() is not None] == []
    finally:
        gc.enable()
