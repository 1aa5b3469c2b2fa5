"""The front door: a model file becomes an object that writes text."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack

from unladen._native.gguf import PagesAhead
from unladen.api.stepper import Stepper
from unladen.api.stream import Stream, result_of
from unladen.api.tap import Tapping
from unladen.errors import InvalidArgument
from unladen.hub import resolve_model
from unladen.mapped import map_file
from unladen.packed import packed_cache as cache_of

# All else is imported by those who need it first, while a thread without Python's lock maps the
# file's pages: that takes about as long.
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from unladen.backends.base import Device, Options
    from unladen.engine import Engine, Request
    from unladen.gguf import GGUFFile, Metadata, TensorInfo
    from unladen.ladder import Wishes
    from unladen.planner import PlaceChanges
    from unladen.sample import Sampler, SamplerChain
    from unladen.schedule.fit import MemoryPlan
    from unladen.schedule.plan import Plan
    from unladen.tokenizer import Tokenizer
    from unladen.types import Completion, LoadProgress

PROBE_VARIABLE = "UNLADEN_PROBE"
TINY = Path(__file__).parents[1] / "data" / "tiny.gguf"
"""The model that comes with the package; ``Model("tiny")``."""


class Model(Tapping):
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

    tokenizer: Tokenizer
    _reads_weights = True

    def __init__(self, path: str | os.PathLike[str], *,
                 n_gpu_layers: int | Literal["auto", "all"] = "auto",
                 context_size: int | None = None, batch_size: int = 512, max_seqs: int = 32,
                 split_mode: str = "layer", tensor_split: Sequence[float] | None = None,
                 main_gpu: int = 0, devices: Sequence[str | Device] | None = None,
                 offload_order: str = "first", override_tensor: Mapping[str, str] | None = None,
                 cpu_moe: bool = False, n_cpu_moe: int | None = None, kv_offload: bool = True,
                 embed_device: str | None = None, head_device: str | None = None,
                 expert_split: Sequence[float] | None = None,
                 stream_weights: bool | Literal["auto"] = "auto",
                 n_threads: int | None = None, n_threads_batch: int | None = None,
                 kv_type: str | tuple[str, str] = "f16", use_mmap: bool = True,
                 precise: bool = False, deterministic: bool = False, strict: bool = False,
                 vocab_only: bool = False, check_tensors: bool = False,
                 on_oom: Sequence[str] = (), speculate: bool = True, n_draft: int = 15,
                 use_mlock: bool = False, numa: str | None = None,
                 packed_cache: bool | str | os.PathLike[str] = False,
                 progress: Callable[[LoadProgress], object] | None = None,
                 tokenizer: str | os.PathLike[str] | None = None) -> None:
        if n_draft < 1:
            raise InvalidArgument(f"n_draft={n_draft} makes no sense",
                                  hint="use a number from 1 on, or speculate=False for none")
        self._n_draft = n_draft if speculate else 0
        self.path = resolve_model(os.fspath(path), aliases={"tiny": TINY})
        mapping = map_file(str(self.path))
        reads = use_mmap and not vocab_only and self._reads_weights
        self._packed = cache_of(packed_cache, mapping if reads else None, strict=strict,
                                in_place=use_mmap and not use_mlock, progress=progress)
        ahead = PagesAhead(mapping) if reads and self._packed is None else None
        from unladen.backends.base import Options
        from unladen.gguf import check_numbers, open_gguf
        from unladen.setup import device_names
        self._file: GGUFFile = open_gguf(self.path, mapping)
        self._engine: Engine | None = None
        self._stepper = Stepper()
        used = Options(n_threads, n_threads_batch, precise, deterministic, numa, self._packed)
        metadata = self._file.metadata
        try:
            names = () if vocab_only else device_names(devices)
            wanted = self._stepper.submit(_tokenizer, tokenizer, metadata, str(self.path))
            if check_tensors:
                check_numbers(self._file)
            self._map_ahead(ahead, names, used)
            if not vocab_only:
                from unladen.ladder import Wishes
                from unladen.schedule.draft import LoadOptions, PlaceOptions, PlanOptions
                options = PlanOptions(
                    names,
                    PlaceOptions(n_gpu_layers, offload_order, split_mode, tensor_split, main_gpu,
                                 dict(override_tensor or {}), cpu_moe, n_cpu_moe, kv_offload,
                                 embed_device, head_device, expert_split, stream_weights),
                    used, use_mmap, strict, loading=LoadOptions(progress, use_mlock),
                    probe=os.environ.get(PROBE_VARIABLE) != "0")
                self._open(Wishes(options, context_size, batch_size, max_seqs, kv_type), on_oom)
            self._equip(wanted.result())
            self._file.drop_header()
        except BaseException:
            self._stepper.shutdown()  # what it does reads the file
            self.close()
            raise

    def _equip(self, tokenizer: Tokenizer) -> None:
        from unladen.sample import defaults
        from unladen.tokenizer import sequences
        self.tokenizer = tokenizer
        if self._engine is not None:
            self._engine.restrict(tokenizer.n_vocab)
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

    def generate(self, prompt: str | Sequence[int], *, max_tokens: int | None = None,
                 stop: str | Sequence[str] = (), logprobs: int | None = None,
                 sampler: SamplerChain | Sampler | None = None, **sampling: Any) -> Completion:
        """Continue ``prompt`` (text, or token ids taken as they are) and wait for all of it.

        ``max_tokens`` None: to the end of the context. ``stop`` strings end the text and are not
        part of it. ``logprobs``: 0 for those of the chosen tokens, n for that many alternatives
        too. How to choose tokens: the parameters of :class:`SamplingParams` (``temperature=0.0``,
        ``top_k=40``, ``seed=1``, ...), or a ``sampler`` of your own. An interrupt ends the
        generation; the model stays usable.
        """
        request = self._request(prompt, max_tokens, stop, logprobs, sampler, sampling)
        if not request.done:
            self.engine.finish(request)
        return result_of(request)

    def stream(self, prompt: str | Sequence[int], *, max_tokens: int | None = None,
               stop: str | Sequence[str] = (), logprobs: int | None = None,
               sampler: SamplerChain | Sampler | None = None, **sampling: Any) -> Stream:
        """:meth:`generate` piece by piece: iterate for text; ``.result`` is the completion."""
        return Stream(self.engine, self._request(prompt, max_tokens, stop, logprobs, sampler,
                                                 sampling))

    async def agenerate(self, prompt: str | Sequence[int], *, max_tokens: int | None = None,
                        stop: str | Sequence[str] = (), logprobs: int | None = None,
                        sampler: SamplerChain | Sampler | None = None, **sampling: Any
                        ) -> Completion:
        """:meth:`generate` for coroutines: those that run together make one batch. Cancelling the
        task cancels the generation."""
        request = self._request(prompt, max_tokens, stop, logprobs, sampler, sampling)
        async for _ in self._advance(request):
            pass
        return result_of(request)

    async def astream(self, prompt: str | Sequence[int], *, max_tokens: int | None = None,
                      stop: str | Sequence[str] = (), logprobs: int | None = None,
                      sampler: SamplerChain | Sampler | None = None, **sampling: Any
                      ) -> AsyncIterator[str]:
        """:meth:`stream` for coroutines."""
        request = self._request(prompt, max_tokens, stop, logprobs, sampler, sampling)
        async for piece in self._advance(request):
            yield piece
        result_of(request)

    def logits(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """float32 [len(tokens), n_vocab]: what the model expects after each of ``tokens``. Raises
        :class:`InvalidArgument` for an encoder."""
        if "logits" not in self._used_plan().draft.graph.outputs:
            raise InvalidArgument("the model is an encoder: it has no logits", hint="use embed()")
        return self._rows(tokens)

    def embed(self, text: str | Sequence[int], *, pooling: str | None = None,
              normalize: bool = True) -> npt.NDArray[np.float32]:
        """What an encoder makes of ``text`` (or of token ids, taken as they are). ``pooling``:
        "mean", "cls" (the first token) or "last" give float32 [n_embd], of length 1 with
        ``normalize``; "none" the tokens' own, [n_tokens, n_embd], as they are; None: as the file
        says, which may be "none". Raises :class:`InvalidArgument` for a model that is no encoder.
        """
        if "embeddings" not in self._used_plan().draft.graph.outputs:
            raise InvalidArgument("the model is no encoder", hint="use logits() or generate()")
        from unladen.pooling import chosen, pooled
        kind = chosen(pooling, self.architecture.hparams)
        rows = self._rows(self.tokenize(text) if isinstance(text, str) else text)
        return pooled(rows, kind, normalize=normalize)

    def _rows(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        import numpy as np

        from unladen.engine import Request
        from unladen.tokenizer import StreamDecoder
        request = Request(tokens, sampler=None, decoder=StreamDecoder(self.tokenizer))
        self.engine.submit(request)
        self.engine.finish(request)
        result_of(request)
        return np.concatenate(request.logits)

    def save_state(self, prompt: str | Sequence[int]) -> bytes:
        """What the model keeps of ``prompt`` (text, or token ids): keys, values, recurrent state,
        of as many tokens as fill whole cache blocks; what isn't there is computed first."""
        from unladen.engine import Request, state
        from unladen.sample import SamplerChain
        from unladen.tokenizer import StreamDecoder
        ids = self.tokenize(prompt) if isinstance(prompt, str) else list(prompt)
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
        return state.load(self.engine, data)

    def tokenize(self, text: str, *, add_bos: bool | None = None, special: bool = True
                 ) -> list[int]:
        """Token ids of ``text``; ``add_bos`` None: as the file says; ``special``: control tokens in
        the text are meant as such."""
        return self.tokenizer.encode(text, add_bos=add_bos, special=special)

    def detokenize(self, tokens: Sequence[int], *, special: bool = False) -> str:
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

    def place(self, **changes: Unpack[PlaceChanges]) -> None:
        """Compute elsewhere, with another context or cache type, from the next step on.

        Parameters as of :class:`Model`; what isn't given stays. Requests under way go on with the
        tokens that they have: their cache is copied where type and size allow, else computed again.
        Raises :class:`OutOfMemory`, :class:`InvalidArgument` and :class:`BackendNotInitialised`;
        the model then stays as it was.
        """
        if "devices" in changes:
            from unladen.setup import device_names
            changes["devices"] = device_names(changes["devices"])
        self._planner.place(self.engine, changes)

    def placement(self) -> str:
        """Each node of the graph, its device, and why."""
        return self._used_plan().explain()

    def memory(self) -> MemoryPlan:
        """Bytes by device, as planned and as allocated in fact."""
        return self._used_plan().memory()

    def close(self) -> None:
        """Free the memory; the model can't be used any more. Requests of other threads end with
        :class:`Cancelled`. Raises :class:`ReentrantCall` inside a step, and closes nothing then."""
        if self._engine is not None:
            self._engine.close()
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

    def _request(self, prompt: str | Sequence[int], max_tokens: int | None,
                 stop: str | Sequence[str], logprobs: int | None,
                 sampler: SamplerChain | Sampler | None, sampling: Mapping[str, Any]) -> Request:
        if max_tokens is not None and max_tokens < 0:
            raise InvalidArgument(f"max_tokens={max_tokens} makes no sense",
                                  hint="use a number from 0 on, or None for no limit")
        from unladen.engine import Request
        from unladen.tokenizer import StreamDecoder
        engine = self.engine
        ids = self.tokenize(prompt) if isinstance(prompt, str) else list(prompt)
        request = Request(
            ids, sampler=self._sampler(sampler, sampling, ids), eog_ids=self.tokenizer.eog_ids,
            decoder=StreamDecoder(self.tokenizer), n_logprobs=logprobs,
            stop=(stop,) if isinstance(stop, str) else stop,
            max_tokens=sys.maxsize if max_tokens is None else max_tokens)
        if max_tokens == 0:
            request.finish("length")
        else:
            engine.submit(request)
        return request

    def _sampler(self, sampler: SamplerChain | Sampler | None, sampling: Mapping[str, Any],
                 prompt: Sequence[int]) -> Sampler:
        from unladen.sample import SamplerChain, SamplingParams
        if sampler is not None and sampling:
            raise InvalidArgument(f"both a sampler and {', '.join(sampling)} are given",
                                  hint="use one way or the other")
        if sampler is None:
            known = SamplingParams.__dataclass_fields__
            if unknown := sorted(set(sampling) - set(known)):
                raise InvalidArgument(f"no such parameter: {', '.join(unknown)}",
                                      hint="known: " + ", ".join(sorted(known)))
            params = SamplingParams(**{**self.sampling_defaults, **sampling})
            breakers = (self._breakers(tuple(params.dry_sequence_breakers))
                        if params.dry_multiplier else ())
            chain = params.chain(breakers=breakers, eog_ids=sorted(self.tokenizer.eog_ids),
                                 suppress_ids=sorted(self.tokenizer.suppress_ids))
            sampler = chain.build(params.seed)
        elif isinstance(sampler, SamplerChain):
            sampler = sampler.build()
        sampler.accept_prompt(prompt)
        return sampler

    async def _advance(self, request: Request) -> AsyncIterator[str]:
        import asyncio
        loop = asyncio.get_running_loop()
        try:
            while not request.done:
                await loop.run_in_executor(self._stepper, self.engine.advance, request)
                while request.pieces:
                    yield request.pieces.popleft()
        finally:
            if not request.done:
                self.engine.cancel(request)


def _tokenizer(json: str | os.PathLike[str] | None, metadata: Metadata, path: str) -> Tokenizer:
    from unladen.tokenizer import JsonTokenizer, Tokenizer
    # Native, without the lock for the most part.
    return Tokenizer.from_gguf(metadata, path) if json is None else JsonTokenizer(json, metadata)
