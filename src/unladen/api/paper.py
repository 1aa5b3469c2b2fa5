"""What a model would take, before anything is allocated."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from unladen.api.model import Model
from unladen.errors import InvalidArgument
from unladen.parameters.kinds import Text, flag
from unladen.parameters.model import NO_FILE
from unladen.types import MAIN

if TYPE_CHECKING:
    from unladen.assembly.ladder import Wishes
    from unladen.parameters.model import ModelNames
    from unladen.schedule.show.report import PlanReport


_PRETEND = Text("devices like \"2x24GB\"", filled=True)


class OnPaper(Model):
    """A model of which there is a plan and no more."""

    report: PlanReport
    _reads_weights = False

    def _open(self, wishes: Wishes, on_oom: Sequence[str]) -> None:
        from unladen.assembly.planner import Planner
        from unladen.assembly.sources import Sources
        from unladen.models import load_architecture
        from unladen.schedule.show.report import PlanReport
        self.architecture = load_architecture(self._file)
        on_paper = replace(wishes, options=replace(wishes.options, probe=False))
        sources = Sources(self._file)
        blueprint, context = Planner(sources, {MAIN: self.architecture}, on_paper,
                                     on_oom).blueprint()
        self.report = PlanReport.of(
            blueprint, Path(self.path).name, context,
            files={key: Path(path).name for key, path in sources.paths.items()})


def plan(path: str | os.PathLike[str] = NO_FILE, *, pretend: str | None = None,
         **parameters: Unpack[ModelNames]) -> PlanReport:
    """What :class:`Model` would do with ``path`` and ``parameters``, before anything is allocated.

    ``pretend``: devices that aren't there, beside the CPU, as
    :func:`~unladen.schedule.show.pretend.pretended` takes them. Raises what :class:`Model` does,
    but for :class:`OutOfMemory`: the report says by how much a device is too small.
    """
    if pretend is not None:
        from unladen.schedule.show.pretend import pretended
        if parameters.get("devices") is not None:
            raise InvalidArgument("both devices and pretended ones are given", hint="use one")
        parameters["devices"] = [*pretended(_PRETEND.of("pretend", pretend)), "cpu"]
    if flag("vocab_only", parameters.get("vocab_only", False)):
        raise InvalidArgument("vocab_only leaves nothing to plan", hint="leave it out")
    model = OnPaper(path, **parameters)
    model.close()
    return model.report
