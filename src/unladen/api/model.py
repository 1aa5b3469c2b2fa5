"""Loads a model file into an object that writes text."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Unpack

from unladen._native.gguf import PagesAhead
from unladen.api.chat import Chatting
from unladen.api.generation import USUAL_NAMES
from unladen.api.guided import LazyGuide
from unladen.api.ranking import Ranking
from unladen.api.stepper import Stepper
from unladen.api.tap import Tapping
from unladen.api.wishes import (
    ParametersShown,
    given_of,
    options_of,
    plan_wishes,
    wanted_of,
    with_kv_type,
    within_trained,
)
from unladen.errors import InvalidArgument
from unladen.hub import INCLUDED, find_model
from unladen.parameters.model import NO_FILE, PLACE
from unladen.storage.mapping import map_file
from unladen.storage.packed import packed_cache as cache_of
from unladen.types import MAIN, Glance

# Other modules are imported where they are first needed. Meanwhile a thread without the GIL maps
# the file's pages, which takes about as long.
if TYPE_CHECKING:
    from unladen.assembly.ladder import Wishes
    from unladen.backends.base import BackendOptions, Device
    from unladen.engine import Engine
    from unladen.gguf import GGUFFile, Metadata, TensorInfo
    from unladen.parameters.model import ModelNames, PlaceNames
    from unladen.runtime.expert_cache import ExpertCounts
    from unladen.schedule.fit import MemoryPlan
    from unladen.tokenizer import Tokenizer

TINY = INCLUDED["tiny"]
"""The model that comes with the package and tells stories; ``Model("tiny")``."""
KEPT_BREAKERS: Final = 16
"""Lists of sequence breakers whose tokens are kept. Every token is looked at to find them; clients
of a server can send any number of lists."""


class Model(Ranking, Chatting, Tapping):
    """A model in memory, ready for any number of threads and coroutines.

    ``path`` is a file, ``"tiny"``, ``"tiny-chat"``, a name that ``unladen list`` shows, a short
    name such as ``llama3.2:1b``, or a Hugging Face reference such as ``org/repo:Q4_K_M``. The
    settings of a name that has some, such as one that ``unladen create`` made, hold where the
    caller gives no others. Names that other programs have for these
    parameters, such as llama-cpp-python's ``n_ctx``, are taken where they mean the same.
    :func:`plan` shows beforehand what goes where.

    Files:

    * ``packed_cache = False``: folder for a copy of the weights as this processor reads them
      fastest; True: that of UNLADEN_PACKED_CACHE, else ~/.cache/unladen/packed.
    * ``tokenizer = None``: a tokenizer.json to use instead of the file's own tokenizer.
    * ``vocab_only = False``: load the tokenizer alone.
    * ``progress = None``: called while weights are loaded; what it raises ends that, with nothing
      left behind.

    Devices:

    * ``devices = None``: names like "cpu:0", or what devices() lists; None: those of
      UNLADEN_DEVICES, else the graphics hardware that wgpu reaches, if there is some, and the CPU;
      devices of other backends compute only where they are named.
    * ``n_gpu_layers = 'auto'``: layers on devices other than the CPU; "all", -1 or as many as there
      are or more mean all, "auto" as many as is predicted to be fastest.
    * ``offload_order = 'first'``: which layers these are: the "first", the "last", or from the end
      that is predicted to be faster ("cost").
    * ``split_mode = 'layer'``: how devices share the layers: "layer" gives each whole ones, "none"
      all to main_gpu, "row" divides matrices by rows, "tensor" by heads and columns.
    * ``tensor_split = None``: shares of the devices, in any unit above 1 or fractions of 1; None:
      equal.
    * ``main_gpu = 0``: number of the device that split_mode="none" uses, and that has what rows
      don't divide.
    * ``override_tensor = None``: regular expression over names of weights to device; the first that
      is found holds.
    * ``cpu_moe = False``: keep all experts on the CPU.
    * ``n_cpu_moe = None``: keep the experts of that many layers on the CPU; None: none, or with
      n_gpu_layers="auto" as many as is predicted to be fastest.
    * ``kv_offload = True``: False keeps the KV cache, and the attention over it, on the CPU.
    * ``embed_device = None``: where the token embeddings go; None: with the first layer, or where
      it is fastest.
    * ``head_device = None``: where the output head goes; None: with the last layer, or where it is
      fastest.
    * ``expert_split = None``: shares of all devices, the CPU too, in each layer's experts.
    * ``stream_weights = 'auto'``: send the CPU's weights through a GPU in steps of many tokens;
      "auto": where it is predicted to be faster.
    * ``expert_cache = 0``: experts of each layer that keeps its experts on the CPU which the
      layer's GPU has too: those used most; "auto": as many as half of the memory holds that is
      left.

    Memory:

    * ``context_size = None``: tokens at most in one sequence; None: what the model was trained for,
      or less where memory is short.
    * ``cache_tokens = None``: tokens of all sequences together that the cache holds, at least
      context_size; None: as memory leaves, up to a whole context for each of max_seqs.
    * ``batch_size = 512``: tokens in one step.
    * ``kv_type = 'f16'``: type of the KV cache: "f16", "f32" or "q8_0", or a pair for keys and
      values.
    * ``max_seqs = 32``: sequences in one step.
    * ``max_queue = 16384``: requests that may wait beyond those that the next step has room for;
      more raise QueueFull.
    * ``use_mmap = True``: False copies the weights instead of mapping the file.
    * ``use_mlock = False``: keep the CPU's weights in memory, or warn that it can't be.
    * ``on_oom = ()``: what to give up where memory runs out, in this order, of "ubatch", "kv:TYPE",
      "layers", "context"; without it that is an error.

    Speed:

    * ``n_threads = None``: threads for steps of few tokens; None: one a core.
    * ``n_threads_batch = None``: threads for prompts; None: as n_threads.
    * ``speculate = True``: guess ahead where a text repeats itself, if that is measured to be
      faster; the text is the same.
    * ``n_draft = 15``: tokens guessed ahead at most.
    * ``step_seconds = 0.4``: seconds that a step with prompts should take at most while other
      requests wait for its end; None: no bound.
    * ``numa = None``: where threads run: "distribute" spreads them over the memory's nodes,
      "isolate" keeps them on the caller's, "numactl" where the process is allowed to.
    * ``precise = False``: keep activations float32 where they meet quantized weights.
    * ``deterministic = False``: the same logits to the last bit, whatever else is computed with
      them; on the CPU alone, and slower.

    Errors:

    * ``strict = False``: make every fallback an error.
    * ``check_tensors = False``: look for NaN and infinity in all weights first, which takes a
      while.

    Raises :class:`InvalidArgument` before anything is read; :class:`ModelNotFound`,
    :class:`GGUFError`, :class:`UnsupportedModel`, :class:`OutOfMemory`, with ``strict``
    :class:`MemoryLockError`.
    """

    __signature__ = ParametersShown()
    _reads_weights = True

    def __init__(self, path: str | os.PathLike[str] = NO_FILE, **parameters: Unpack[ModelNames]
                 ) -> None:
        path, given = given_of(path, parameters)
        found = find_model(path, aliases=INCLUDED, look=look)
        self.path, self._preset, self._record = found.path, found.preset, found.record
        self._ref = str(self.path) if found.preset is None else path
        wanted = wanted_of(given, found.preset)
        self._n_draft = wanted["n_draft"] if wanted["speculate"] else 0
        self._max_queue, self._step_seconds = wanted["max_queue"], wanted["step_seconds"]
        mapping = map_file(str(self.path))
        reads = wanted["use_mmap"] and not wanted["vocab_only"] and self._reads_weights
        self._packed = cache_of(
            wanted["packed_cache"], mapping if reads else None, strict=wanted["strict"],
            in_place=wanted["use_mmap"] and not wanted["use_mlock"], progress=wanted["progress"])
        ahead = PagesAhead(mapping) if reads and self._packed is None else None
        from unladen.assembly.setup import device_names
        from unladen.gguf import check_numbers, open_gguf
        self._file: GGUFFile = open_gguf(self.path, mapping)
        if given.get("context_size") is None:
            wanted["context_size"] = within_trained(wanted["context_size"], self._file.metadata)
        self._engine: Engine | None = None
        self._stepper = Stepper()
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
            self._stepper.shutdown()  # its work reads the file, which is closed next
            self.close()
            raise

    def _equip(self, tokenizer: Tokenizer) -> None:
        from unladen.sample import defaults
        from unladen.tokenizer import sequences
        self.tokenizer = tokenizer
        self._guide = LazyGuide(tokenizer)
        self._formats = {}
        if self._engine is not None:
            self._engine.restrict(tokenizer.n_vocab)
        usual = {} if self._preset is None else self._preset.answering()
        self._usual = {name: usual.pop(name) for name in USUAL_NAMES if name in usual}
        self.sampling_defaults = {**defaults(self._file.metadata), **usual}
        self._breakers = functools.lru_cache(KEPT_BREAKERS)(
            functools.partial(sequences, tokenizer))

    def _map_ahead(self, begun: PagesAhead | None, devices: Sequence[str | Device],
                   options: BackendOptions) -> None:
        """Let ``begun`` go on if weights are used where they lie in the mapped file; else end
        it."""
        from unladen.backends import backend_of
        if begun is None:
            return
        if all((backend_of(d).open(d, options) if isinstance(d, str) else d).is_host
               for d in devices):
            self._file.map_ahead(begun)
        else:
            begun.stop()

    def _open(self, wishes: Wishes, on_oom: Sequence[str]) -> None:
        from unladen.assembly.planner import Planner
        from unladen.assembly.sources import Sources
        from unladen.models import load_architecture
        self.architecture = load_architecture(self._file)
        self._planner = Planner(Sources(self._file), {MAIN: self.architecture}, wishes, on_oom)
        self._engine = self._planner.load(self._n_draft, self._max_queue, self._step_seconds)
        self._file.finish_mapping()
        if self._packed is not None:
            self._packed.finish()

    @property
    def engine(self) -> Engine:
        """The engine that runs the requests; raises :class:`InvalidArgument` after ``vocab_only``
        or :meth:`close`."""
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
        return self._used_plan().blueprint.n_offloaded()

    @property
    def degradations(self) -> Sequence[str]:
        """What was given up where memory ran out, oldest first; see ``on_oom``."""
        return tuple(self._planner.degradations) if self._engine is not None else ()

    def place(self, **changes: Unpack[PlaceNames]) -> None:
        """Compute on other devices, or with another context or cache type, from the next step on.
        Takes parameters of :class:`Model`; those that aren't given keep their values. Requests
        under way go on with the tokens that they have: their cache is copied where type, size and
        free memory allow, else computed again. Raises :class:`OutOfMemory`,
        :class:`InvalidArgument` and :class:`BackendNotInitialised`; the model then stays as it was.
        """
        taken: Any = PLACE.taken(with_kv_type(changes))
        if "devices" in taken:
            from unladen.assembly.setup import device_names
            taken["devices"] = device_names(taken["devices"])
        engine = self.engine
        self._planner.place(engine, taken)

    def placement(self) -> str:
        """Each node of the graph, its device, and why it is there."""
        return self.engine.plans.explain()

    def memory(self) -> MemoryPlan:
        """Bytes by device, both as planned and as allocated."""
        return self.engine.plans.memory()

    def expert_counts(self) -> ExpertCounts:
        """How many choices of experts fell on those that ``expert_cache`` keeps on devices, and how
        many experts it replaced, since the model was loaded or ``expert_cache`` changed."""
        return self.engine.plans.expert_counts()

    def close(self) -> None:
        """Free the memory; the model can't be used any more. Requests of other threads end with
        :class:`Cancelled`. Inside a step this raises :class:`ReentrantCall` and closes nothing."""
        if self._engine is not None:
            self._planner.close(self._engine)
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
        layers = numbers(self._used_plan().blueprint.layers)
        return (f"<Model {name!r}: {self.architecture.arch}, {layers} layers, context of "
                f"{self.context_size} tokens>")

    if not TYPE_CHECKING:  # hidden from type checkers, which then report misspelt names
        def __getattr__(self, name: str) -> object:
            from unladen.parameters.pasted import METHODS
            hint = f": use {METHODS[name]}" if name in METHODS else ""
            raise AttributeError(f"Model has no attribute {name!r}{hint}", name=name, obj=self)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def look(path: Path) -> Glance:
    """What the file at ``path`` is, by its header."""
    from unladen.gguf.glance import glance
    return glance(path)


def _tokenizer(json: str | os.PathLike[str] | None, metadata: Metadata, path: str) -> Tokenizer:
    from unladen.tokenizer import JsonTokenizer, Tokenizer
    # Runs in native code with the GIL released for the most part.
    return Tokenizer.from_gguf(metadata, path) if json is None else JsonTokenizer(json, metadata)
