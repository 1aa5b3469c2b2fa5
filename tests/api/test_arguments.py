"""Wrong arguments for every public parameter: typed errors or success, and nothing else.

The functions and their parameters are found by looking: a new one is tried without an edit here.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import math
from array import array
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unladen
from unladen import Model, SamplerChain, SamplingParams, gpu
from unladen.errors import InvalidArgument, UnladenError
from unladen.measure import contents, perplexity, speed
from unladen.parameters.model import MODEL, PLACE
from unladen.parameters.pasted import GENERATION_NAMES, MODEL_NAMES
from unladen.parameters.sampling import GENERATION, SAMPLING
from unladen.parameters.table import Table
from unladen.sample import Sampler, registry

TEXT = "ab, abc."


class Odd:
    """An object that fails at every use."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __eq__(self, other: object) -> bool:
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]


# Each value is made anew, because an iterator can be used only once.
VALUES: tuple[Callable[[], object], ...] = (
    *(lambda v=v: v for v in (
        None, True, False, 0, 1, -1, -2, 2, 7, 99, 2**31 - 1, 2**31, 2**63, 2**64, -2**63, 10**400,
        0.0, -0.0, 0.5, 1.0, -1.0, 2.5, 1e-9, 1e30, math.nan, math.inf, -math.inf, 1 + 2j,
        "", "5", "0.5", "true", "auto", "all", "none", "cpu", "cpu:0", "null:0", "null:x", "f16",
        "q8_0", "kv:q8_0", "kv:", "a,b", "\0", "a\0b", "\ud800", "x" * 300, "a\nb", "[", "tiny",
        "/nowhere/at/all", ".", b"", b"abc", (), (1,), (-1,), (1.5,), ("a",), ("f16", "f32"),
        (None,), (True,), ((1, 2), (3, 4)), [], [1, 2], [0, 1], [""], ["a", ""], ["a", 5], ["cpu"],
        ["cpu", "cpu"], ["null:0", "cpu"], [[]], [[1], [2]], [[[1]]], [1, "a"], [2**40], [-1],
        {}, {1: 2}, {"a": "b"}, {"(": "cpu"}, {"ffn": "cpu"}, {2**40: 1.0}, {1: math.nan},
        {1: -math.inf}, {None: None}, set(), {1}, frozenset({"a"}), range(3), range(0),
        Decimal("0.5"), Decimal("nan"), object, int, len, Path("tiny"), Path("nowhere"), ...,
        np.int64(3), np.uint8(200), np.float32(0.5), np.float64("nan"), np.bool_(True),
        np.str_("cpu"), np.array(3), np.array(0.5), np.zeros(0), np.zeros(0, int),
        np.arange(4), np.arange(4.0), np.arange(6).reshape(2, 3), np.array(["a", "b"]),
        np.array([1, None]), np.array([True, False]), array("i", [1, 2]), array("d", [0.5]),
        memoryview(b"abc"), bytearray(b"abc"))),
    object, Odd, lambda: iter([1, 2]), lambda: iter([]), lambda: iter(["a"]), lambda: (1 / 2, 3),
    lambda: (i for i in (1, 2, 3)), lambda: SamplerChain().greedy(), lambda: SamplingParams(),
    lambda: SamplerChain().greedy().build(), lambda: np.datetime64("2020-01-01"),
    lambda: np.zeros((2, 2), "f4"), lambda: np.array([2**63], np.uint64))
SENSELESS = (object(), 1 + 2j, ..., [object()], {"a": object()})
"""Values that no parameter accepts, except one that accepts anything."""


def use(result: object) -> object:
    """Run what a call returned: a coroutine to its end, an iterator for at most five items."""
    if inspect.isasyncgen(result):
        async def read() -> list[object]:
            return [each async for each in result]
        return asyncio.run(read())
    if inspect.iscoroutine(result):
        return asyncio.run(result)
    return list(itertools.islice(result, 5)) if isinstance(result, Iterator) else result


def methods(cls: type) -> Iterator[str]:
    for name, function in inspect.getmembers(cls, inspect.isfunction):
        if not name.startswith("_") and len(inspect.signature(function).parameters) > 1:
            yield name


Tried = tuple[str, str, Callable[[object], object]]


def named(function: Callable[..., object], *before: object, **rest: object
          ) -> Iterator[tuple[str, Callable[[object], object]]]:
    """Each parameter of ``function`` by name, and a call with one wrong value for it; ``rest``
    gives the other parameters that have no default."""
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind == parameter.VAR_POSITIONAL:
            yield name, lambda value: use(function(*before, *rest.values(), value))
        elif parameter.kind != parameter.VAR_KEYWORD:
            others = {n: v for n, v in rest.items() if n != name}
            yield name, lambda value, name=name, others=others: use(
                function(*before, **{**others, name: value}))


