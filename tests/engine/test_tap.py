"""Taps on running requests: the rows that they get, and the changes that their functions make."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from engine.conftest import CONTEXT, EXACT, Load, check_idle, scripted
from engine.faults import faults, from_on
from engine.test_batching import alone, check_same, n_sent_back, together
from engine.test_speculate import eager
from tiny_model import N_VOCAB
from unladen import Model
from unladen.backends import backend_of
from unladen.engine import admission
from unladen.errors import InvalidArgument, OutOfMemory, TapError, UnladenError
from unladen.runtime.plan import Plan

Floats = npt.NDArray[np.float32]
NODES = ["blk.0.attn_out", "blk.*.ffn_residual", "logits"]
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 12}


def tapped(model: Model, *texts: list[int]) -> dict[str, list[Floats]]:
    """The values of NODES for each of ``texts``, each computed alone and in one step."""
    found: dict[str, list[Floats]] = {}
    for text in texts:
        with model.tap(NODES) as taps:
            model.logits(text)
        for name in taps.names:
            assert len(taps[name]) == len(text)
            found.setdefault(name, []).append(taps[name])
    return found


def greedy(i: int) -> dict[str, Any]:
    return {**GREEDY, "max_tokens": 12 + i}


def check_rows(taps: Any, texts: list[list[int]], expected: dict[str, list[Floats]]) -> None:
    """Check that the rows are those of ``texts``, in order; "logits" may have fewer."""
    for name in taps.names:
        rows = taps.rows(name)
        key = np.stack([rows.requests, rows.positions])
        assert (np.lexsort(key[::-1]) == np.arange(len(rows))).all(), "in order"
        assert len(np.unique(key, axis=1).T) == len(rows), "each once"
        for number, text in enumerate(texts):
            mine = rows.requests == number
            positions = rows.positions[mine]
            if name != "logits":
                assert positions.tolist() == list(range(len(text)))
            assert rows.tokens[mine].tolist() == [text[i] for i in positions]
            np.testing.assert_allclose(rows.values[mine], expected[name][number][positions],
                                       rtol=1e-4, atol=1e-4)
        assert set(rows.requests) == set(range(len(texts)))


@pytest.mark.parametrize("options", [
    {}, {"batch_size": 7}, {"max_seqs": 2, "batch_size": 16}, {"devices": ["cpu"]},
    {"devices": ["cpu:0", "cpu:1"]}])
def test_several_requests_in_chunks(load: Load, prompts: list[list[int]], options: dict[str, Any]
                                    ) -> None:
    model = load(**{**EXACT, **options})
    before = alone(load(**EXACT), prompts, greedy)
    with model.tap(NODES) as taps:
        got = together(model, prompts, greedy)
        if options.get("devices") is None:
            check_same(got, before)
    # The last token of each is chosen and never computed.
    texts = [p + c.tokens[:-1] for p, c in zip(prompts, got, strict=True)]
    check_rows(taps, texts, tapped(load(**EXACT), *texts))
    assert len(taps["logits"]) == sum(len(c.tokens) for c in got)
    assert len(taps.tokens) == len(taps.positions) == len(taps["blk.0.attn_out"])
    check_idle(model)


def test_preempted_requests_count_once(load: Load, rng: np.random.Generator,
                                       caplog: pytest.LogCaptureFixture,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "EXPECTED", 8)
    prompts = [rng.integers(3, N_VOCAB, 30).tolist() for _ in range(3)]
    model = load(**EXACT, context_size=128, cache_tokens=128)
    with caplog.at_level("INFO", "unladen"), model.tap(NODES) as taps:
        got = together(model, prompts, lambda i: {"temperature": 0.0, "ignore_eos": True})
    assert n_sent_back(caplog)
    texts = [p + c.tokens[:-1] for p, c in zip(prompts, got, strict=True)]
    check_rows(taps, texts, tapped(load(**EXACT), *texts))


def test_rejected_guesses_leave_no_row(load: Load, prompts: list[list[int]]) -> None:
    """Accepted guesses have their rows, though no step computed them alone."""
    circle = [5, 6, 7, 8] * 12
    script = [70 + i if i in (3, 4, 11, 50) else circle[i % 4] for i in range(60)]
    model = load(**EXACT)
    with model.tap(NODES) as taps:
        eager(model)
        got = model.generate(circle, sampler=scripted(script), max_tokens=60)
    assert got.tokens == script
    assert 0 < got.timings.n_accepted < got.timings.n_drafted
    text = circle + got.tokens[:-1]
    check_rows(taps, [text], tapped(load(**EXACT), text))
    assert len(taps["logits"]) == len(got.tokens)


def test_known_prefixes_are_computed(load: Load, rng: np.random.Generator) -> None:
    prompt = rng.integers(3, N_VOCAB, 100).tolist()
    model = load(**EXACT)
    model.generate(prompt, **GREEDY)
    with model.tap(NODES) as taps:
        assert model.generate(prompt, **GREEDY).usage.n_cached == 0
        assert model.generate(prompt, **GREEDY).usage.n_cached == 0
    assert len(taps.tokens) == 2 * (100 + 11)
    assert model.generate(prompt, **GREEDY).usage.n_cached > 0, "looking spoils no cache"


def test_steps_started_ahead(load: Load, prompts: list[list[int]]) -> None:
    """A tap begins while a step is under way whose tokens weren't read yet."""
    expected = alone(load(**EXACT), prompts[:1], greedy)[0]
    model = load(**EXACT)
    stream = model.stream(prompts[0], **greedy(0))
    first = next(stream)
    with model.tap(NODES) as taps:
        rest = "".join(stream)
    assert first + rest == expected.text
    n = len(taps.positions)
    last = len(prompts[0]) + len(expected.tokens) - 2
    assert n > 0 and taps.positions.tolist() == list(range(last + 1 - n, last + 1))


