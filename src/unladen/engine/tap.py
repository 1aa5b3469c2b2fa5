"""Shows callers the values of a graph's nodes, row by row, and lets them change the values.

The plan of a tapped engine gives the values that are looked at as further outputs, and calls
:meth:`Watch.change` for those that may be changed, in the middle of a step. Each row belongs to one
token of one request. Rows of guessed tokens that turned out wrong are left out. A request that was
sent back computes its rows a second time; they are counted once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from unladen.engine.batcher import Work
from unladen.engine.flight import Flight
from unladen.engine.request import Request
from unladen.errors import Cancelled, TapError
from unladen.graph.batch import I32, Batch
from unladen.graph.graph import Value
from unladen.graph.taps import PREFIX
from unladen.runtime.plan import Plan

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class TapRows:
    """The values of a node, and which token each row belongs to. Rows are in the order of requests
    and, within a request, of positions.

    ``values`` [n_rows, ...], float32 for almost all nodes; ``requests`` int32 [n_rows]: the number
    of the request, counted from 0 in the order in which the tap saw them first; ``positions`` int32
    [n_rows] in its text; ``tokens`` int32 [n_rows]: the id there.
    """

    values: Array
    requests: I32
    positions: I32
    tokens: I32

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.values.shape))
        return f"<TapRows of {len(np.unique(self.requests))} requests: values [{shape}]>"


@dataclass(frozen=True, slots=True)
class TapInfo:
    """What a function of :meth:`unladen.Model.tap` is told about the rows that it gets: the
    ``node``, and ``requests``, ``positions``, ``tokens`` as in :class:`TapRows`."""

    node: str
    requests: I32
    positions: I32
    tokens: I32


TapFunction = Callable[[npt.NDArray[np.float32], TapInfo], npt.NDArray[np.float32] | None]
"""Gets the values of a node, float32 [n_rows, ...] and read-only, in the middle of a step, and
returns their replacement: float32 of the same shape, or None to leave them. A row comes again where
a request has to be computed again because it lost its place in the cache."""


class _Step(NamedTuple):
    """The rows of one step: ``values`` are arrays by name; ``rows`` has by symbol, T or S, the
    request, position and token of each row: int32 [3, n_rows]."""

    values: Mapping[str, Array]
    rows: Mapping[str, I32]


@dataclass(eq=False)
class Tap:
    """A tap of one caller, and the rows that it has got. ``looked``: values by name whose rows are
    kept; ``functions`` by the name of the value that each is called for."""

    looked: Mapping[str, Value]
    functions: Mapping[str, Sequence[TapFunction]]
    steps: list[_Step] = field(default_factory=list)
    numbers: weakref.WeakKeyDictionary[Request, int] = field(
        default_factory=weakref.WeakKeyDictionary)
    n_requests: int = 0

    def clear(self) -> None:
        """Forget the rows, and count requests from 0 again."""
        self.steps = []
        self.numbers = weakref.WeakKeyDictionary()
        self.n_requests = 0

    def number(self, request: Request) -> int:
        """The number of ``request``, a new one where it is seen for the first time."""
        found = self.numbers.get(request)
        if found is None:
            found = self.numbers[request] = self.n_requests
            self.n_requests += 1
        return found

    def facts(self, work: Sequence[Work], batch: Batch) -> I32:
        """Request, position and token of each of the step's tokens: int32 [3, n_tokens]."""
        n = batch.n_tokens
        of_work = np.array([self.number(item.request) for item in work], np.int32)
        return np.stack([of_work[batch.seq_of[:n]], batch.index[:n], batch.tokens[:n]])

    def rows(self, name: str | None) -> TapRows:
        """All rows of the value ``name`` of :attr:`looked`; None: those of all tokens, without
        values."""
        steps = list(self.steps)
        symbol = "T" if name is None else str(self.looked[name].shape[0])
        empty = np.empty((3, 0), np.int32)
        requests, positions, tokens = np.concatenate(
            [empty, *(s.rows[symbol] for s in steps)], axis=1)
        # Where a token has several rows, the one that was computed first comes first and is kept.
        order = np.lexsort((np.arange(len(requests)), positions, requests))
        is_new = np.ones(len(order), bool)
        is_new[1:] = ((np.diff(requests[order]) != 0) | (np.diff(positions[order]) != 0))
        order = order[is_new]
        if name is None:
            values: Array = np.empty((len(order), 0), np.float32)
        else:
            value = self.looked[name]
            nothing = np.empty((0, *map(int, value.shape[1:])), value.numpy)
            values = np.concatenate([nothing, *(s.values[name] for s in steps)])[order]
        return TapRows(values, requests[order], positions[order], tokens[order])


