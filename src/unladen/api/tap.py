"""Taps: look at a model's activations, and change them, while it computes."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from unladen.errors import InvalidArgument

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from unladen.assembly.planner import Planner
    from unladen.engine import Engine
    from unladen.engine.tap import Tap, TapFunction, TapInfo, TapRows
    from unladen.graph.graph import Graph, Value
    from unladen.types import Shape

    class Switch(Protocol):
        """A function that begins (``on``) or ends a tap."""

        def __call__(self, tap: Tap, *, on: bool) -> None: ...

    Wanted = str | Sequence[str] | Mapping[str, TapFunction | None]
    Added = Mapping[str, npt.ArrayLike]

ONE_LINE = 8
"""The most names that a message or a ``repr`` lists on one line."""


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A value of a model's graph: the ``op`` that makes it, its ``shape`` ("T": a row for each
    token of a step, "S": one for each token whose logits are wanted), its layer, below 0 outside of
    the layers, and its ``dtype``, "f32" or "i32"."""

    name: str
    op: str
    shape: Shape
    layer: int
    dtype: str = "f32"


class Nodes(Mapping[str, NodeInfo]):
    """All nodes that :meth:`unladen.Model.tap` can tap, by name, in the order of computation."""

    def __init__(self, graph: Graph) -> None:
        from unladen.graph.taps import points
        known = points(graph)
        self._infos = {v.name: NodeInfo(v.name, n.op, v.shape, n.layer, v.dtype)
                       for n in graph.nodes for v in n.outputs if v.name in known}

    def __getitem__(self, name: str) -> NodeInfo:
        return self._infos[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def __repr__(self) -> str:
        return f"<{len(self)} nodes: {_few(list(self))}>"

    def __str__(self) -> str:
        """A line for each node: name, op, shape."""
        return "\n".join(f"{i.name:28} {i.op:18} [{', '.join(map(str, i.shape))}]"
                         for i in self._infos.values())


class Taps:
    """A tap, as :meth:`unladen.Model.tap` returns it: collects rows within ``with``, and keeps them
    afterwards.

    ``taps[name]`` are the values of a node; :attr:`requests`, :attr:`positions` and :attr:`tokens`
    say which token each row is of, :meth:`rows` all of this together for one node. Entering it
    again begins anew.
    """

    def __init__(self, tap: Tap, switch: weakref.WeakMethod[Switch]) -> None:
        self._tap = tap
        self._switch = switch  # a tap with its rows may outlive the model
        self._on: Switch | None = None
        self._known: dict[str | None, tuple[int, TapRows]] = {}

    @property
    def names(self) -> Sequence[str]:
        """The nodes whose values are kept, in the order of computation."""
        return list(self._tap.looked)

    def __getitem__(self, name: str) -> npt.NDArray[np.float32]:
        """float32 [n_rows, ...]: the values of node ``name``; int32 where the node makes whole
        numbers."""
        return self.rows(name).values

    def rows(self, name: str) -> TapRows:
        """The values of node ``name``, and which token each row is of. Raises
        :class:`InvalidArgument` for a node that isn't among :attr:`names`."""
        if name not in self._tap.looked:
            raise InvalidArgument(f"the values of {name!r} are not kept",
                                  hint=f"these are: {_few(self.names)}")
        return self._rows(name)

    @property
    def requests(self) -> npt.NDArray[np.int32]:
        """int32 [n_tokens]: the number of each row's request, from 0 on. For nodes with a row for
        each token, as :attr:`positions` and :attr:`tokens` are."""
        return self._rows(None).requests

    @property
    def positions(self) -> npt.NDArray[np.int32]:
        """int32 [n_tokens]: the position of each row's token in its text."""
        return self._rows(None).positions

    @property
    def tokens(self) -> npt.NDArray[np.int32]:
        """int32 [n_tokens]: the id of each row's token."""
        return self._rows(None).tokens

    def clear(self) -> None:
        """Forget all rows so far; requests are counted from 0 again."""
        self._tap.clear()
        self._known.clear()

    def _rows(self, name: str | None) -> TapRows:
        n_steps = len(self._tap.steps)
        if name not in self._known or self._known[name][0] != n_steps:
            self._known[name] = n_steps, self._tap.rows(name)
        return self._known[name][1]

    def __enter__(self) -> Taps:
        if self._on is not None:
            raise InvalidArgument("this tap is in use", hint="call model.tap() for another one")
        switch = self._switch()
        if switch is None:
            raise InvalidArgument("the model of this tap is gone",
                                  hint="keep the model for as long as it is tapped")
        self.clear()
        switch(self._tap, on=True)
        self._on = switch
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._on is not None:
            self._on(self._tap, on=False)
            self._on = None

    def __repr__(self) -> str:
        state = "off" if self._on is None else "on"
        n = len(self._rows(None))
        return f"<taps, {state}, {n} tokens seen: {_few(self.names) or 'nothing is kept'}>"


class Tapping:
    """The methods of a model that show or change values while it computes."""

    _engine: Engine | None
    _planner: Planner

    @property
    def engine(self) -> Engine:
        """The engine that runs the requests."""
        raise NotImplementedError

    @property
    def nodes(self) -> Nodes:
        """The nodes that :meth:`tap` accepts, by name, with their shapes, in the order of
        computation.
        """
        return Nodes(self.engine.plan.blueprint.source)

    def tap(self, nodes: Wanted = (), *, add: Added | None = None) -> Taps:
        """Look at the values of nodes while the model computes, or change them::

            with model.tap(["blk.0.attn_out", "blk.*.ffn_out"]) as taps:
                model.generate("Once upon a time", max_tokens=8)
            taps["blk.0.attn_out"]           # float32 [n_tokens, n_embd]
            taps.positions, taps.tokens      # which token each row is of

        ``nodes``: a name, a list of names, or shell patterns (:attr:`nodes` lists all names); their
        values are kept, a row for each token that is computed within the ``with``, by any call and
        any thread. A mapping gives functions: ``f(values, info)`` gets the float32 [n_rows, ...]
        values of a step, read-only, and ``info`` about its rows
        (:class:`~unladen.engine.tap.TapInfo`), and returns their replacement, or None to look only.
        Values that a function gets aren't kept. To keep them, name them in a list in another tap:
        it gets the values after every change, as all following nodes see them. ``add``: vectors by
        node, to be added to each of its rows (control vectors), after the functions of the node
        have run.

        Rows stand in the order of requests and positions. Nodes behind the choice of rows ("S" in
        :attr:`nodes`) have one for each token whose logits are wanted. Every token counts once:
        rows of guessed tokens that turned out wrong are left out, and a request that lost its place
        in the cache keeps the rows that it had. While a tap is on, no prompt takes its beginning
        from the cache, so that every token is computed. Where values are changed, the cache is
        emptied at the beginning and at the end: so it never mixes rows of the changed model with
        rows of the unchanged one. The tokens of requests under way are computed again. States that
        were loaded have to be loaded again.

        Steps take longer while a tap is on: nodes are not fused over it, the next step is not
        started ahead, and for each node that is changed the devices wait. Afterwards the model goes
        on with the plan that it had before, which waits meanwhile.

        A function that raises, or returns another shape or type, NaN or infinity, ends the requests
        of that step with :class:`TapError`. Raises :class:`InvalidArgument` for names that match
        nothing, entering it :class:`OutOfMemory`.
        """
        tap = make_tap(self.engine.plan.blueprint.source, nodes, add)
        return Taps(tap, weakref.WeakMethod(self._switch))

    def _switch(self, tap: Tap, *, on: bool) -> None:
        if on:
            self._planner.tap(self.engine, tap)
        else:
            self._planner.untap(self._engine, tap)


def make_tap(graph: Graph, nodes: Wanted, add: Added | None) -> Tap:
    """The tap of ``graph`` that :meth:`unladen.Model.tap` describes. Raises
    :class:`InvalidArgument`."""
    from unladen.engine.tap import Tap
    from unladen.graph.taps import find, points
    wanted = _wanted(nodes)
    added = _mapping(add, "add") if add is not None else {}
    if not wanted and not added:
        raise InvalidArgument("tap: no node is named", hint='for example tap(["blk.0.ffn_out"])')
    known = points(graph)
    looked = find(graph, [name for name, function in wanted.items() if function is None], "nodes")
    functions: dict[str, list[TapFunction]] = {}
    for pattern, function in wanted.items():
        for name in find(graph, [pattern], "nodes") if function is not None else ():
            assert function is not None
            functions.setdefault(name, []).append(function)
    for pattern, vector in added.items():
        for name in find(graph, [pattern], "add"):
            functions.setdefault(name, []).append(_adder(known[name], vector))
    for name in functions:
        if known[name].dtype != "f32":
            raise InvalidArgument(f"{name!r} makes whole numbers, which can't be changed",
                                  hint="name it in a list to look at it")
    return Tap({name: known[name] for name in looked}, functions)


def _wanted(nodes: object) -> Mapping[str, TapFunction | None]:
    if isinstance(nodes, str):
        return {nodes: None}
    if isinstance(nodes, Mapping):
        found = _mapping(nodes, "nodes")
        for name, function in found.items():
            if function is not None and not callable(function):
                raise InvalidArgument(
                    f"nodes: {name!r} is given {type(function).__name__}, not a function",
                    hint="f(values, info) returns an array, or None to look only; for a vector to "
                         "add use add=")
        return found
    if not isinstance(nodes, (list, tuple, set, frozenset)):
        raise InvalidArgument(f"nodes must be names, got {type(nodes).__name__}",
                              hint='for example ["blk.0.attn_out", "blk.*.ffn_out"]')
    return dict.fromkeys(_names(nodes, "nodes"))


def _mapping(given: object, parameter: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidArgument(f"{parameter} must map names to values, got {type(given).__name__}",
                              hint='for example add={"blk.0.ffn_residual": vector}')
    _names(given, parameter)
    return given


def _names(given: Iterable[object], parameter: str) -> list[str]:
    names = []
    for name in given:
        if not isinstance(name, str):
            raise InvalidArgument(f"{parameter}: a node's name is a text, got {name!r}",
                                  hint="model.nodes lists all names")
        names.append(name)
    return names


def _adder(value: Value, vector: npt.ArrayLike) -> TapFunction:
    import numpy as np
    wanted = list(map(int, value.shape[1:]))
    try:
        given = np.asarray(vector)
        got = f"an array of {given.dtype} {list(given.shape)}"
    except (TypeError, ValueError, OverflowError) as error:
        given, got = np.empty(0), str(error)
    if given.dtype.kind not in "fiu" or list(given.shape) != wanted:
        raise InvalidArgument(f"add: {value.name!r} takes {wanted} numbers, got {got}",
                              hint="give a vector as long as a row of the node")
    with np.errstate(over="ignore"):  # overflow gives infinity, which is refused below
        row = given.astype(np.float32)
    if not np.isfinite(row).all():
        raise InvalidArgument(f"add: the vector for {value.name!r} holds NaN or infinity",
                              hint="float32 goes up to 3e38")

    def add(values: npt.NDArray[np.float32], info: TapInfo) -> npt.NDArray[np.float32]:
        return values + row
    return add


def _few(names: Sequence[str]) -> str:
    if len(names) <= ONE_LINE:
        return ", ".join(names)
    half = ONE_LINE // 2
    return f"{', '.join(names[:half])}, ... , {', '.join(names[-half:])}"