def test_nothing_is_left_of_a_tap(path: Path, prompts: list[list[int]]) -> None:
    model = Model(path)
    plan, before = model.engine.plan, model.memory()
    with model.tap("*") as taps:
        assert model.engine.plan is not plan
        sizes = model.memory().devices[0]
        assert sizes.taken_bytes == sizes.allocated_bytes > before.devices[0].allocated_bytes
        model.logits(prompts[1])
    assert model.engine.plan is plan and model.engine.watch is None
    assert model.memory() == before
    gone = weakref.ref(model.engine.plan)
    del plan, model
    gc.collect()
    assert gone() is None, "rows that are kept keep no model"
    assert len(taps["blk.0.ffn_out"]) == len(prompts[1])
    with pytest.raises(InvalidArgument, match="gone"):
        taps.__enter__()


def test_weights_are_shared(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(use_mmap=False)
    uses: list[str] = []
    alloc: Any = backend_of("cpu").alloc

    def noting(device: Any, nbytes: int, use: str, *rest: Any) -> Any:
        uses.append(use)
        return alloc(device, nbytes, use, *rest)
    monkeypatch.setattr(backend_of("cpu"), "alloc", noting)
    with model.tap("*"):
        model.logits([5, 6, 7])
    assert uses == ["arena"]


def test_without_memory_nothing_begins(load: Load) -> None:
    model = load()
    expected, plan = model.logits([5, 6, 7]), model.engine.plan
    with faults("cpu") as found:
        with found.failing_at(from_on(0)), pytest.raises(OutOfMemory), model.tap("*"):
            pytest.fail("there was no memory")
        assert model.engine.plan is plan and model.engine.watch is None
        with model.tap("*") as taps:
            np.testing.assert_array_equal(model.logits([5, 6, 7]), expected)
        assert len(taps.tokens) == 3


def test_without_memory_a_tap_ends(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    """The model was placed elsewhere during the tap, so it has no plan to go back to. Without
    memory for a new plan it keeps the tapped one, and calls no function any more."""
    model = load(devices=["cpu:0", "cpu:1"], kv_type="f32")
    expected = model.logits([5, 6, 7])
    with faults("cpu") as found:
        taps = model.tap(add={"blk.1.ffn_out": np.ones(64)}).__enter__()
        model.place(devices=["cpu:1"])
        assert (model.logits([5, 6, 7]) != expected).any()
        with found.failing_at(from_on(0)), caplog.at_level("WARNING", "unladen"):
            taps.__exit__(None, None, None)
        assert "the plan stays as it is after a tap" in caplog.text
        np.testing.assert_array_equal(model.logits([5, 6, 7]), expected)
        with model.tap("*") as again:
            np.testing.assert_array_equal(model.logits([5, 6, 7]), expected)
    assert len(again.tokens) == 3 and not model.engine.plan.blueprint.options.is_tapped


def test_taps_in_one_another(load: Load, prompts: list[list[int]]) -> None:
    """Each tap gets its own values; functions are called in the order in which their taps began."""
    model = load(**EXACT)
    one = np.ones(64, np.float32)
    with model.tap(["blk.1.ffn_out"]) as outer:
        model.logits(prompts[2])
        with model.tap({"blk.1.ffn_out": lambda v, i: v * 2}):
            with model.tap(["blk.1.ffn_out", "blk.2.ffn_out"], add={"blk.1.ffn_out": one}) as inner:
                model.logits(prompts[2])
            assert inner.names == ["blk.1.ffn_out", "blk.2.ffn_out"]
        model.logits(prompts[2])
    rows = outer.rows("blk.1.ffn_out")
    plain, changed, again = (rows.values[rows.requests == i] for i in range(3))
    np.testing.assert_array_equal(plain, again)
    np.testing.assert_allclose(changed, 2 * plain + 1, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(inner["blk.1.ffn_out"], changed)


def test_the_end_in_another_order(load: Load) -> None:
    model = load(**EXACT)
    expected = model.logits([5, 6, 7])
    outer = model.tap(["blk.0.ffn_out"]).__enter__()
    inner = model.tap({"blk.0.ffn_out": lambda v, i: v + 1}).__enter__()
    outer.__exit__(None, None, None)
    assert (model.logits([5, 6, 7]) != expected).any()
    inner.__exit__(None, None, None)
    np.testing.assert_array_equal(model.logits([5, 6, 7]), expected)
    assert len(outer.tokens) == 0


def test_placed_elsewhere_meanwhile(load: Load, prompts: list[list[int]]) -> None:
    model = load(kv_type="f32", devices=["cpu:0", "cpu:1"])
    expected = model.logits(prompts[3])
    with model.tap(NODES) as taps:
        model.place(devices=["cpu:1"], context_size=CONTEXT - 32)
        model.logits(prompts[3])
    assert len(taps.tokens) == len(prompts[3])
    assert {d.device.name for d in model.memory().devices} == {"cpu:1"}
    assert not model.engine.plan.blueprint.options.is_tapped and model.context_size == CONTEXT - 32
    np.testing.assert_array_equal(model.logits(prompts[3]), expected)


def test_from_many_threads(load: Load, prompts: list[list[int]]) -> None:
    """Taps come and go while other threads generate: their texts stay the same."""
    expected = alone(load(**EXACT), prompts[:4], greedy)
    model, got = load(**EXACT), dict[int, Any]()

    def work(i: int) -> None:
        for _ in range(3):
            got[i] = model.generate(prompts[i], **greedy(i))
            with model.tap(["blk.*.attn_out"]) as taps:
                model.logits(prompts[i])
            assert set(prompts[i]) <= set(taps.tokens.tolist())
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    check_same([got[i] for i in range(4)], expected)
    assert model.engine.watch is None and not model.engine.plan.blueprint.options.is_tapped


def test_on_pretend_devices(path: Path) -> None:
    with Model(path, devices=["null:0", "null:1"]) as model, model.tap("*") as taps:
        model.logits([5, 6, 7])
    assert taps["blk.0.ffn_out"].shape == (3, 64) and not taps["blk.2.ffn_out"].any()


@pytest.mark.parametrize("split_mode", ["layer", "row", "tensor"])
def test_on_divided_layers(path: Path, split_mode: str, rng: np.random.Generator) -> None:
    """Values that several devices make are put together, and divided again after a change."""
    text = rng.integers(3, N_VOCAB, 20).tolist()
    bias = rng.standard_normal(64).astype(np.float32)
    add = {"blk.0.rope_q": bias, "blk.1.attn": bias, "blk.1.ffn_glu": np.tile(bias, 2)}
    results = []
    for options in ({}, {"devices": ["cpu:0", "cpu:1"], "split_mode": split_mode}):
        with Model(path, kv_type="f32", **options) as model:
            before = model.logits(text)
            with model.tap("*") as plain:
                whole = model.logits(text)
            if split_mode != "tensor":  # there the last layer is divided once it is tapped
                np.testing.assert_array_equal(whole, before)
            np.testing.assert_allclose(whole, before, rtol=1e-4, atol=1e-4)
            with model.tap("*", add=add) as steered:
                logits = model.logits(text)
            with model.tap({"*": lambda v, i: v}):
                np.testing.assert_array_equal(model.logits(text), whole)
        results.append({"": logits, **{f"{i}{name}": taps[name] for i, taps in
                                       enumerate((plain, steered)) for name in taps.names}})
    assert results[0].keys() == results[1].keys()
    for name, values in results[0].items():
        np.testing.assert_allclose(results[1][name], values, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize(("nodes", "add", "message"), [
    ("blk.0.attn_ouT", None, r"attn_ouT' matches no node.*did you mean blk.0.attn_out"),
    (["blk.0.ffn_out", "nothing*"], None, r"nothing\*' matches no node"),
    ("blk.0.kv_write", None, "makes no value"), ([], None, "no node is named"),
    ({}, {}, "no node is named"), (b"blk.0.ffn_out", None, "got bytes"), (3, None, "got int"),
    (["blk.0.ffn_out", 3], None, "got 3"), ({"blk.0.ffn_out": 3}, None, "int, not a function"),
    ({3: None}, None, "got 3"), ((), ["blk.0.ffn_out"], "add must map"),
    ((), {"blk.0.ffn_out": [1.0]}, r"takes \[64\] numbers"),
    ((), {"blk.0.ffn_out": "x"}, r"takes \[64\] numbers"),
    ((), {"blk.0.ffn_out": [1j] * 64}, r"takes \[64\] numbers"),
    ((), {"blk.0.ffn_out": [[1.0] * 64]}, r"takes \[64\] numbers"),
    ((), {"blk.0.ffn_out": [1e39] * 64}, "NaN or infinity"),
    ((), {"blk.0.ffn_out": [np.nan] * 64}, "NaN or infinity"),
    ((), {"blk.9.ffn_out": [1.0] * 64}, "add: 'blk.9.ffn_out' matches no node")])
@pytest.mark.filterwarnings("error")
def test_wrong_arguments(load: Load, nodes: Any, add: Any, message: str) -> None:
    model = load()
    with pytest.raises(InvalidArgument, match=message):
        model.tap(nodes, add=add)


def test_wrong_uses(load: Load, path: Path) -> None:
    model = load()
    taps = model.tap(["blk.*.ffn_out"])
    assert taps["blk.0.ffn_out"].shape == (0, 64) and len(taps.tokens) == 0
    with taps, pytest.raises(InvalidArgument, match="in use"), taps:
        pass
    assert model.engine.watch is None
    with pytest.raises(InvalidArgument, match="not kept"):
        taps["blk.0.attn_out"]
    with taps:
        model.logits([5, 6])
        model.close()
    assert len(taps.tokens) == 2
    with pytest.raises(InvalidArgument, match="close"), taps:
        pass
    for other in (model, Model(path, vocab_only=True)):
        with pytest.raises(InvalidArgument, match="no weights"):
            other.tap(["blk.0.ffn_out"])


def test_what_is_shown(load: Load) -> None:
    model = load()
    nodes = model.nodes
    assert next(iter(nodes)) == "token_embd" and nodes["logits"].shape == ("S", N_VOCAB)
    assert nodes["blk.1.ffn_glu"].op == "glu" and nodes["blk.1.ffn_glu"].layer == 1
    assert "blk.0.kv_write" not in nodes and len(str(nodes).splitlines()) == len(nodes)
    with model.tap("*") as taps:
        model.logits([5, 6, 7])
        for thing in (nodes, taps, taps.rows("logits"), model, model.engine.plan):
            assert len(repr(thing)) < 200 and "\n" not in repr(thing)
        assert "on, 3 tokens seen" in repr(taps)
        taps.clear()
        assert len(taps.tokens) == 0
    assert "llama, cpu:0 3 layers, context of 192 tokens" in repr(model)
    model.close()
    assert "without weights" in repr(model)


def test_a_step_without_taps_does_nothing_for_them(load: Load, monkeypatch: pytest.MonkeyPatch
                                                   ) -> None:
    """Neither copies nor cuts nor records: the plan is that of a model that never had a tap."""
    model, other = load(), load()
    with model.tap("*"):
        model.logits([5, 6])
    for plan in (model.engine.plan, other.engine.plan):
        assert isinstance(plan, Plan) and not plan.blueprint.options.is_tapped
        assert set(plan.blueprint.graph.outputs) <= {"logits", "argmax", "top_ids", "top_logits"}
    assert [n.name for n in model.engine.plan.blueprint.graph.nodes] == [
        n.name for n in other.engine.plan.blueprint.graph.nodes]
    monkeypatch.setattr("unladen.engine.tap.Watch.record", None)
    assert model.generate([5, 6], **GREEDY).tokens == other.generate([5, 6], **GREEDY).tokens


def test_every_error_is_ours() -> None:
    assert issubclass(TapError, UnladenError)
