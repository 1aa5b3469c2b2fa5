"""Has the stores changed in a process of its own, so that the server loads nothing for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from unladen.server.faults import Fault
from unladen.server.ipc import Message
from unladen.server.supervisor.process import Worker


async def changed(what: str, given: Mapping[str, Any], told: Callable[[float, float], None]
                  ) -> None:
    """Do ``what`` with ``given``; see :mod:`unladen.server.worker.changing`. ``told`` gets the
    bytes of a download that have come, and all of them. Raises the ``Fault`` that says why it
    can't be done. A caller that is cancelled ends it."""
    ended: asyncio.Future[Fault | None] = asyncio.get_running_loop().create_future()

    def handle(message: Message) -> None:
        kind, *content = message
        if kind == "bytes":
            told(*content)
        elif kind in ("done", "failed") and not ended.done():
            ended.set_result(Fault.unpack(content[0]) if kind == "failed" else None)

    worker = await Worker.start(["change", what, dict(given)], handle)
    try:
        await asyncio.wait((ended, worker.gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        worker.kill("nobody needs it any more")
        await worker.gone
    if not ended.done():
        raise Fault("internal", f"the process that should {what} a model ended",
                    hint="the server's log may say why")
    fault = ended.result()
    if fault is not None:
        raise fault
