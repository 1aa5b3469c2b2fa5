"""Begins work on a model for a caller that runs the engine's steps itself, such as the server.

Nothing here waits for a step. The caller looks at the requests after each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unladen.api.prompts import check_tokens, ids_of
from unladen.errors import InvalidArgument

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from unladen.api.answering import Answering
    from unladen.api.model import Model
    from unladen.api.paper import OnPaper
    from unladen.api.together import Together
    from unladen.chat.prompt import Prompt
    from unladen.engine import Request
    from unladen.hub.preset import Preset
    from unladen.schedule.blueprint import Blueprint
    from unladen.schedule.fit import DeviceMemory
    from unladen.schedule.show.report import PlanReport
    from unladen.types import TokenLogprob

    Rows = npt.NDArray[np.float32]

GAP = ("fim_pre", "fim_suf", "fim_mid")
"""Special tokens before the text before a gap, before the text after it, and before what fills
it."""


def begin_chat(model: Model, messages: Sequence[Any], parameters: Mapping[str, Any], *,
               tools: Sequence[Any] = (), tool_choice: str = "auto", parallel: bool = True,
               n: int = 1) -> list[Answering]:
    """``n`` answers to ``messages``, submitted.

    * ``parameters``: those of :meth:`unladen.Model.chat` by name.
    * ``tools``, ``tool_choice``: as in :meth:`unladen.Model.chat`.
    * ``parallel``: whether an answer may have several calls.

    Raises what :meth:`unladen.Model.chat` raises before it waits.
    """
    return model._answerings("chat", messages, list(tools) or None, tool_choice, n, None,
                             parameters, parallel=parallel)


def chat_prompt(model: Model, messages: Sequence[Any], parameters: Mapping[str, Any], *,
                tools: Sequence[Any] = (), tool_choice: str = "auto") -> Prompt:
    """The prompt that :func:`begin_chat` would begin with, however long it is. Raises
    :class:`InvalidArgument` and :class:`TemplateError`."""
    return model._prompt(messages, list(tools) or None, tool_choice, parameters)


def begin_text(model: Model, ids: Sequence[int], parameters: Mapping[str, Any], *, n: int = 1
               ) -> list[Request]:
    """``n`` continuations of the token ids ``ids``, submitted. ``parameters``: those of
    :meth:`unladen.Model.generate` by name. Raises what that raises before it waits."""
    requests: list[Request] = []
    wanted = dict(parameters)
    seed = wanted.get("seed", model.sampling_defaults.get("seed"))
    try:
        for i in range(n):
            if isinstance(seed, int) and seed >= 0:
                wanted["seed"] = seed + i
            wish = model._wish("generate", None, (), None, None, wanted)
            requests.append(model._submitted(wish, ids))
    except BaseException:
        for request in requests:
            model.engine.cancel(request)
        raise
    return requests


def text_ids(model: Model, prompt: str | Sequence[int], suffix: str | None = None) -> list[int]:
    """The token ids of ``prompt``, a text or token ids. ``suffix``: the text after a gap that the
    model is to fill. Raises :class:`InvalidArgument`, also where the file names no tokens for
    gaps."""
    if suffix is None:
        ids = ids_of("prompt", prompt, model.tokenizer)
        check_tokens("prompt", ids)
        return ids
    tokenizer, marks = model.tokenizer, fill_marks(model)
    if not isinstance(prompt, str):
        before = ids_of("prompt", prompt, tokenizer)
    else:
        before = tokenizer.encode(prompt, add_special=False, special=False, continues=True)
    after = tokenizer.encode(suffix, add_special=False, special=False, continues=True)
    begin = [tokenizer.bos_id] if tokenizer.add_bos and tokenizer.bos_id is not None else []
    return [*begin, marks[0], *before, marks[1], *after, marks[2]]


def fill_marks(model: Model) -> tuple[int, int, int]:
    """The ids of :data:`GAP`. Raises :class:`InvalidArgument` where the file lacks one."""
    known = model.tokenizer.token_ids
    found = [known.get(name) for name in GAP]
    if None in found:
        raise InvalidArgument("suffix can't be used: the model has no tokens for a gap in a text",
                              hint="use a model that was trained to fill in code")
    pre, suf, mid = (int(each) for each in found if each is not None)
    return pre, suf, mid


def begin_logits(model: Model, ids: Sequence[int]) -> Request:
    """A submitted request for the logits of every token in ``ids``: they are float32 [n, n_vocab]
    in its ``logits``, in parts."""
    request = model._all_logits(ids)
    model.engine.submit(request)
    return request


def embedding(model: Model, inputs: Sequence[str | Sequence[int]],
              take: Callable[[Rows], Rows] = lambda row: row) -> tuple[Together[Rows], list[int]]:
    """What computes the embeddings of ``inputs``, each float32 [n_embd] of length 1 and then what
    ``take`` makes of it; and the tokens of each input. Call ``refill`` and ``collect`` around
    steps, and ``stop`` in any case. Raises :class:`InvalidArgument` for a model that isn't an
    encoder."""
    from unladen.engine.pooling import chosen, pooled
    if "embeddings" not in model.engine.plan.blueprint.graph.outputs:
        raise InvalidArgument("the model makes no embeddings: it isn't an encoder",
                              hint="use a model for embeddings")
    kind = chosen(None, model.architecture.hparams.int("pooling_type", 0))
    if kind == "none":
        kind = "mean"
    ids = model._all_ids("inputs", inputs)
    together = model._rows_together(
        "inputs", ids, lambda rows: take(pooled(rows, kind, normalize=True)))
    return together, [len(each) for each in ids]


def ranking(model: Model, query: str, documents: Sequence[str]
            ) -> tuple[Together[Any], Callable[[list[Any]], list[float]], int]:
    """What computes how well ``documents`` answer ``query``, how the scores follow from its
    results, and the tokens that it reads. Call ``refill`` and ``collect`` around steps, and
    ``stop`` in any case. Raises what :meth:`unladen.Model.rank` raises before it waits."""
    return model._ranking(query, documents)


def prompt_logprobs(request: Request, n_top: int) -> list[TokenLogprob]:
    """The log-probabilities of the tokens of a prompt after the first, each with ``n_top``
    alternatives, from the ``request`` of :func:`begin_logits`, which is done; raises its error."""
    from unladen.api.reading import rows_of
    from unladen.sample import logprobs
    from unladen.types import TokenLogprob
    rows = rows_of(request)
    found = []
    for row, token in zip(rows, request.tokens[1:], strict=False):
        chosen, top = logprobs(row, token, n_top)
        found.append(TokenLogprob(token, chosen, tuple(top)))
    return found


def chat_abilities(model: Model) -> list[str]:
    """Which of "tools" and "reasoning" the template of ``model`` knows. Raises
    :class:`TemplateError`."""
    written = model._format(None, None, None)
    source, form = written.template.source, written.form
    marks = {mark.opening for mark in form.reasoning}
    return [name for name, has in (
        ("tools", bool(form.dialect.forms) and written.template.takes_tools),
        ("reasoning", any(mark in source for mark in marks))) if has]


def writes_text(model: Model) -> bool:
    """Whether ``model`` writes text; others make embeddings, or rank texts."""
    return "logits" in model._outputs()


def files_of(model: Model) -> tuple[str, ...]:
    """The files of ``model``, the first one first."""
    return model._file.paths


def preset_of(model: Model) -> Preset | None:
    """The settings that belong to the name by which ``model`` was loaded; None: it has none."""
    return model._preset


def again(model: Model) -> tuple[str, tuple[str, ...]]:
    """What loads ``model`` again, with its settings; and the files that tell whether that is still
    the same model."""
    record = () if model._record is None else (str(model._record),)
    return model._ref, (str(model.path), *record)


def on_paper(path: str, parameters: Mapping[str, Any]) -> OnPaper:
    """A model whose weights aren't read: its tokenizer, its metadata, and in ``report`` what
    :func:`unladen.plan` says of it. Nothing is downloaded. Raises what that raises."""
    from unladen.api.paper import OnPaper
    return OnPaper(local(path, offline=True), **parameters)


def local(ref: str, *, offline: bool = False, progress: type | None = None) -> str:
    """``ref`` as :class:`unladen.Model` finds it without the network: the path of its file, or its
    name where that has settings. Downloads it unless ``offline``; ``progress`` as in
    :func:`unladen.hub.find_model`, whose errors this raises."""
    from unladen.hub import INCLUDED, find_model
    found = find_model(ref, aliases=INCLUDED, offline=offline, progress=progress)
    return str(found.path) if found.preset is None else ref


def report(model: Model) -> PlanReport:
    """The report on the plan of ``model`` as it is in memory."""
    from unladen.schedule.show.report import PlanReport
    plans = model.engine.plans
    taken = {each.device.name: each.taken_bytes or 0 for each in plans.memory().devices}
    return PlanReport.of(plans.blueprint, Path(model.path).name, model.context_size, taken)


def planned(blueprint: Blueprint, devices: Iterable[DeviceMemory]) -> dict[str, Any]:
    """Fields of a card that a plan tells: the bytes on each of ``devices``, and those on devices
    other than the host."""
    taken = {each.device: each.needed_bytes + each.mapped_bytes for each in devices}
    found: dict[str, Any] = {
        "device_bytes": {device.name: n_bytes for device, n_bytes in taken.items()},
        "gpu_bytes": sum(n for device, n in taken.items() if not device.is_host)}
    return found


def cached_length(model: Model, ids: Sequence[int]) -> int:
    """How many of the first tokens in ``ids`` are in the cache. Call it while no step runs."""
    def look() -> int:
        cached = model.engine.sequence()
        try:
            cached.attach(ids)
            return cached.length
        finally:
            cached.release()
    return model.engine.between_steps(look)
