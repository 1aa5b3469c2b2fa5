"""The dispatches of a decode step on devices with matrix units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator import backend as emulator
from unladen import Model


def decode_step(path: Path) -> Counter[str]:
    """The kernels of the last step after 70 tokens, when workgroups share the keys."""
    with Model(path, devices=["emulator:0"], context_size=96) as model:
        model.generate([3] * 70, temperature=0.0, max_tokens=2)
        ((_, program),) = model.engine.plan._programs  # type: ignore[attr-defined]
        _, size = program.step.pack()
        assert size.is_decode and size.n_splits > 1
        return Counter(d.kernel for d in program.lowered.dispatches if d.grid(size) is not None)


@pytest.mark.parametrize(("heads", "attention"), [((4, 1), "attention_mma"),
                                                  ((4, 4), "attention_wide")])
def test_dispatches_of_a_layer(make_model: Callable[..., Path], heads: tuple[int, int],
                               attention: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No dispatch rounds rows of attention or of a gated unit to int8 for the product of them."""
    monkeypatch.setenv(emulator.MODE_VARIABLE, "fast")
    monkeypatch.setenv(emulator.FEATURES_VARIABLE, "subgroups,int_dot,mma,pdl")
    sizes = {"n_embd": 128, "n_heads": heads[0], "n_kv_heads": heads[1], "quant": "Q8_0"}
    with emulator.plugged_in():
        one, two = (decode_step(make_model("llama", n_layers=n, **sizes)) for n in (1, 2))
    assert two - one == Counter({
        "norm_quantize": 2, "matvec": 3, attention: 1, "attention_join": 1, "gated_rows": 1})
