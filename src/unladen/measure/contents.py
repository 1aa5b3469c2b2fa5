"""Describes what a model's files hold and what it takes to run them, from their headers alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from unladen.assembly.setup import KV_TYPES, kv_types
from unladen.backends.base import KVLayout
from unladen.errors import InvalidArgument, UnladenError
from unladen.gguf import GGUFFile, open_gguf
from unladen.graph.graph import Graph
from unladen.graph.ops import get_op
from unladen.models import load_architecture
from unladen.parameters.kinds import PathText
from unladen.schedule.fit import kv_bytes
from unladen.tokenizer import Tokenizer
from unladen.types import BLOCK_TOKENS

SHORTEST = 2048
"""The shortest context, in tokens, for which :attr:`Contents.memory` has a row, unless the model
was trained for less."""

TEMPLATE = "tokenizer.chat_template"
"""The metadata key of the default chat template, and the prefix of those of named ones."""


@dataclass(frozen=True, slots=True)
class TypeTotal:
    """All tensors of one type: how many there are, and how many numbers and bytes they hold."""

    quant: str
    n_tensors: int
    n_elements: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class ContextMemory:
    """Bytes of the cache for one sequence of ``n_tokens``, by the cache's type. None means that the
    heads don't fit the type's blocks."""

    n_tokens: int
    kv_bytes: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in an open ``file``.

    * ``problems``: why the model can't run here, one line each; empty if it can.
    * ``state_bytes``: bytes of a sequence's recurrent state.
    * ``context_length``: tokens that the model was trained for.
    * ``memory``: a row for each context from 2048 tokens to ``context_length``. Where the graph
      can't be built it is empty, and the numbers are 0.
    * ``tokenizer``: None where the file has none or it can't be used.
    * ``templates``: chat templates by name, "" for the default one.
    """

    file: GGUFFile
    file_bytes: int
    arch: str
    problems: tuple[str, ...]
    types: tuple[TypeTotal, ...]
    tokenizer: Tokenizer | None
    templates: Mapping[str, str]
    context_length: int
    state_bytes: int
    memory: tuple[ContextMemory, ...]

    @property
    def n_elements(self) -> int:
        """Numbers in all tensors."""
        return sum(t.n_elements for t in self.types)

    @property
    def n_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(t.n_bytes for t in self.types)


def contents(path: str | os.PathLike[str]) -> Contents:
    """The contents of the model at ``path``. Raises :class:`GGUFError` and
    :class:`ModelNotFound` where it can't be opened; other faults are listed in ``problems``."""
    file = open_gguf(PathText().of("path", path))
    problems: list[str] = []
    graph, context = _graph(file, problems)
    arch = file.metadata.get("general.architecture")
    return Contents(
        file, sum(os.path.getsize(p) for p in file.paths), arch if isinstance(arch, str) else "",
        tokenizer=_tokenizer(file, problems), problems=tuple(problems), types=_types(file),
        templates={key.removeprefix(TEMPLATE).removeprefix("."): value
                   for key, value in file.metadata.items()
                   if isinstance(value, str) and (key == TEMPLATE
                                                  or key.startswith(TEMPLATE + "."))},
        context_length=context,
        state_bytes=(4 * sum(get_op(n.op).state_size(n) for n in graph.nodes) if graph else 0),
        memory=tuple(_memory(graph, n) for n in _lengths(context)) if graph else ())


def _graph(file: GGUFFile, problems: list[str]) -> tuple[Graph | None, int]:
    try:
        architecture = load_architecture(file)
        return architecture.build(), architecture.context_length
    except UnladenError as error:
        problems.append(str(error))
        return None, 0


def _tokenizer(file: GGUFFile, problems: list[str]) -> Tokenizer | None:
    try:
        return Tokenizer.from_gguf(file.metadata, path=file.path)
    except UnladenError as error:
        problems.append(str(error))
        return None


def _types(file: GGUFFile) -> tuple[TypeTotal, ...]:
    """The totals of all types, the one with the most bytes first."""
    totals: dict[str, list[int]] = {}
    for t in file.tensors.values():
        total = totals.setdefault(t.quant, [0, 0, 0])
        for i, n in enumerate((1, t.n_elements, t.nbytes)):
            total[i] += n
    return tuple(sorted((TypeTotal(quant, *total) for quant, total in totals.items()),
                        key=lambda t: -t.n_bytes))


def _lengths(trained: int) -> Iterator[int]:
    n = SHORTEST
    while n < trained:
        yield n
        n *= 2
    yield trained


def _memory(graph: Graph, n_tokens: int) -> ContextMemory:
    found: dict[str, int | None] = {}
    for kv_type in KV_TYPES:
        try:
            types = kv_types(kv_type, graph)
        except InvalidArgument:  # a head isn't a whole number of the type's blocks
            found[kv_type] = None
            continue
        layout = KVLayout(BLOCK_TOKENS, -(-n_tokens // BLOCK_TOKENS), *types)
        found[kv_type] = sum(sum(kv_bytes(s, layout)) for s in graph.states().values())
    return ContextMemory(n_tokens, found)