NEEDED: dict[str, dict[str, object]] = {
    **{name: {"prompt": TEXT, "max_tokens": 2} for name in (
        "generate", "stream", "agenerate", "astream")},
    **{name: {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 2,
              "template": "chatml"} for name in ("chat", "stream_chat", "achat", "astream_chat")},
    "save_state": {"prompt": TEXT}, "logits": {"tokens": [5]}, "embed": {"text": TEXT},
    "rank": {"query": TEXT, "documents": [TEXT]},
    "tokenize": {"text": TEXT}, "detokenize": {"tokens": [5]}, "load_state": {"data": b""}}
"""By method of a model: the arguments needed beside the parameter that is tried."""


def of_tables(model: Model, path: Path) -> Iterator[Tried]:
    calls: list[tuple[Table, Any, Callable[..., object]]] = [
        (MODEL, MODEL_NAMES, lambda **given: Model(path, **{"vocab_only": True, **given}).close()),
        (MODEL, {}, lambda **given: unladen.plan(path, **given)),
        (PLACE, MODEL_NAMES, model.place),
        (SAMPLING, {}, lambda **given: SamplingParams(**given).chain().build()),
        (GENERATION, GENERATION_NAMES,
         lambda **given: model.generate(TEXT, **{"n_predict": 2, **given}
                                        if "max_tokens" not in given else given))]
    for table, others, call in calls:
        unknown = [] if table is SAMPLING else ["no_such_name"]  # Python's own error there
        for name in [*table.parameters, *others, *unknown]:
            yield f"{table.call}()", name, lambda value, call=call, name=name: call(
                **{name: value})


def of_signatures(model: Model, path: Path, folder: Path) -> Iterator[Tried]:
    for name in methods(Model):
        if name not in ("place", "tap"):  # tested by a table and by tests/api/test_tap.py
            for parameter, call in named(getattr(model, name), **NEEDED.get(name, {})):
                yield f"Model.{name}", parameter, call
    chain = SamplerChain()
    for name in methods(SamplerChain):
        function = getattr(chain, name)
        needed = {"name": "temperature"} if name == "add" else {
            n: 1 for n, p in inspect.signature(function).parameters.items() if p.default is p.empty}
        for parameter, call in named(function, **needed):
            yield f"SamplerChain.{name}", parameter, call
    for name, step in registry().items():
        if step.__module__.startswith("unladen."):
            for parameter, call in named(step, make=None) if name == "constraint" else named(
                    step):
                yield f"step {name}", parameter, call
    sampler = chain.greedy().build()
    for name in methods(Sampler):
        needed = {"logits": np.zeros(4, np.float32), "ids": np.arange(4, dtype=np.int32)}
        parameters = inspect.signature(getattr(sampler, name)).parameters
        if name in ("accept", "accept_prompt"):
            for parameter, call in named(getattr(sampler, name),
                                         **{n: v for n, v in needed.items() if n in parameters}):
                yield f"Sampler.{name}", parameter, call
    for parameter, call in named(Sampler, steps=chain.greedy().steps):
        yield "Sampler", parameter, call
    source, target = str(path), str(folder / "out.gguf")
    for parameter, call in named(unladen.quantize, source=source, target=target, overwrite=True):
        yield "quantize", parameter, call
    for name, function in inspect.getmembers(gpu, inspect.isfunction):
        if not name.startswith("_") and name in gpu.__all__:
            for parameter, call in named(function):
                yield f"gpu.{name}", parameter, call
    for parameter, call in named(contents.contents, path=source):
        yield "contents", parameter, call
    for parameter, call in named(perplexity.Evaluation, model=model, tokens=[5] * 8, chunk=8):
        yield "Evaluation", parameter, call
    measured = perplexity.Evaluation(model, [5] * 8, 8)
    for name, needed in (("perplexity", {}), ("save", {"path": folder / "base"}),
                         ("divergence", {"base": folder / "none"})):
        for parameter, call in named(getattr(measured, name), **needed):
            yield f"Evaluation.{name}", parameter, call
    for parameter, call in named(speed.Test, n_prompt=1, n_gen=0, n_depth=0):
        yield "benchmark.Test", parameter, call
    for parameter, call in named(speed.tests, n_prompts=[1], n_gens=[1], depths=[0],
                                 n_seqs=[1]):
        yield "benchmark.tests", parameter, call
    for parameter, call in named(speed.measure, model=model, test=speed.Test(1, 0, 0),
                                 n_repeat=1):
        yield "benchmark.measure", parameter, call
    yield "Model", "path", lambda value: Model(value, vocab_only=True).close()
    yield "plan", "pretend", lambda value: unladen.plan(path, pretend=value)


