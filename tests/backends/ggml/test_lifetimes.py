"""What ggml reads is there while it reads it, and goes when nobody needs it."""

from __future__ import annotations

from typing import Any

import pytest

from unladen.backends.base import BackendOptions
from unladen.backends.ggml.backend import GgmlBackend
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
