"""Reads texts: returns their tokens, logits, embeddings and states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, overload

from unladen.api.generation import Generation
from unladen.api.prompts import check_tokens, ids_of, only, split
from unladen.api.stream import result_of
from unladen.api.together import T, Together
from unladen.errors import InvalidArgument
from unladen.parameters.kinds import flag, reject

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from unladen.api.prompts import Ids, Prompt, Prompts
    from unladen.engine import Request
    from unladen.models import Architecture
    from unladen.runtime.plan import Plan


class Reading(Generation):
    """The methods of a model that read given texts and write none."""

    architecture: Architecture

    @overload
    def logits(self, tokens: Prompt) -> npt.NDArray[np.float32]: ...

    @overload
    def logits(self, tokens: Prompts) -> list[npt.NDArray[np.float32]]: ...

    def logits(self, tokens: Prompt | Prompts
               ) -> npt.NDArray[np.float32] | list[npt.NDArray[np.float32]]:
        """float32 [len(tokens), n_vocab]: the logits of the next token after each of ``tokens``,
        which are token ids or a text. Several of these in a list are computed together and give a
        list; where one fails, the error names ``tokens[i]``. Raises :class:`InvalidArgument` for an
        encoder."""
        prompts, several = split("tokens", tokens)
        if "logits" not in self._used_plan().blueprint.graph.outputs:
            raise InvalidArgument("the model is an encoder: it has no logits", hint="use embed()")
        rows = self._rows("tokens", prompts, several, lambda found: found)
        return rows if several else rows[0]

    @overload
    def embed(self, text: Prompt, *, pooling: str | None = None, normalize: bool = True
              ) -> npt.NDArray[np.float32]: ...

    @overload
    def embed(  # type: ignore[overload-overlap]  # the text "none" is a str too
            self, text: Prompts, *, pooling: Literal["none"], normalize: bool = True
              ) -> list[npt.NDArray[np.float32]]: ...

    @overload
    def embed(self, text: Prompts, *, pooling: str | None = None, normalize: bool = True
              ) -> npt.NDArray[np.float32]: ...

    def embed(self, text: Prompt | Prompts, *, pooling: str | None = None, normalize: bool = True
              ) -> npt.NDArray[np.float32] | list[npt.NDArray[np.float32]]:
        """The embedding of ``text`` (or of token ids, taken as they are) by an encoder.
        ``pooling``: "mean", "cls" (the first token) or "last" give float32 [n_embd], of length 1
        with ``normalize``; "none" gives a row for each token, [n_tokens, n_embd], unchanged; None:
        as the file says, which may be "none".

        Several texts in a list are computed together and give float32 [n_texts, n_embd], or with
        "none" a list; where one fails, the error names ``text[i]``. Raises :class:`InvalidArgument`
        for a model that isn't an encoder.
        """
        from unladen.engine.pooling import checked_pooling, chosen, pooled
        normalize, pooling = flag("normalize", normalize), checked_pooling(pooling)
        prompts, several = split("text", text)
        if "embeddings" not in self._used_plan().blueprint.graph.outputs:
            raise InvalidArgument("the model isn't an encoder", hint="use logits() or generate()")
        kind = chosen(pooling, self.architecture.hparams.int("pooling_type", 0))
        rows = self._rows("text", prompts, several,
                          lambda found: pooled(found, kind, normalize=normalize))
        if not several:
            return rows[0]
        import numpy as np
        if kind == "none":
            return rows
        width = self._used_plan().blueprint.graph.outputs["embeddings"].shape[-1]
        return np.array(rows, np.float32).reshape(len(rows), int(width))

    def _rows(self, name: str, prompts: Sequence[object], several: bool,
              take: Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]
              ) -> list[npt.NDArray[np.float32]]:
        """The result of ``take`` for each prompt's rows. The rows are freed at once."""
        if several:
            return self._rows_together(name, self._all_ids(name, prompts), take).run()
        ids = ids_of(name, prompts[0], self.tokenizer)
        check_tokens(name, ids)
        request = self._all_logits(ids)
        self.engine.submit(request)
        self.engine.finish(request)
        return [take(rows_of(request))]

    def _all_logits(self, ids: Sequence[int]) -> Request:
        """A request for the logits of all tokens ``ids``, not submitted yet."""
        from unladen.engine import Request
        from unladen.tokenizer import StreamDecoder
        return Request([*ids], sampler=None, decoder=StreamDecoder(self.tokenizer))

    def _rows_together(self, name: str, ids: Sequence[Sequence[int]],
                       take: Callable[[npt.NDArray[np.float32]], T]) -> Together[T]:
        """Computes the rows of several prompts; the results are those of ``take``."""
        return Together(self.engine, len(ids), lambda i: self._all_logits(ids[i]),
                        lambda request: take(rows_of(request)), name)

    def save_state(self, prompt: Prompt) -> bytes:
        """The state of the model after ``prompt`` (text, or token ids): keys, values and recurrent
        state of all its tokens. Tokens that aren't in the cache are computed first."""
        from unladen.engine import Request, state
        from unladen.sample import SamplerChain
        from unladen.tokenizer import StreamDecoder
        ids = ids_of("prompt", only("prompt", prompt), self.tokenizer)
        check_tokens("prompt", ids)
        request = Request(ids, sampler=SamplerChain().greedy().build(), max_tokens=1,
                          decoder=StreamDecoder(self.tokenizer))
        return state.save(self.engine, request)

    def load_state(self, data: bytes) -> list[int]:
        """Load a state that :meth:`save_state` returned, from this model with any
        ``context_size``, ``kv_type`` and placement. Returns its tokens: prompts that begin with
        them go on from the state. Raises :class:`InvalidArgument` for bytes of another model,
        :class:`ContextOverflow`."""
        from unladen.engine import state
        if not isinstance(data, bytes | bytearray | memoryview):
            reject("data", "the bytes that save_state() gave", data,
                   "pathlib.Path(file).read_bytes() reads them")
        return state.load(self.engine, bytes(data))

    def tokenize(self, text: str, *, add_special: bool | None = None, add_bos: bool | None = None,
                 special: bool = True, continues: bool = False) -> list[int]:
        """Token ids of ``text``.

        ``add_special``: put the special tokens around it that the file asks for (BOS, EOS, BERT's
        CLS and SEP); False: the text's own tokens alone; None: unless it ``continues`` another.
        ``add_bos``: the same for BOS (CLS) alone, whatever ``add_special`` says. ``special``: names
        of control tokens in the text are meant as such. ``continues``: the text goes on from
        another, so no space is put before it where the tokenizer puts one before texts:
        ``tokenize(a) + tokenize(b, continues=True)`` goes on with ``b``. Raises
        :class:`InvalidArgument`.
        """
        return self.tokenizer.encode(text, add_special=add_special, add_bos=add_bos,
                                     special=special, continues=continues)

    def detokenize(self, tokens: Ids, *, special: bool = False) -> str:
        """The text of ``tokens``; ``special`` shows control tokens too."""
        return self.tokenizer.decode(tokens, special=special)

    def _used_plan(self) -> Plan:
        return self.engine.plan


def rows_of(request: Request) -> npt.NDArray[np.float32]:
    """The rows that ``request`` asked for; raises its error."""
    import numpy as np
    result_of(request)
    return np.concatenate(request.logits)
