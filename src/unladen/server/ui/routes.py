"""The routes of ``/ui/api``."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from unladen.errors import InvalidArgument
from unladen.parameters.model import MODEL, PLACE
from unladen.server.endpoint import Dialect, Endpoint, Exchange
from unladen.server.faults import Fault
from unladen.server.streaming import SSE, Streamed, whole
from unladen.server.ui.bodies import (
    ActionBody,
    DownloadBody,
    FitBody,
    Nothing,
    PlanBody,
    WithOptions,
)
from unladen.server.ui.describing import model_state, problem
from unladen.server.ui.feed import Told
from unladen.server.ui.page import error
from unladen.server.ui.service import UiService
from unladen.server.ui.shapes import Accepted, Downloads, HubFiles, ModelDetail

log = logging.getLogger("unladen.server")

NAME: Final = "ui"
"""The name of these routes' dialect."""
API: Final = "/ui/api"
"""Where the routes begin."""
MANAGED: Final = frozenset({"log", "download"})
"""Events for keys that may manage."""
NOT_FOR_PAGES: Final = frozenset({"tokenizer", "packed_cache", "progress", "vocab_only",
                                  "max_queue"})
"""Parameters of a model that a page can't set: files of the server, and what isn't JSON."""
MOST_SECONDS: Final = 3600.0
"""Seconds of samples that are kept."""
UNSTABLE: Final = "unstable, for the page of the same version: "
"""Begins the summary of each route."""


def dialect(ui: UiService) -> Dialect:
    """The routes over ``ui`` as a dialect."""
    routes = _Routes(ui)
    model = f"{API}/models/{{id:path}}"
    return Dialect(NAME, [
        _endpoint("GET", f"{API}/state", routes.state, "the state of the server and its models"),
        _endpoint("GET", f"{API}/events", routes.events, "changes as they happen", media=(SSE,)),
        _endpoint("GET", f"{API}/library", routes.library, "the models on this machine"),
        _endpoint("GET", f"{API}/hub", routes.search, "repositories on the hub", scope="manage"),
        _endpoint("GET", f"{API}/hub/{{repo:path}}", routes.repository,
                  "the models of a repository on the hub", scope="manage"),
        _endpoint("GET", f"{API}/downloads", routes.downloads, "the downloads", scope="manage"),
        _endpoint("POST", f"{API}/downloads", routes.download, "begin a download",
                  body=DownloadBody, scope="manage", status=202),
        _endpoint("PATCH", f"{API}/downloads/{{id}}", routes.change_download,
                  "pause a download, or go on with it", body=ActionBody, scope="manage"),
        _endpoint("DELETE", f"{API}/downloads/{{id}}", routes.delete_download,
                  "forget a download, and its bytes where it isn't done", scope="manage"),
        _endpoint("POST", f"{API}/plan", routes.plan, "what would run where, with these options",
                  body=PlanBody, scope="manage"),
        _endpoint("POST", f"{API}/fit", routes.fit, "which models fit, and how fast they would be",
                  body=FitBody, scope="manage"),
        _endpoint("GET", f"{API}/metrics", routes.metrics, "samples of the last seconds"),
        _endpoint("GET", f"{API}/log", routes.lines, "the last lines of the log", scope="manage"),
        _endpoint("POST", f"{model}/load", routes.load, "begin to load a model", body=WithOptions,
                  scope="manage", status=202),
        _endpoint("POST", f"{model}/unload", routes.unload, "begin to unload a model",
                  body=Nothing, scope="manage", status=202),
        _endpoint("POST", f"{model}/place", routes.place,
                  "begin to move a loaded model; its answers pause and go on", body=WithOptions,
                  scope="manage", status=202),
        _endpoint("GET", model, routes.detail, "a model and its plan as it is in memory"),
    ], (f"{API}/", "/ui/"), error)


def _endpoint(method: str, path: str, handler: Any, summary: str, **more: Any) -> Endpoint:
    return Endpoint(method, path, handler, UNSTABLE + summary, **more)


