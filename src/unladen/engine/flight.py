"""A step that a device computes, and which of its results will be read.

Where every request of a step takes the most likely token, the device chooses it, and the next step
can take it from there: the engine starts that step before it reads the first one's tokens, so the
device never waits for the host. A request may turn out to have ended with the token that was not
read yet. Then the step after it was in vain for that request: its row is not counted, and what it
wrote into the cache lies beyond what the request's sequence holds, where the next owner of the
block writes before it reads.
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

_WHOLE = {"logits", "embeddings"}  # a graph has one of them


@dataclass(frozen=True, slots=True)
class Flight:
    """``work`` that was started. ``op`` of ``NARROWING`` chooses among the logits, "": none."""

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
        names = NARROWING[op] if op else _WHOLE & plan.blueprint.graph.outputs.keys()
        return cls(work, op, lambda: [plan.output(name) for name in names])

    def results(self) -> Results:
        """The outputs that ``op`` makes, or the logits: waits for the device."""
        return self._results()

    def leads_on(self, context_size: int) -> bool:
        """Whether the next step is sure to be one token of each of these requests, whatever their
        tokens are."""
        return self.op == "argmax" and all(
            w.n_outputs == 1 and w.request.goes_on(context_size) for w in self.work)


def narrowest(work: Sequence[Work], n_best: Mapping[str, int]) -> str:
    """The op that leaves the fewest candidates that all of ``work`` can do with; "" where whole
    logits are wanted. ``n_best``: how many candidates each op of the device leaves."""
    if not n_best:
        return ""
    requests = [w.request for w in work if w.n_outputs]
    wanted = [r.n_best for r in requests if r.n_best is not None]
    if not requests or len(wanted) < len(requests):
        return ""
    if "argmax" in n_best and all(r.is_greedy for r in requests):
        return "argmax"
    return "top_k" if max(wanted) <= n_best.get("top_k", 0) else ""
