"""Checks a prompt and the room for its answer before an engine accepts it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unladen.engine.request import Request
from unladen.errors import ContextOverflow, InvalidArgument
from unladen.types import Limits


def check_prompt(request: Request, limits: Limits, context_size: int, n_vocab: int) -> None:
    """Make the prompt of ``request`` plain numbers below ``n_vocab``. Raises
    :class:`ContextOverflow` and :class:`InvalidArgument`."""
    n = request.n_prompt
    if n == 0:
        raise InvalidArgument("the prompt has no tokens", hint="give at least one token")
    if limits.whole_sequences and not request.wants_all_logits:
        raise InvalidArgument("the model reads whole texts and continues none",
                              hint="use logits() or embed()")
    # A prompt that is to be continued needs room for one token more.
    most = context_size - (not request.wants_all_logits)
    if n > most:
        raise ContextOverflow(
            f"the prompt has {n} tokens, the context of {context_size} holds {most}",
            n_tokens=n, limit=most,
            hint="shorten the prompt or load the model with a larger context_size")
    request.tokens = _checked(request.tokens, n_vocab)


def check_room(request: Request, context_size: int) -> None:
    """Tell the sampler of ``request`` how many tokens it may write. Raises :class:`InvalidArgument`
    where ``max_tokens``, and :class:`ContextOverflow` where the context leaves no room for the
    shortest answer of the wanted form."""
    if request.sampler is None:
        return
    n_left = request.n_left(context_size)
    n_least = request.sampler.begin(n_left)
    if n_least is None:
        return
    least = f"the shortest answer of the wanted form that was found takes {n_least} tokens"
    if n_left == request.max_tokens:
        raise InvalidArgument(f"max_tokens is {n_left}, and {least}",
                              hint=f"allow {n_least} tokens or more, or make the form smaller")
    raise ContextOverflow(
        f"the prompt has {request.n_prompt} tokens, {n_left} of {context_size} are left, and "
        f"{least}", n_tokens=request.n_prompt + n_least, limit=context_size,
        hint="load the model with a larger context_size, shorten the prompt, or make the form "
             "smaller")


def _checked(tokens: Sequence[int], n_vocab: int) -> list[int]:
    """A prompt's ``tokens`` as plain numbers; raises :class:`InvalidArgument`."""
    hint = f"ids are whole numbers from 0 to {n_vocab - 1}"
    try:
        ids = np.asarray(tokens)
    except ValueError as error:  # nested lists of different lengths
        raise InvalidArgument(f"the prompt isn't a list of token ids: {error}",
                              hint=hint) from error
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or {bool, np.bool_} & set(map(type, tokens)):
        raise InvalidArgument("the prompt isn't a list of token ids", hint=hint)
    bad = ids[(ids < 0) | (ids >= n_vocab)]
    if len(bad):
        raise InvalidArgument(f"the prompt has token id {bad[0]}, which the vocabulary lacks or "
                              "the model has no embedding for", hint=hint)
    checked: list[int] = ids.tolist()
    return checked
