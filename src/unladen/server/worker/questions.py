"""Questions that have one result: embeddings, ranks, counts and tokens."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from unladen.api.begin import chat_prompt, embedding, ranking
from unladen.server.asked import Count, Detokenize, Embed, Rank, Tokenize
from unladen.server.events import Prompt, Result, Scores, Tokens, Vectors
from unladen.server.faults import Fault
from unladen.server.ipc import Message
from unladen.server.worker.job import Job, ended, result, started

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from unladen.api import Model
    from unladen.api.together import Together

    Rows = npt.NDArray[np.float32]


class OfTexts(Job):
    """A question of many texts, which ``together`` computes. ``take``: makes the answer of its
    results."""

    def __init__(self, id: int, together: Together[Any],  # noqa: A002
                 take: Callable[[list[Any]], Result]) -> None:
        super().__init__(id)
        self._together, self._take = together, take
        self._has_started = False

    def news(self, out: list[Message]) -> bool:
        """See :class:`Job`."""
        if not self._has_started:
            self._has_started = True
            out.append(started(self.id))
        self._together.collect()
        if self._together.refill() is not None:
            return False
        out += [result(self.id, self._take(self._together.results)), ended(self.id)]
        return True

    def cancel(self) -> None:
        """See :class:`Job`."""
        self._together.stop()


def embed(id: int, model: Model, asked: Embed) -> OfTexts:  # noqa: A002
    """The job for ``asked``."""
    width = asked.dimensions
    if not model.embeds:
        raise Fault("unsupported", "the model makes no embeddings: it isn't an encoder",
                    hint="ask a model for embeddings")
    if not asked.inputs:
        raise Fault("bad_request", "there must be at least one text", param="inputs")
    if width is not None and not 1 <= width <= (most := n_embd(model)):
        raise Fault("bad_request", f"dimensions must be from 1 to {most}, got {width}",
                    param="dimensions")
    together, n_tokens = embedding(model, asked.inputs)
    return OfTexts(id, together, lambda rows: Vectors(
        [base64.b64encode(_cut(row, width).astype("<f4").tobytes()).decode() for row in rows],
        n_tokens))


def rank(id: int, model: Model, asked: Rank) -> OfTexts:  # noqa: A002
    """The job for ``asked``."""
    if not asked.documents:
        raise Fault("bad_request", "there are no documents", param="documents")
    if not model.ranks_by:
        raise Fault("unsupported", "the model can't rank: it has no classifier for that, and makes "
                    "no embeddings", hint="ask a reranker, or a model for embeddings")
    together, scores, n_tokens = ranking(model, asked.query, asked.documents)
    return OfTexts(id, together, lambda found: Scores(scores(found), n_tokens))


def at_once(model: Model, asked: Count | Tokenize | Detokenize) -> Result:
    """The result of a question that needs no step."""
    tokenizer = model.tokenizer
    if isinstance(asked, Count):
        chat = asked.chat
        prompt = chat_prompt(model, chat.messages, chat.parameters, tools=chat.tools,
                             tool_choice=chat.tool_choice)
        return Prompt(prompt.text, len(prompt.ids))
    if isinstance(asked, Tokenize):
        ids = tokenizer.encode(asked.text, add_special=asked.begins, special=asked.special)
    else:
        ids = _known(asked.ids, tokenizer.n_vocab)
    pieces = [tokenizer.token_bytes(each).decode("latin-1") for each in ids]
    text = asked.text if isinstance(asked, Tokenize) else tokenizer.decode(ids, special=True)
    return Tokens(ids, pieces, text)


def n_embd(model: Model) -> int:
    """The numbers of an embedding."""
    return int(model.engine.plan.blueprint.graph.outputs["embeddings"].shape[-1])


def _known(ids: Sequence[int], n_vocab: int) -> list[int]:
    for each in ids:
        if isinstance(each, bool) or not isinstance(each, int) or not 0 <= each < n_vocab:
            raise Fault("bad_request", f"the vocabulary has no token {each!r}",
                        hint=f"ids are whole numbers from 0 to {n_vocab - 1}")
    return list(ids)


def _cut(row: Rows, width: int | None) -> Rows:
    """The first ``width`` numbers of ``row``, of length 1 again."""
    if width is None or width >= len(row):
        return row
    import numpy as np
    cut = row[:width]
    length = float(np.linalg.norm(cut.astype(np.float64)))
    return cut / np.float32(length) if length else cut
