"""What the page's routes need beside the models, for as long as the server lives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import time
from pathlib import PurePath
from types import TracebackType
from typing import Any, Final

from unladen import __version__
from unladen.hub import INCLUDED
from unladen.server.core import Core
from unladen.server.faults import Fault
from unladen.server.settings import Settings
from unladen.server.ui.describing import model_state
from unladen.server.ui.desk import Desk
from unladen.server.ui.downloads import DownloadQueue
from unladen.server.ui.feed import Feed
from unladen.server.ui.lines import LogLines
from unladen.server.ui.planning import Planning
from unladen.server.ui.remembering import DownloadFile, usual_folder
from unladen.server.ui.samples import Samples
from unladen.server.ui.shapes import DeviceState, Line, ServerState, StoredFile

log = logging.getLogger("unladen.server")

LOOK_SECONDS: Final = 0.2
"""Seconds between two looks for changes of the models while a page listens."""
SAMPLE_SECONDS: Final = 1.0
"""Seconds between two samples."""
DEVICES_SECONDS: Final = 10.0
"""Seconds after which the devices' free bytes are asked for again while a page listens."""


class UiService:
    """The events, samples and lines of a server with the models of ``core``. Use it in an ``async
    with``: outside of it nothing happens by itself, and the routes answer all the same."""

    def __init__(self, core: Core, settings: Settings) -> None:
        self._core, self.settings = core, settings
        self.run = secrets.token_hex(8)
        self.feed, self.samples, self.desk = Feed(), Samples(), Desk()
        self.log = LogLines(self._line)
        self.downloads = DownloadQueue(
            lambda shown, keep: self.feed.tell("download", shown, keep=keep),
            lambda: self.feed.tell("library", {}, keep=True), DownloadFile(usual_folder()))
        self.planning = Planning(core, settings, self.desk)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._devices: list[DeviceState] = []
        self._asked_devices = 0.0
        self._unknown = ""
        """Why the devices aren't known."""
        self._shown: Any = None

    async def __aenter__(self) -> UiService:
        self._loop = asyncio.get_running_loop()
        self.log.begin()
        self.downloads.begin()
        self.keep(asyncio.ensure_future(self._watch()))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        self.log.end()
        self._loop = None
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.downloads.close()
        await self.desk.close()

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Let ``task`` run to its end, though nobody waits for it. At the server's end it is
        cancelled."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # What is known

    def state(self, *, can_manage: bool) -> ServerState:
        """The whole state, for a page whose key ``can_manage``."""
        return ServerState(
            version=__version__, run=self.run, offline=is_offline(),
            allow_any=self.settings.allow_any, can_manage=can_manage,
            models=[model_state(card) for card in self._core.cards()], devices=self._devices)

    async def devices(self) -> list[DeviceState]:
        """The devices with the bytes that are free now."""
        names: dict[str, None] = {}
        for card in self._core.cards():
            named = card.options.get("devices") or ()
            names.update(dict.fromkeys(each for each in named if isinstance(each, str)))
        self._asked_devices = time.monotonic()
        self._devices = await self.desk.ask("devices", list(names))
        return self._devices

    async def device_names(self) -> list[str]:
        """The names of the devices."""
        return [each["name"] for each in self._devices or await self.devices()]

    async def library(self) -> list[StoredFile]:
        """Every model on this machine."""
        cards = self._core.cards()
        own = {own.name: own.ref for own in self.settings.models}
        paths = {card.name: card.path or own.get(card.name, "") for card in cards}
        for name, path_of in INCLUDED.items():
            paths.setdefault(name, str(path_of))
        included = {os.path.realpath(each) for each in INCLUDED.values()}
        named = {name: str(INCLUDED.get(path, path)) for name, path in paths.items()}
        files = [path for path in dict.fromkeys(named.values()) if os.path.isfile(path)]
        found = await self.desk.ask("library", files)
        ids = {os.path.realpath(path): card.name for card in cards
               if (path := named.get(card.name))}
        names = {os.path.realpath(path): name for name, path in named.items()}
        shown: dict[tuple[str, str], StoredFile] = {}
        seen = {each["place"] for each in found if each["store"] != "file"}
        for each in found:
            place = str(each["place"])
            if each["store"] == "file" and place in seen:
                continue  # a store has it
            ref = str(each["ref"] or names[place])
            shown.setdefault((place, ref), StoredFile(
                ref=ref, path_label=PurePath(each["path"]).name,
                store="unladen" if place in included else each["store"], bytes=each["bytes"],
                arch=each["arch"], quant=each["quant"], parameters=each["parameters"],
                context=each["context"], parts_missing=each["parts_missing"],
                problem=each["problem"], model=ids.get(place)))
        return list(shown.values())

    # What happens

    async def _watch(self) -> None:
        """Tell of changes, and take a sample each second."""
        sampled = time.monotonic()
        while True:
            await asyncio.sleep(LOOK_SECONDS if self.feed.is_heard else SAMPLE_SECONDS)
            if self.feed.is_heard:
                self._tell_changes()
            if time.monotonic() - sampled >= SAMPLE_SECONDS:
                sampled = time.monotonic()
                self.feed.tell("metrics", self.samples.take(self._core.cards()))

    def _tell_changes(self) -> None:
        now = self.state(can_manage=True)
        arrivals = [(each["id"], each["arrived"], each["state"]) for each in now["models"]]
        if self._shown is None or self._shown[0] != arrivals or (
                time.monotonic() - self._asked_devices > DEVICES_SECONDS):
            self._asked_devices = time.monotonic()
            self.keep(asyncio.ensure_future(self._ask_devices()))
        if self._shown != (arrivals, now):
            self._shown = (arrivals, now)
            self.feed.tell("state", now)

    async def _ask_devices(self) -> None:
        try:
            await self.devices()
        except Fault as fault:
            if fault.message != self._unknown:  # it is asked again and again
                log.warning("the page shows no devices: %s", fault)
            self._unknown = fault.message
        else:
            self._unknown = ""

    def _line(self, line: Line) -> None:
        """Pass on a line of the log, from whatever thread."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(self._tell_line, line)

    def _tell_line(self, line: Line) -> None:
        self.feed.tell("log", line, keep=True)


def is_offline() -> bool:
    """Whether the environment says that the hub must not be asked."""
    return any(os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")
               for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
