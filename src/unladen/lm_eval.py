"""Lets EleutherAI's lm-evaluation-harness use a model: answers its three kinds of requests.

>>> import lm_eval  # doctest: +SKIP
>>> lm_eval.simple_evaluate(model=unladen.lm_eval.lm(model), tasks=["hellaswag"])  # doctest: +SKIP

``pip install "unladen[lm-eval]"`` brings the harness, which needs no torch for this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from unladen.api import Model
from unladen.errors import InvalidArgument
from unladen.parameters.kinds import OrNone, Whole, flag, reject

BUDGET_BYTES = 1 << 29
"""Bytes of logits that are held at once: as many requests are computed together as fit."""
MAX_NEW_TOKENS = 256
"""Tokens to generate where a task doesn't say how many: the harness's own default."""
_LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Names under which a task may give the number of tokens to generate."""


class Instance(Protocol):
    """A request of the harness."""

    @property
    def args(self) -> tuple[Any, ...]:
        """(context, continuation), (text,) or (context, parameters of a generation)."""


class Scored(NamedTuple):
    """Tokens to score (``wanted``), and the tokens before them."""

    context: Sequence[int]
    wanted: Sequence[int]


class Scorer:
    """Answers the harness's requests, without importing it; :func:`lm` makes an ``LM`` of this.

    ``max_gen_toks``: tokens to generate at most where a task doesn't say how many. ``add_bos``:
    contexts begin with BOS; None: as the model's file says. A text longer than the model's context
    loses tokens at its beginning. Raises :class:`InvalidArgument`.
    """

    def __init__(self, model: Model, *, max_gen_toks: int = MAX_NEW_TOKENS,
                 add_bos: bool | None = None) -> None:
        if not isinstance(model, Model):
            reject("model", "an unladen.Model", model)
        self.model = model
        self.max_gen_toks = Whole(1).of("max_gen_toks", max_gen_toks)
        self.add_bos = add_bos if add_bos is None else flag("add_bos", add_bos)

    @property
    def prefix_token_id(self) -> int:
        """The token to put before a text without a context: BOS, else EOS."""
        tokenizer = self.model.tokenizer
        found = tokenizer.bos_id if tokenizer.bos_id is not None else tokenizer.eos_id
        if found is None:
            raise InvalidArgument("the vocabulary has no token to begin a text with",
                                  hint="give the task contexts that aren't empty")
        return found

    def tok_encode(self, text: str) -> list[int]:
        """Token ids of a context: with BOS if ``add_bos`` says so, without EOS."""
        return self.model.tokenizer.encode(text, add_bos=self.add_bos, add_eos=False)

    def pair(self, context: str, continuation: str) -> Scored:
        """The tokens of both texts. Spaces at the end of ``context`` are moved to ``continuation``.
        The continuation begins after as many tokens as the context alone has."""
        if not context:
            own = self.model.tokenize(continuation, add_special=False)
            before = self.prefix_token_id
            return Scored(own[:1], own[1:]) if own[:1] == [before] else Scored([before], own)
        bare = context.rstrip()
        if not bare:  # the context is only spaces, so all of it belongs to the continuation
            return self.pair("", context + continuation)
        whole = self.tok_encode(context + continuation)
        known = self.tok_encode(bare)
        return Scored(known, whole[len(known):])

    def loglikelihood(self, requests: Sequence[Instance], disable_tqdm: bool = False
                      ) -> list[tuple[float, bool]]:
        """For each (context, continuation): the log-probability of the continuation after the
        context, and whether greedy decoding writes it."""
        return self._scores([self.pair(*each.args) for each in requests])

    def loglikelihood_rolling(self, requests: Sequence[Instance], disable_tqdm: bool = False
                              ) -> list[float]:
        """The log-probability of each whole text. Every token is scored once, after as many tokens
        before it as fit; the first one is scored after :attr:`prefix_token_id`."""
        windows, owners = [], []
        for i, each in enumerate(requests):
            ids = self.model.tokenize(each.args[0], add_special=False)
            found = list(self._windows(ids))
            windows += found
            owners += [i] * len(found)
        totals = [0.0] * len(requests)
        for owner, (value, _) in zip(owners, self._scores(windows), strict=True):
            totals[owner] += value
        return totals

    def generate_until(self, requests: Sequence[Instance], disable_tqdm: bool = False) -> list[str]:
        """The text that the model writes after each context, up to one of the texts ``until``,
        which is left out. It decodes greedily unless the request's parameters say otherwise."""
        texts = [""] * len(requests)
        groups: dict[str, list[int]] = {}
        for i, each in enumerate(requests):
            groups.setdefault(repr(each.args[1]), []).append(i)
        for members in groups.values():
            wanted = self._wanted(requests[members[0]].args[1])
            room = self.model.context_size - wanted["max_tokens"]
            if room < 1:
                raise InvalidArgument(
                    f"max_gen_toks={wanted['max_tokens']} leaves no room for a prompt in a context "
                    f"of {self.model.context_size}", hint="load the model with a larger "
                    "context_size, or give a smaller max_gen_toks")
            prompts = [self.tok_encode(requests[i].args[0])[-room:] for i in members]
            for i, written in zip(members, self.model.generate(prompts, **wanted), strict=True):
                texts[i] = written.text
        return texts

    def _wanted(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The harness's parameters of a generation, translated to this package's."""
        wanted = dict(given)
        until = wanted.pop("until", None) or []
        lengths = [n for n in (wanted.pop(name, None) for name in _LENGTHS) if n is not None]
        samples = wanted.pop("do_sample", None)
        if samples is False or (samples is None and "temperature" not in wanted):
            wanted["temperature"] = 0.0
        n = lengths[0] if lengths else self.max_gen_toks
        return {**wanted, "max_tokens": OrNone(Whole(1)).of("max_gen_toks", n),
                "stop": [text for text in ([until] if isinstance(until, str) else until) if text]}

    def _windows(self, ids: Sequence[int]) -> Iterator[Scored]:
        size = self.model.context_size
        for at in range(0, len(ids), size):
            end = min(at + size, len(ids))
            if at == 0:
                yield Scored([self.prefix_token_id], ids[:end])
            else:
                yield Scored(ids[end - size - 1:at], ids[at:end])

    def _scores(self, pairs: Sequence[Scored]) -> list[tuple[float, bool]]:
        """Score ``pairs``. Each distinct input is computed once, even if several continuations need
        it."""
        inputs: dict[tuple[int, ...], list[int]] = {}
        for i, pair in enumerate(pairs):
            if pair.wanted:
                inputs.setdefault(self._input(pair), []).append(i)
        scores = [(0.0, True)] * len(pairs)
        for group in self._groups(list(inputs)):
            for ids, logits in zip(group, self.model.logits([list(i) for i in group]), strict=True):
                for i in inputs[ids]:
                    scores[i] = _score(logits, pairs[i].wanted)
        return scores

    def _input(self, pair: Scored) -> tuple[int, ...]:
        size = self.model.context_size
        if len(pair.wanted) > size:
            raise InvalidArgument(f"a continuation has {len(pair.wanted)} tokens, the context "
                                  f"{size}", hint="load the model with a larger context_size")
        return (*pair.context, *pair.wanted)[-(size + 1):][:-1]

    def _groups(self, inputs: Iterable[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
        """Groups of inputs, the longest first, each as large as ``BUDGET_BYTES`` of logits allow.
        """
        row_bytes = 4 * self.model.architecture.n_vocab
        group: list[tuple[int, ...]] = []
        held = 0
        for ids in sorted(inputs, key=len, reverse=True):
            if group and held + len(ids) * row_bytes > BUDGET_BYTES:
                yield group
                group, held = [], 0
            group.append(ids)
            held += len(ids) * row_bytes
        if group:
            yield group


def lm(model: Model, *, max_gen_toks: int = MAX_NEW_TOKENS, add_bos: bool | None = None) -> Any:
    """``model`` as an ``lm_eval.api.model.LM``, for ``lm_eval.simple_evaluate(model=...)``; see
    :class:`Scorer`. Raises :class:`InvalidArgument`, also without the harness."""
    try:
        from lm_eval.api.model import LM
    except ImportError as error:
        raise InvalidArgument(f"PyPI's lm_eval can't be imported: {error}",
                              hint='pip install "unladen[lm-eval]"') from None

    class Adapter(Scorer, LM):  # type: ignore[misc]  # nothing is known of the harness's class
        """The harness's class, implemented by :class:`Scorer`."""

        def __init__(self) -> None:
            LM.__init__(self)
            Scorer.__init__(self, model, max_gen_toks=max_gen_toks, add_bos=add_bos)

    return Adapter()


def _score(logits: npt.NDArray[np.float32], wanted: Sequence[int]) -> tuple[float, bool]:
    """The log-likelihood of the ``wanted`` tokens, and whether each is the likeliest. The last rows
    of ``logits`` f32 [n, n_vocab] stand before them."""
    rows = logits[len(logits) - len(wanted):].astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    chosen = rows[np.arange(len(wanted)), wanted]
    total = chosen - np.log(np.exp(rows).sum(axis=1))
    return float(total.sum()), bool((rows.argmax(axis=1) == np.asarray(wanted)).all())
