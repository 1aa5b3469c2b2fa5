"""Makes jobs of what clients ask: templates, tokens, grammars. Steps go on meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import unladen
from unladen.api.begin import begin_chat, begin_logits, begin_text, text_ids, writes_text
from unladen.server.asked import Asked, Chat, Count, Detokenize, Embed, Rank, Text, Tokenize
from unladen.server.events import Begun
from unladen.server.faults import Fault
from unladen.server.ipc import Message
from unladen.server.worker.answers import Answers, ChatChoice, Choice, Echo, TextChoice
from unladen.server.worker.job import Job, ended, event, result
from unladen.server.worker.questions import at_once, embed, rank

if TYPE_CHECKING:
    from unladen.api import Model

ECHO_BYTES = 2**31
"""Bytes of logits that a prompt may have whose tokens' log-probabilities are wanted: they are in
memory all at once."""


def prepared(model: Model, id: int, asked: Asked,  # noqa: A002
             treatment: Mapping[str, Any]) -> tuple[list[Message], Job | None]:
    """What is known before the first step, and the job; None where nothing else comes.

    ``treatment``: ``priority`` and ``deadline``, in seconds, if the request has one. Raises the
    package's errors and ``Fault``.
    """
    if isinstance(asked, Chat | Text):
        if asked.n < 1:
            raise Fault("bad_request", f"n must be at least 1, got {asked.n}", param="n")
        if not writes_text(model):
            raise Fault("unsupported", "the model writes no text: it makes embeddings, "
                        "or ranks texts", hint="ask another model")
        return (_chat(model, id, asked, treatment) if isinstance(asked, Chat)
                else _text(model, id, asked, treatment))
    if isinstance(asked, Embed):
        return [], embed(id, model, asked)
    if isinstance(asked, Rank):
        return [], rank(id, model, asked)
    assert isinstance(asked, Count | Tokenize | Detokenize)
    return [result(id, at_once(model, asked)), ended(id)], None


def _chat(model: Model, id: int, asked: Chat,  # noqa: A002
          treatment: Mapping[str, Any]) -> tuple[list[Message], Job]:
    answers = begin_chat(model, asked.messages, _parameters(asked.parameters, treatment),
                         tools=asked.tools, tool_choice=asked.tool_choice,
                         parallel=asked.parallel_calls, n=asked.n)
    first = answers[0]
    choices: list[Choice] = [ChatChoice(i, each, model.tokenizer)
                             for i, each in enumerate(answers)]
    begun = Begun(len(first.prompt.ids), first.n_truncated, first.prompt.notes)
    return [event(id, begun)], Answers(id, model, choices)


def _text(model: Model, id: int, asked: Text,  # noqa: A002
          treatment: Mapping[str, Any]) -> tuple[list[Message], Job]:
    parameters = _parameters(asked.parameters, treatment)
    ids = text_ids(model, asked.prompt, asked.suffix)
    wants_logprobs = asked.echo and parameters.get("logprobs") is not None
    if wants_logprobs and len(ids) * model.engine.n_vocab * 4 > ECHO_BYTES:
        raise Fault("bad_request", f"the prompt's {len(ids)} tokens are too many for echo with "
                    "logprobs", hint="shorten the prompt, or leave out echo", param="echo")
    requests = begin_text(model, ids, parameters, n=asked.n)
    choices: list[Choice] = [TextChoice(i, each, model.tokenizer)
                             for i, each in enumerate(requests)]
    echo = None
    if asked.echo:
        is_text = isinstance(asked.prompt, str)
        text = asked.prompt if isinstance(asked.prompt, str) else model.tokenizer.decode(ids)
        echo = Echo(text, ids, model.tokenizer,
                    begin_logits(model, ids) if wants_logprobs else None,
                    parameters.get("logprobs") or 0,
                    int(is_text and len(ids) > 1 and ids[0] == model.tokenizer.bos_id))
    return [event(id, Begun(len(ids)))], Answers(id, model, choices, echo)


def _parameters(given: Mapping[str, Any], treatment: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as :class:`unladen.Model` takes them: JSON has no numbers as keys, and no
    grammars."""
    wanted = dict(given)
    bias = wanted.get("logit_bias")
    if isinstance(bias, Mapping):
        try:
            wanted["logit_bias"] = {int(token): value for token, value in bias.items()}
        except ValueError as error:
            raise Fault("bad_request", f"logit_bias has a key that is no token id: {error}",
                        param="logit_bias") from None
    form = wanted.get("response_format")
    if isinstance(form, Mapping) and form.get("type") == "grammar":
        text = form.get("grammar")
        if not isinstance(text, str):
            raise Fault("bad_request", "response_format has no grammar, which must be a text",
                        param="response_format")
        wanted["response_format"] = unladen.grammar(text)
    own = wanted.get("deadline")
    limit = treatment.get("deadline")
    if limit is not None:
        wanted["deadline"] = limit if own is None else min(own, limit)
    if treatment.get("priority"):
        wanted["priority"] = treatment["priority"]
    return wanted
