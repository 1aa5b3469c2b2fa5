"""Plans models on paper, with headers that are kept between questions."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from unladen.api.paper import Paper
from unladen.api.remote import remote_paper
from unladen.errors import ModelNotFound
from unladen.hub import INCLUDED, resolve_model
from unladen.hub.browse import hub_ref

if TYPE_CHECKING:
    from unladen.api import PlanReport

MOST_PAPERS: Final = 8
"""Headers that are kept: as many as a person compares. A vocabulary may have some megabytes."""


class Papers:
    """Headers of models, the one that was used last at the end. Threads take turns."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._kept: dict[str, tuple[tuple[int, int], Paper]] = {}

    def plan(self, ref: str, options: Mapping[str, Any], taken: Mapping[str, int],
             devices: Sequence[str] = ()) -> PlanReport:
        """The report on a plan for ``ref``: a path, a model of a store, or one on the hub, of which
        the header alone is read. For the others see :meth:`~unladen.api.paper.Paper.plan`, which
        raises the errors."""
        try:
            path = str(resolve_model(ref, aliases=INCLUDED, offline=True))
        except ModelNotFound:
            if "/" not in ref or os.path.isabs(ref):
                raise
            return self._plan_remote(ref, options, taken, devices)
        with self._turn:
            return self._paper(path).plan(options, taken, devices)

    def _plan_remote(self, ref: str, options: Mapping[str, Any], taken: Mapping[str, int],
                     devices: Sequence[str]) -> PlanReport:
        with self._turn:
            known = self._kept.get(ref)
        if known is None:  # other plans go on while the network is slow
            known = (0, 0), remote_paper(hub_ref(ref))
        with self._turn:
            self._keep(ref, known)
            return known[1].plan(options, taken, devices)

    def _paper(self, path: str) -> Paper:
        status = os.stat(path)
        stamp = status.st_mtime_ns, status.st_size
        known = self._kept.pop(path, None)
        if known is not None and known[0] != stamp:
            known[1].close()
            known = None
        if known is None:
            known = stamp, Paper(path)
        self._keep(path, known)
        return known[1]

    def _keep(self, name: str, known: tuple[tuple[int, int], Paper]) -> None:
        before = self._kept.pop(name, known)
        if before is not known:
            before[1].close()
        self._kept[name] = known
        while len(self._kept) > MOST_PAPERS:
            self._kept.pop(next(iter(self._kept)))[1].close()


def summary(report: PlanReport) -> dict[str, Any]:
    """What a list of models shows of ``report``."""
    main, left = report.blueprint.main, report.left.values()
    facts = report.facts()
    speeds = {name: facts[name]["tokens_per_second"] for name in ("decode", "prefill")}
    return {"fits": report.fits(), "gpu_layers": main.n_offloaded(), "n_layers": len(main.layers),
            "decode_tps": speeds["decode"], "prefill_tps": speeds["prefill"],
            "bound": report.decode.bound, "context_size": report.context_size,
            "bytes": sum(m.mapped_bytes + m.needed_bytes for m in report.devices),
            "short_bytes": max(0, -min(left, default=0))}