class _Routes:
    """The handlers over ``ui``."""

    def __init__(self, ui: UiService) -> None:
        self._ui = ui

    async def state(self, exchange: Exchange) -> Response:
        """The whole state."""
        return JSONResponse(self._ui.state(can_manage=_can_manage(exchange)))

    async def events(self, exchange: Exchange) -> Response:
        """Events until the page leaves: first the whole state, then those after ``?after=``."""
        after = _number(exchange, "after", None)
        can_manage = _can_manage(exchange)
        return Streamed(self._events(after, can_manage), contextlib.AsyncExitStack(),
                        failed=self._failed, heartbeat=lambda: b": \n\n",
                        interval=exchange.state.settings.heartbeat_s)

    async def _events(self, after: int | None, can_manage: bool) -> AsyncGenerator[bytes, None]:
        feed = self._ui.feed
        yield Told(feed.last, "state", self._ui.state(can_manage=can_manage)).line()
        async for told in feed.events(after):
            if can_manage or told.name not in MANAGED:
                yield (Told(told.n, told.name, {**told.data, "can_manage": can_manage})
                       if told.name == "state" else told).line()

    def _failed(self, fault: Fault) -> bytes:
        return Told(self._ui.feed.last, "error", problem(fault)).line()

    async def library(self, exchange: Exchange) -> Response:
        """The models on this machine."""
        return JSONResponse(await whole(exchange.request, self._ui.library()))

    async def plan(self, exchange: Exchange) -> Response:
        """What a model's plan would be."""
        body: PlanBody = exchange.body
        options = _options(body, is_move=False)

        async def facts() -> dict[str, Any]:
            return await self._ui.planning.plan(body.ref, options, await self._ui.device_names())
        return JSONResponse(await whole(exchange.request, facts()))

    async def fit(self, exchange: Exchange) -> Response:
        """Which models fit."""
        return JSONResponse(await whole(exchange.request,
                                        self._ui.planning.fit(exchange.body.refs)))

    async def search(self, exchange: Exchange) -> Response:
        """Repositories on the hub that ``?q=`` finds, from ``?cursor=`` on."""
        query = exchange.request.query_params
        return JSONResponse(await whole(exchange.request, self._ui.desk.ask(
            "search", query.get("q", ""), query.get("cursor", ""))))

    async def repository(self, exchange: Exchange) -> Response:
        """The models of a repository on the hub."""
        repo = exchange.request.path_params["repo"]
        files = await whole(exchange.request, self._ui.desk.ask("repository", repo))
        return JSONResponse(HubFiles(repo=repo, files=files))

    async def downloads(self, exchange: Exchange) -> Response:
        """All downloads."""
        return JSONResponse(Downloads(downloads=self._ui.downloads.shown()))

    async def download(self, exchange: Exchange) -> Response:
        """Begin a download."""
        return JSONResponse(self._ui.downloads.add(exchange.body.ref), 202)

    async def change_download(self, exchange: Exchange) -> Response:
        """Pause a download, or go on with it."""
        change = (self._ui.downloads.pause if exchange.body.action == "pause" else
                  self._ui.downloads.resume)
        return JSONResponse(change(_id(exchange)))

    async def delete_download(self, exchange: Exchange) -> Response:
        """Forget a download."""
        await self._ui.downloads.delete(_id(exchange))
        return JSONResponse({})

    async def metrics(self, exchange: Exchange) -> Response:
        """Samples as columns."""
        seconds = _number(exchange, "seconds", 600)
        assert seconds is not None
        return JSONResponse(self._ui.samples.columns(min(float(seconds), MOST_SECONDS)))

    async def lines(self, exchange: Exchange) -> Response:
        """Lines of the log."""
        return JSONResponse(self._ui.log.after(_number(exchange, "after", 0) or 0))

    async def detail(self, exchange: Exchange) -> Response:
        """A model with its plan."""
        card = await exchange.core.card(_id(exchange))
        return JSONResponse(ModelDetail(model=model_state(card),
                                        plan=dict(card.plan) if card.plan else None))

    async def load(self, exchange: Exchange) -> Response:
        """Begin to load a model."""
        options = _options(exchange.body, is_move=False)
        card = await exchange.core.begin(_id(exchange), exchange.wish(options=options))
        return _accepted(card.name, card.state)

    async def unload(self, exchange: Exchange) -> Response:
        """Begin to unload a model."""
        card = _known(exchange)
        self._go_on(exchange.core.unload(card), f"{card} can't be unloaded")
        return _accepted(card, "unloading")

    async def place(self, exchange: Exchange) -> Response:
        """Begin to move a model."""
        options, card = _options(exchange.body, is_move=True), _known(exchange)
        state = next(each.state for each in exchange.core.cards() if each.name == card)
        if state != "ready":
            raise Fault("bad_request", f"{card!r} can't be moved: it is {state}",
                        hint="move a model that is loaded, one move at a time")
        self._go_on(exchange.core.place(card, options), f"{card} stays where it is")
        return _accepted(card, "moving")

    def _go_on(self, work: Coroutine[Any, Any, Any], what: str) -> None:
        """Do ``work`` after the answer. The model's card tells how it ended."""
        async def run() -> None:
            try:
                await work
            except Fault as fault:
                log.info("%s: %s", what, fault)
            except Exception as wrong:
                log.error("%s", what, exc_info=wrong)
        self._ui.keep(asyncio.ensure_future(run()))


def _accepted(name: str, state: str) -> Response:
    return JSONResponse(Accepted(id=name, state=state), 202)


def _can_manage(exchange: Exchange) -> bool:
    return "manage" in exchange.caller.scopes


def _id(exchange: Exchange) -> str:
    name: str = exchange.request.path_params["id"]
    return name


def _known(exchange: Exchange) -> str:
    """The name of the model that the path names. Raises a ``Fault`` where no card has it."""
    wanted = _id(exchange)
    cards = exchange.core.cards()
    for card in cards:
        if wanted in (card.name, *card.aliases):
            return card.name
    raise Fault("unknown_model", f"there is no model {wanted[:200]!r}",
                hint=f"there are {', '.join(card.name for card in cards) or 'none'}")


def _options(body: WithOptions, *, is_move: bool) -> dict[str, Any]:
    """The options of ``body``, checked. Raises a ``Fault``."""
    for name in body.options:
        if name in NOT_FOR_PAGES:
            raise Fault("bad_request", f"a page can't set {name}", param=f"options.{name}",
                        hint="set it at the server: unladen serve --config FILE")
    try:
        taken: dict[str, Any] = (PLACE if is_move else MODEL).taken(body.options)
    except InvalidArgument as wrong:
        raise Fault("bad_request", wrong.message, hint=wrong.hint, param="options") from None
    return taken


def _number(exchange: Exchange, name: str, default: int | None) -> int | None:
    """The whole number in the query's ``name``."""
    text = exchange.request.query_params.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 2**53:
        raise Fault("bad_request", f"{name} must be a number from 0 on, got {text[:100]!r}",
                    param=name, hint=f"for example {name}=10")
    return int(value)