@pytest.fixture(scope="module")
def tried(model: Model, path: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Tried]:
    folder = tmp_path_factory.mktemp("targets")
    return [*of_tables(model, path), *of_signatures(model, path, folder)]


def names_of_functions(tried: list[Tried]) -> set[str]:
    return {function for function, _, _ in tried}


def test_every_public_function_is_among_them(tried: list[Tried]) -> None:
    functions = names_of_functions(tried)
    assert {"Model.generate", "Model.astream", "Model.logits", "Model.embed", "Model.tokenize",
            "Model.load_state", "place()", "Model()", "quantize", "SamplerChain.dry",
            "gpu.cuda_memory_info"} <= functions
    assert len(tried) > 250


@pytest.mark.filterwarnings("ignore")  # NumPy warns when it converts strange numbers
@settings(max_examples=400, deadline=None, database=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_nothing_but_typed_errors(tried: list[Tried], monkeypatch: pytest.MonkeyPatch,
                                  tmp_path: Path, data: Any) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    function, name, call = data.draw(st.sampled_from(tried))
    i = data.draw(st.integers(0, len(VALUES) - 1))
    value = VALUES[i]()
    if (name == "n_repeat" and type(value) is int and value > 1000) or (
            name == "progress" and callable(value)):
        return  # it takes as long as it is told, and a function's errors are the caller's own
    try:
        call(value)
    except UnladenError as error:
        str(error)
    except Exception as error:
        raise AssertionError(f"{function}: {name} = value {i}: raw {error!r}") from error


@pytest.mark.parametrize("name", ["messages", "tools"])
def test_every_value_for_what_is_listed(name: str, tried: list[Tried]) -> None:
    """Also what only looks as if it had items, such as an array without a dimension."""
    calls = [call for function, each, call in tried
             if each == name and function == "Model.chat"]
    assert calls
    for call, make in itertools.product(calls, VALUES):
        with contextlib.suppress(UnladenError):
            call(make())


def test_errors_name_the_parameter(tried: list[Tried]) -> None:
    silent, unnamed = [], []
    for function, name, call in tried:
        if name in ("allows", "args", "parameters") or function in ("Sampler.accept",):
            continue
        for value in SENSELESS:
            try:
                call(value)
            except InvalidArgument as error:
                if name not in str(error) and not _is_known_otherwise(function, name, str(error)):
                    unnamed.append(f"{function}: {name}: {error}")
            except UnladenError as error:
                unnamed.append(f"{function}: {name}: {error!r}")
            else:
                silent.append(f"{function}: {name} = {value!r}")
    assert not unnamed, "\n".join(unnamed)
    assert not silent, "\n".join(silent)


def _is_known_otherwise(function: str, name: str, error: str) -> bool:
    """Whether the error is one that names another thing than the parameter: a model that isn't an
    encoder is refused before the text, and a step's parameter may have another name in a chain
    (``k`` is ``top_k`` everywhere else)."""
    return ("isn't an encoder" in error
            or (function.startswith(("SamplerChain.", "step ")) and "must be" in error))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("function", ["Model.", "place()", "generate()", "SamplerChain."])
def test_every_value_for_the_calls_of_a_session(tried: list[Tried], function: str) -> None:
    """All values instead of a random sample, because a request's JSON may bring anything."""
    raw = []
    for called, name, call in tried:
        if called.startswith(function) and name in ("prompt", "tokens", "text", "data", "stop",
                                                    "max_tokens", "logprobs", "sampler", "pooling",
                                                    "bias", "step", "name", "seed", "logit_bias"):
            for i, make in enumerate(VALUES):
                try:
                    call(make())
                except UnladenError:
                    continue
                except Exception as error:  # noqa: BLE001 - all of them are listed
                    raw.append(f"{called}: {name} = value {i}: {error!r}")
    assert not raw, "\n".join(raw)


def test_the_model_is_as_it_was(model: Model, tried: list[Tried]) -> None:
    model.place(devices=["cpu"], context_size=96)
    assert model.engine.pool.n_available == model.engine.pool.n_blocks
    assert model.generate(TEXT, temperature=0.0, max_tokens=4).tokens
