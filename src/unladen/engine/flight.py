"""A step that a device computes, and which of its results will be read.

Where every request of a step takes the most likely token, the device chooses it, and the next step
reads it on the device. The engine starts that next step before it reads the tokens of the first
one, so the device never waits for the host.

A token that wasn't read yet may turn out to end its request. Then the next step computed a row for
this request in vain. The engine ignores that row. The row's keys and values lie behind the end of
the request's sequence, where the next owner of the block writes before it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from unladen.engine.batcher import Work
from unladen.runtime.plan import Plan
from unladen.schedule.cut.choose_on_device import NARROWING

Results = Sequence[npt.NDArray[Any]]

_WHOLE_ROWS = {"logits", "embeddings"}
"""The outputs that a step reads whole where no op chooses among them; a graph has one of them."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A step that was started, with its ``work``. ``op``: the op of ``NARROWING`` that chooses
    among the logits; "": they are read whole."""

    work: Sequence[Work]
    op: str
    _results: Callable[[], Results]

    @classmethod
    def start(cls, plan: Plan, work: Sequence[Work], op: str) -> Flight:
        """Run the step in the plan's batch; raises what :meth:`Plan.run` does."""
        plan.run()
        if op and plan.runs_ahead:
            waits = [plan.fetch(name) for name in NARROWING[op]]
            return cls(work, op, lambda: [wait() for wait in waits])
        names = NARROWING[op] if op else _WHOLE_ROWS & plan.blueprint.graph.outputs.keys()
        return cls(work, op, lambda: [plan.output(name) for name in names])

    def results(self) -> Results:
        """The outputs of ``op``, or the whole logits. Waits for the device."""
        return self._results()

    def leads_on(self, context_size: int) -> bool:
        """Whether the next step computes one more token of each of these requests, unless a token
        ends its text."""
        return self.op == "argmax" and all(
            w.n_outputs == 1 and w.request.goes_on(context_size) for w in self.work)


def narrowest(work: Sequence[Work], n_best: Mapping[str, int]) -> str:
    """The op that leaves the fewest candidates, if these suffice for all of ``work``; "" where
    whole logits are needed. ``n_best``: how many candidates each op of the device leaves."""
    if not n_best:
        return ""
    requests = [w.request for w in work if w.n_outputs]
    wanted = [r.n_best for r in requests if r.n_best is not None]
    if not requests or len(wanted) < len(requests):
        return ""
    if "argmax" in n_best and all(r.is_greedy for r in requests):
        return "argmax"
    return "top_k" if max(wanted) <= n_best.get("top_k", 0) else ""