class Watch:
    """All taps of an engine, oldest first. :attr:`sees_rows`: some taps call functions, which must
    see no row of a guessed token that turns out wrong."""

    def __init__(self) -> None:
        self.taps: tuple[Tap, ...] = ()
        self._work: Sequence[Work] = ()

    @property
    def looked(self) -> list[str]:
        """The names of all values whose rows are kept."""
        return list(dict.fromkeys(name for tap in self.taps for name in tap.looked))

    @property
    def changed(self) -> list[str]:
        """The names of all values for which functions are called."""
        return list(dict.fromkeys(name for tap in self.taps for name in tap.functions))

    @property
    def sees_rows(self) -> bool:
        """Whether some taps call functions."""
        return any(tap.functions for tap in self.taps)

    def meet(self, requests: Iterable[Request]) -> None:
        """Number ``requests`` in their order, whichever of them is computed first."""
        for request in requests:
            for tap in self.taps:
                tap.number(request)

    def start(self, plan: Plan, work: Sequence[Work], op: str) -> Flight:
        """Start a step by :meth:`Flight.start`. If a function of a tap fails, all requests in
        ``work`` end with its error, and this raises :class:`Cancelled`: the step isn't computed."""
        self._work = work
        try:
            return Flight.start(plan, work, op)
        except TapError as error:
            for item in work:
                item.request.fail(error)
            raise Cancelled("a function that taps a value failed") from error

    def change(self, value: Value, array: Array, batch: Batch) -> Array | None:
        """The replacement of ``array``; None: it stays. Raises :class:`TapError`."""
        changed: Array | None = None
        for tap in self.taps:
            functions = tap.functions.get(value.name, ()) if len(array) else ()
            for function in functions:
                given = (array if changed is None else changed).copy()
                given.flags.writeable = False
                result = _call(function, given, self._info(tap, value, batch))
                changed = changed if result is None else result
        return changed

    def _info(self, tap: Tap, value: Value, batch: Batch) -> TapInfo:
        facts = tap.facts(self._work, batch)
        if value.shape[0] == "S":
            facts = facts[:, batch.out_rows[:batch.n_outputs]]
        return TapInfo(value.name, *facts)

    def record(self, work: Sequence[Work], batch: Batch, output: Callable[[str], Array]) -> None:
        """Keep the rows of a step that was computed and whose tokens are chosen. ``output`` reads
        an output of the plan."""
        kept = np.zeros(batch.n_tokens, bool)
        for i, item in enumerate(work):
            first, running = batch.q_start[i], item.running
            n = (item.n_tokens - len(item.draft) if running.has_left
                 else running.cached.length - int(batch.index[first]))
            kept[first:first + n] = True
        out = batch.out_rows[:batch.n_outputs]
        which = {"T": np.flatnonzero(kept), "S": np.flatnonzero(kept[out])}
        arrays = {name: output(PREFIX + name) for name in self.looked}
        for tap in self.taps:
            facts = tap.facts(work, batch)
            tap.steps.append(_Step(
                {name: arrays[name][which[str(value.shape[0])]]
                 for name, value in tap.looked.items()},
                {"T": facts[:, which["T"]], "S": facts[:, out[which["S"]]]}))
        self._work = ()  # keeps no request in memory


def _call(function: TapFunction, given: Array, info: TapInfo) -> Array | None:
    try:
        result: object = function(given, info)
    except Exception as error:
        raise TapError(f"the function that taps {info.node} raised {type(error).__name__}: {error}",
                       node=info.node, hint="the traceback above shows where") from error
    if result is None:
        return None
    if not isinstance(result, np.ndarray):
        what = f"returned {type(result).__name__}, not an array"
    elif result.shape != given.shape:
        what = f"returned an array of shape {list(result.shape)}, not {list(given.shape)}"
    elif result.dtype != given.dtype:
        what = f"returned an array of {result.dtype}, not {given.dtype}"
    elif not np.isfinite(result).all():
        what = "returned NaN or infinity"
    else:
        return result
    raise TapError(f"the function that taps {info.node} {what}", node=info.node,
                   hint="return None to leave the values, or float32 numbers in their shape")
