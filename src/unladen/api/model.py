"""The front door: a model file becomes an object that writes text."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from unladen._native.gguf import PagesAhead
from unladen.api.generation import Generation
from unladen.api.prompts import check_tokens, ids_of, only, split
from unladen.api.stream import result_of
from unladen.api.tap import Tapping
from unladen.api.together import Together
from unladen.api.wishes import options_of, plan_wishes, wishes_of, with_kv_type
from unladen.errors import InvalidArgument
from unladen.hub import resolve_model
from unladen.mapped import map_file
from unladen.packed import packed_cache as cache_of
from unladen.parameters.kinds import flag, reject
from unladen.parameters.model import NO_FILE, PLACE

# All else is imported by those who need it first, while a thread without Python's lock maps the
# file's pages: that takes about as long.
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from unladen.api.prompts import Ids, Prompt, Prompts
    from unladen.backends.base import Device, Options
    from unladen.engine import Engine, Request
    from unladen.gguf import GGUFFile, Metadata, TensorInfo
    from unladen.ladder import Wishes
    from unladen.parameters.model import ModelNames, PlaceNames
    from unladen.schedule.fit import MemoryPlan
    from unladen.schedule.plan import Plan
    from unladen.tokenizer import Tokenizer

TINY = Path(__file__).parents[1] / "data" / "tiny.gguf"
"""The model that comes with the package; ``Model("tiny")``."""


class Model(Generation, Tapping):
    """A model in memory, ready for any number of threads and coroutines.

    ``path`` is a file, ``"tiny"``, or a Hugging Face reference such as ``org/repo:Q4_K_M``.

    ``context_size`` tokens at most in one sequence (None: what the model was trained for, or less
    where memory is short); ``batch_size`` tokens in one step; ``max_seqs`` sequences in one step.
    ``kv_type`` of the cache: "f16", "f32" or "q8_0", or a pair for keys and values. ``devices``
    names like "cpu:0" (None: the environment's ``UNLADEN_DEVICES``, else graphics hardware, if
    there is some, and the CPU). What goes where (``n_gpu_layers`` to ``stream_weights``) is as
    :class:`~unladen.schedule.place.PlaceOptions` says; :func:`plan` shows it beforehand.
    ``n_threads`` serve steps of few tokens, ``n_threads_batch`` prompts (None: one a core).
    ``precise`` keeps activations float32 where they meet quantized weights. ``deterministic``: the
    same tokens give the same logits to the last bit, whatever they are computed together with and
    in chunks of whatever size; on the CPU alone, and slower. ``strict`` makes every fallback an
    error. ``vocab_only`` loads the tokenizer alone. ``check_tensors`` looks for NaN and infinity in
    all weights first, which takes a while, and raises :class:`GGUFError`. ``on_oom``: what to give
    up where memory runs out, in this order, for example
    ``["ubatch", "kv:q8_0", "layers", "context"]`` (see :class:`~unladen.ladder.Ladder`); without
    it, that is an error. ``speculate``: where a text
    repeats itself, up to ``n_draft`` tokens are guessed from what it said before and computed
    together, if that is measured to be faster; the text is the same (see
    :mod:`unladen.engine.speculate`). ``tokenizer``: a ``tokenizer.json`` to use instead of the
    file's own (see :class:`~unladen.tokenizer.JsonTokenizer`).

    ``use_mmap`` False copies weights instead of mapping the file; ``use_mlock`` keeps those of the
    host in memory, or warns that it can't. ``progress`` is called while weights are loaded; what it
    raises ends that, with nothing left behind. ``numa``: "distribute" spreads threads over the
    memory's nodes, "isolate" keeps them on the caller's, "numactl" where the process is allowed to
    run (:mod:`unladen.backends.cpu.numa`). ``packed_cache``: a folder (True: the environment's
    ``UNLADEN_PACKED_CACHE``, else ``~/.cache/unladen/packed``) for a copy of the weights as this
    processor's kernels read them, written the first time and mapped ever after
    (:mod:`unladen.packed`).

    Raises :class:`ModelNotFound`, :class:`GGUFError`, :class:`UnsupportedModel`,
    :class:`OutOfMemory`, :class:`InvalidArgument`, with ``strict`` :class:`MemoryLockError`.
    """

    _reads_weights = True

    def __init__(self, path: str | os.PathLike[str] = NO_FILE, **parameters: Unpack[ModelNames]
                 ) -> None:
        path, wanted = wishes_of(path, parameters)
        self._n_draft = wanted["n_draft"] if wanted["speculate"] else 0
        self.path = resolve_model(path, aliases={"tiny": TINY})
        mapping = map_file(str(self.path))
        reads = wanted["use_mmap"] and not wanted["vocab_only"] and self._reads_weights
        self._packed = cache_of(
            wanted["packed_cache"], mapping if reads else None, strict=wanted["strict"],
            in_place=wanted["use_mmap"] and not wanted["use_mlock"], progress=wanted["progress"])
        ahead = PagesAhead(mapping) if reads and self._packed is None else None
        from unladen.gguf import check_numbers, open_gguf
        from unladen.setup import device_names
        self._file: GGUFFile = open_gguf(self.path, mapping)
        self._engine: Engine | None = None
        self._stepper = ThreadPoolExecutor(1, thread_name_prefix="unladen")
        used = options_of(wanted, self._packed)
        try:
            devices: Any = wanted["devices"]
            names = () if wanted["vocab_only"] else device_names(devices)
            tokenizer = self._stepper.submit(_tokenizer, wanted["tokenizer"], self._file.metadata,
                                             str(self.path))
            if wanted["check_tensors"]:
                check_numbers(self._file)
            self._map_ahead(ahead, names, used)
            if not wanted["vocab_only"]:
                self._open(plan_wishes(names, wanted, used), wanted["on_oom"])
            self._equip(tokenizer.result())
            self._file.drop_header()
        except BaseException:
            self._stepper.shutdown()  # what it does reads the file
            self.close()
            raise

    def _equip(self, tokenizer: Tokenizer) -> None:
        from unladen.sample import defaults
        from unladen.tokenizer import sequences
        self.tokenizer = tokenizer
        self.sampling_defaults = defaults(self._file.metadata)
        self._breakers = functools.cache(functools.partial(sequences, tokenizer))

    def _map_ahead(self, begun: PagesAhead | None, devices: Sequence[str | Device],
                   options: Options) -> None:
        """``begun`` goes on if weights are read where they are in the file."""
        from unladen.backends import backend_of
        if begun is None:
            return
        if all((backend_of(d).open(d, options) if isinstance(d, str) else d).is_host
               for d in devices):
            self._file.map_ahead(begun)
        else:
            begun.stop()

    def _open(self, wishes: Wishes, on_oom: Sequence[str]) -> None:
        from unladen.models import load_architecture
        from unladen.planner import Planner
        self.architecture = load_architecture(self._file)
        self._planner = Planner(self._file, self.architecture, wishes, on_oom)
        self._engine = self._planner.load(self._n_draft)
        self._file.finish_mapping()
        if self._packed is not None:
            self._packed.finish()

    @overload
    def logits(self, tokens: Prompt) -> npt.NDArray[np.float32]: ...

    @overload
    def logits(self, tokens: Prompts) -> list[npt.NDArray[np.float32]]: ...

    def logits(self, tokens: Prompt | Prompts
               ) -> npt.NDArray[np.float32] | list[npt.NDArray[np.float32]]:
        """float32 [len(tokens), n_vocab]: what the model expects after each of ``tokens``, which
        are token ids or a text. Several of these in a list are computed together and give a list;
        where one fails, the error names ``tokens[i]``. Raises :class:`InvalidArgument` for an
        encoder."""
        prompts, several = split("tokens", tokens)
        if "logits" not in self._used_plan().draft.graph.outputs:
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
        """What an encoder makes of ``text`` (or of token ids, taken as they are). ``pooling``:
        "mean", "cls" (the first token) or "last" give float32 [n_embd], of length 1 with
        ``normalize``; "none" the tokens' own, [n_tokens, n_embd], as they are; None: as the file
        says, which may be "none".

        Several texts in a list are computed together and give float32 [n_texts, n_embd], or with
        "none" a list; where one fails, the error names ``text[i]``. Raises
        :class:`InvalidArgument` for a model that is no encoder.
        """
        from unladen.pooling import chosen, pooled
        normalize = flag("normalize", normalize)
        prompts, several = split("text", text)
        if "embeddings" not in self._used_plan().draft.graph.outputs:
            raise InvalidArgument("the model is no encoder", hint="use logits() or generate()")
        kind = chosen(pooling, self.architecture.hparams)
        rows = self._rows("text", prompts, several,
                          lambda found: pooled(found, kind, normalize=normalize))
        if not several:
            return rows[0]
        import numpy as np
        if kind == "none":
            return rows
        width = self._used_plan().draft.graph.outputs["embeddings"].shape[-1]
        return np.array(rows, np.float32).reshape(len(rows), int(width))

    def _rows(self, name: str, prompts: Sequence[object], several: bool,
              take: Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]
              ) -> list[npt.NDArray[np.float32]]:
        """What ``take`` makes of each prompt's rows, which go as soon as it has."""
        import numpy as np

        from unladen.engine import Request
        from unladen.tokenizer import StreamDecoder

        def make(i: int) -> Request:
            return Request([*ids[i]], sampler=None, decoder=StreamDecoder(self.tokenizer))

        def taken(request: Request) -> npt.NDArray[np.float32]:
            result_of(request)
            return take(np.concatenate(request.logits))
        if several:
            ids = self._all_ids(name, prompts)
            return Together(self.engine, len(ids), make, taken, name).run()
        ids = [ids_of(name, prompts[0], self.tokenizer)]
        check_tokens(name, ids[0])
        request = make(0)
        self.engine.submit(request)
        self.engine.finish(request)
        return [taken(request)]

    def save_state(self, prompt: Prompt) -> bytes:
        """What the model keeps of ``prompt`` (text, or token ids): keys, values, recurrent state,
        of as many tokens as fill whole cache blocks; what isn't there is computed first."""
        from unladen.engine import Request, state
        from unladen.sample import SamplerChain
        from unladen.tokenizer import StreamDecoder
        ids = ids_of("prompt", only("prompt", prompt), self.tokenizer)
        check_tokens("prompt", ids)
        request = Request(ids, sampler=SamplerChain().greedy().build(), max_tokens=1,
                          decoder=StreamDecoder(self.tokenizer))
        self.engine.submit(request)
        self.engine.finish(request)
        result_of(request)
        return state.save(self.engine, ids)

    def load_state(self, data: bytes) -> list[int]:
        """Take up what :meth:`save_state` gave, of this model with any ``context_size``,
        ``kv_type`` and placement. Prompts that begin with the tokens that this returns go on from
        there. Raises :class:`InvalidArgument` for bytes of another model,
        :class:`ContextOverflow`."""
        from unladen.engine import state
        if not isinstance(data, bytes | bytearray | memoryview):
            reject("data", "the bytes that save_state() gave", data,
                   "pathlib.Path(file).read_bytes() reads them")
        return state.load(self.engine, bytes(data))

    def tokenize(self, text: str, *, add_special: bool | None = None, add_bos: bool | None = None,
                 special: bool = True, continues: bool = False) -> list[int]:
        """Token ids of ``text``.

        ``add_special``: put around it what the file says (BOS, EOS, BERT's CLS and SEP); False:
        the text's own tokens alone; None: unless it ``continues`` another. ``add_bos``: the same
        for BOS (CLS) alone, whatever ``add_special`` says. ``special``: names of control tokens in
        the text are meant as such. ``continues``: the text goes on from another, so no space is
        put before it where the tokenizer puts one before texts: ``tokenize(a) + tokenize(b,
        continues=True)`` goes on with ``b``. Raises :class:`InvalidArgument`.
        """
        return self.tokenizer.encode(text, add_special=add_special, add_bos=add_bos,
                                     special=special, continues=continues)

    def detokenize(self, tokens: Ids, *, special: bool = False) -> str:
        """The text of ``tokens``; ``special`` shows control tokens too."""
        return self.tokenizer.decode(tokens, special=special)

    @property
    def engine(self) -> Engine:
        """The loop; raises :class:`InvalidArgument` after ``vocab_only`` or :meth:`close`."""
        if self._engine is None:
            raise InvalidArgument("the model has no weights in memory",
                                  hint="load it without vocab_only, and use it before close()")
        return self._engine

    @property
    def metadata(self) -> Mapping[str, object]:
        """The file's metadata."""
        return self._file.metadata

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """The file's tensors by name."""
        return self._file.tensors

    @property
    def context_size(self) -> int:
        """Tokens at most in one sequence."""
        return self.engine.context_size

    @property
    def gpu_layers(self) -> int:
        """Layers on devices other than the host."""
        return self._used_plan().draft.n_offloaded()

    @property
    def degradations(self) -> Sequence[str]:
        """What was given up for want of memory, oldest first; see ``on_oom``."""
        return tuple(self._planner.degradations) if self._engine is not None else ()

    def place(self, **changes: Unpack[PlaceNames]) -> None:
        """Compute elsewhere, with another context or cache type, from the next step on.

        Parameters as of :class:`Model`; what isn't given stays. Requests under way go on with the
        tokens that they have: their cache is copied where type and size allow, else computed again.
        Raises :class:`OutOfMemory`, :class:`InvalidArgument` and :class:`BackendNotInitialised`;
        the model then stays as it was.
        """
        taken: Any = PLACE.taken(with_kv_type(changes))
        if "devices" in taken:
            from unladen.setup import device_names
            taken["devices"] = device_names(taken["devices"])
        engine = self.engine
        self._planner.place(engine, taken)

    def placement(self) -> str:
        """Each node of the graph, its device, and why."""
        return self._used_plan().explain()

    def memory(self) -> MemoryPlan:
        """Bytes by device, as planned and as allocated in fact."""
        return self._used_plan().memory()

    def close(self) -> None:
        """Free the memory; the model can't be used any more."""
        self._engine = None
        self._stepper.shutdown(wait=False)
        self._file.close()
        if self._packed is not None:
            self._packed.stop()

    def __repr__(self) -> str:
        name = Path(self.path).name
        if self._engine is None:
            return f"<Model {name!r}, without weights in memory>"
        from unladen.schedule.place import numbers
        layers = numbers(self._used_plan().draft.layers)
        return (f"<Model {name!r}: {self.architecture.arch}, {layers} layers, context of "
                f"{self.context_size} tokens>")

    def __enter__(self) -> Model:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _used_plan(self) -> Plan:
        return self.engine.plan


def _tokenizer(json: str | os.PathLike[str] | None, metadata: Metadata, path: str) -> Tokenizer:
    from unladen.tokenizer import JsonTokenizer, Tokenizer
    # Native, without the lock for the most part.
    return Tokenizer.from_gguf(metadata, path) if json is None else JsonTokenizer(json, metadata)
