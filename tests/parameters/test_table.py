"""The tables have each name once, and everything made from them agrees."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from typing import Any

import pytest

from unladen import Model, SamplingParams
from unladen.assembly.ladder import Wishes
from unladen.assembly.setup import KV_TYPES
from unladen.cli import _placement, _sampling
from unladen.errors import InvalidArgument
from unladen.parameters.model import MODEL, PLACE, ModelNames
from unladen.parameters.pasted import GENERATION_NAMES, MODEL_NAMES
from unladen.parameters.sampling import GENERATION, SAMPLING, GenerationNames
from unladen.parameters.table import MISSING, Foreign, Synonym, Table, described
from unladen.schedule.place import OFFLOAD_ORDERS, SPLIT_MODES, PlaceOptions

TABLES = pytest.mark.parametrize("table", [MODEL, PLACE, SAMPLING, GENERATION],
                                 ids=lambda table: table.call)


@TABLES
def test_defaults_are_taken(table: Table) -> None:
    defaults = table.defaults()
    assert set(defaults) <= set(table.parameters)
    taken = table.taken(defaults)
    assert {name: list(value) if isinstance(value, tuple) else value
            for name, value in defaults.items()} == taken


@TABLES
def test_every_parameter_refuses_something_and_is_named(table: Table) -> None:
    for name in table.parameters:
        with pytest.raises(InvalidArgument, match=name):
            table.taken({name: object()})


@TABLES
def test_texts_are_in_one_style(table: Table) -> None:
    for name, each in table.parameters.items():
        assert each.about and not each.about.endswith("."), name
        if each.option is not None:
            assert each.option.help.endswith(".") and each.option.help[0].isupper(), name
            assert all(option.startswith("-") for option in each.option.names), name


def test_options_are_unlike() -> None:
    names = [name for table in (MODEL, GENERATION) for each in table.parameters.values()
             if each.option is not None for name in each.option.names]
    assert len(names) == len(set(names))


def test_names_and_defaults_are_those_of_the_parts() -> None:
    place = {f.name: f for f in dataclasses.fields(PlaceOptions)}
    assert set(place) <= set(PLACE.parameters)
    for name, field in place.items():
        if name != "override_tensor":  # {} there
            assert field.default == MODEL.parameters[name].default, name
    for field in dataclasses.fields(Wishes):
        if field.name != "options":
            assert field.default == MODEL.parameters[field.name].default, field.name
    params = {f.name: f.default for f in dataclasses.fields(SamplingParams)}
    assert set(params) == set(SAMPLING.parameters)
    for name, each in SAMPLING.parameters.items():
        assert each.default is MISSING or each.default == params[name], name


def test_choices_are_those_of_the_parts() -> None:
    for name, allowed in (("split_mode", SPLIT_MODES), ("offload_order", OFFLOAD_ORDERS),
                          ("kv_type", KV_TYPES)):
        for each in allowed:
            assert MODEL.taken({name: each}) == {name: each}


def test_options_of_the_command_line_are_in_the_table() -> None:
    assert all(MODEL.parameters[name].option for name in _placement.NAMES)
    assert set(_placement.NAMES) >= set(PLACE.parameters) - {
        "context_size", "cache_tokens", "batch_size", "kv_type"}
    chosen = {*_sampling.CHOOSING, *_sampling.REPEATING}
    assert {name for name, each in SAMPLING.parameters.items() if each.option} == chosen


def test_the_docstring_and_the_signature_are_those_of_the_table() -> None:
    """If this fails after a change of the table, paste the result of ``described(MODEL)`` into the
    docstring."""
    assert described(MODEL) in str(Model.__doc__)
    shown = inspect.signature(Model).parameters
    assert list(shown) == ["path", *MODEL.parameters]
    assert shown["batch_size"].default == 512


@pytest.mark.parametrize(("table", "names", "others"), [
    (MODEL, ModelNames, MODEL_NAMES), (GENERATION, GenerationNames, GENERATION_NAMES)])
def test_other_programs_names_are_typed_where_they_are_taken(
        table: Table, names: Any, others: dict[str, Synonym | Foreign]) -> None:
    typed = set(names.__annotations__) - set(table.parameters)
    special = {"model_path", "type_k", "type_v", "cache_type_k", "cache_type_v"}
    assert typed - special == {n for n, o in others.items() if isinstance(o, Synonym)}
    for name, other in others.items():
        assert name not in table.parameters
        if isinstance(other, Synonym):
            assert other.ours in table.parameters, name
        else:
            assert other.instead, name
            for value in other.harmless:
                assert table.taken({name: value}) == {}
            with pytest.raises(InvalidArgument, match=name):
                table.taken({name: object()})


def test_two_names_for_one_thing() -> None:
    with pytest.raises(InvalidArgument, match="both n_ctx and context_size are given"):
        MODEL.taken({"n_ctx": 5, "context_size": 5})
    with pytest.raises(InvalidArgument, match="both n_batch and n_ubatch are given"):
        MODEL.taken({"n_batch": 5, "n_ubatch": 5})


def test_a_misspelt_name_is_guessed() -> None:
    with pytest.raises(InvalidArgument, match=r"no parameter temprature.*did you mean temperat"):
        GENERATION.taken({"temprature": 1.0})
    with pytest.raises(InvalidArgument, match=r"no parameter xyzzy.*known: .*batch_size"):
        MODEL.taken({"xyzzy": 1.0})


def test_every_name_has_a_type() -> None:
    hints = typing.get_type_hints(ModelNames)
    assert set(MODEL.parameters) <= set(hints)
