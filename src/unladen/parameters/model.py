"""The parameters of :class:`unladen.Model`, which ``plan`` and ``place`` take as well.

Type checkers, the checks of values, the command line's options and the docstring all use the same
lines.
"""
# This module evaluates its annotations, because they are the table: it has no
# `from __future__ import annotations`.

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, TypedDict

from unladen.parameters.kinds import (
    Called,
    Choice,
    Either,
    Flag,
    Instance,
    Items,
    OrNone,
    Pair,
    Pairs,
    PathText,
    Pattern,
    Real,
    Text,
    Whole,
)
from unladen.parameters.table import Option as O
from unladen.parameters.table import Others, Table
from unladen.parameters.table import Parameter as P
from unladen.types import LoadProgress


class NamedDevice(Protocol):
    """A device as :func:`unladen.devices` lists it."""

    @property
    def name(self) -> str:
        """The device's name, such as "cpu:0"."""


FILES, DEVICES, MEMORY, SPEED, ERRORS = "Files", "Devices", "Memory", "Speed", "Errors"
SHARES = OrNone(Items(Real(0), "a list of shares, numbers from 0 on", "for example [3, 1]"))
COUNT = OrNone(Whole(1))
TOKENS = OrNone(Whole(1, 2**60))
"""Numbers of tokens. The limit is more than any memory holds, so that a number that is too large
raises :class:`OutOfMemory`."""
DEVICE = Either(Text("a device's name", filled=True), Instance(
    lambda value: not isinstance(value, type) and hasattr(value, "is_host"),
    "one of unladen.devices()"))
KV_TYPE = Choice("f16", "f32", "q8_0")


class _OthersNames(TypedDict, total=False):
    """Other programs' names for parameters of this package."""

    n_ctx: int
    num_ctx: int
    ctx_size: int
    context_length: int
    max_model_len: int
    max_seq_len: int
    n_batch: int
    n_ubatch: int
    num_batch: int
    n_seq_max: int
    num_gpu: int
    gpu_layers: int
    num_thread: int
    threads: int
    offload_kqv: bool
    mmap: bool
    mlock: bool
    model_path: str | os.PathLike[str]
    type_k: str
    type_v: str
    cache_type_k: str
    cache_type_v: str


class PlaceNames(_OthersNames, total=False):
    """The parameters that :meth:`unladen.Model.place` can change. One that isn't given keeps its
    value."""

    devices: Annotated[Sequence[str | NamedDevice] | None, P(
        OrNone(Items(DEVICE, "a list of device names", 'for example ["wgpu:0", "cpu"]',
                     filled=True)),
        None,
        'names like "cpu:0", or what devices() lists; None: those of UNLADEN_DEVICES, else the '
        "graphics hardware that wgpu reaches, if there is some, and the CPU; devices of other "
        "backends compute only where they are named",
        O("--device", help="Devices by comma, for example cpu or cuda:0,cpu.",
          without="GPUs of wgpu, and cpu"), DEVICES)]
    n_gpu_layers: Annotated[int | Literal["auto", "all"], P(
        Either(Choice("auto", "all"), Whole(-1)), "auto",
        'layers on devices other than the CPU; "all", -1 or as many as there are or more mean '
        'all, "auto" as many as is predicted to be fastest',
        O("--n-gpu-layers", "-ngl",
          help="Layers on devices other than the CPU: auto, all, or a number."), DEVICES)]
    offload_order: Annotated[str, P(
        Choice("first", "last", "cost"), "first",
        'which layers these are: the "first", the "last", or from the end that is predicted to '
        'be faster ("cost")',
        O("--offload-order",
          help="Which layers are offloaded: first, last, or cost (fastest)."), DEVICES)]
    split_mode: Annotated[str, P(
        Choice("layer", "none", "row", "tensor"), "layer",
        'how devices share the layers: "layer" gives each whole ones, "none" all to main_gpu, '
        '"row" divides matrices by rows, "tensor" by heads and columns',
        O("--split-mode", "-sm",
          help="How devices share it: none, layer, row or tensor."), DEVICES)]
    tensor_split: Annotated[Sequence[float] | None, P(
        SHARES, None, "shares of the devices, in any unit above 1 or fractions of 1; None: equal",
        O("--tensor-split", help="Shares of the devices by comma, for example 0.6,0.4.",
          without="equal ones"), DEVICES)]
    main_gpu: Annotated[int, P(
        Whole(0), 0,
        'number of the device that split_mode="none" uses, and that has what rows don\'t divide',
        O("--main-gpu", "-mg",
          help="The device of --split-mode none, and of what rows don't divide."), DEVICES)]
    override_tensor: Annotated[Mapping[str, str] | None, P(
        OrNone(Pairs(Pattern(), Text("a device's name", filled=True),
                     "a mapping from regular expressions to devices",
                     'for example {"exps": "cpu"}')),
        None, "regular expression over names of weights to device; the first that is found holds",
        O("--override-tensor", "-ot",
          help="REGEX=DEVICE for weights by name; may be repeated, or several by comma."), DEVICES)]
    cpu_moe: Annotated[bool, P(
        Flag(), False, "keep all experts on the CPU",
        O("--cpu-moe", help="Keep all experts on the CPU."), DEVICES)]
    n_cpu_moe: Annotated[int | None, P(
        OrNone(Whole(0)), None,
        "keep the experts of that many layers on the CPU; None: none, or with "
        'n_gpu_layers="auto" as many as is predicted to be fastest',
        O("--n-cpu-moe",
          help="Keep the experts of this many layers on the CPU.", without="fastest"), DEVICES)]
    kv_offload: Annotated[bool, P(
        Flag(), True, "False keeps the KV cache, and the attention over it, on the CPU",
        O("--no-kv-offload", help="Keep the KV cache and its attention on the CPU."), DEVICES)]
    embed_device: Annotated[str | None, P(
        OrNone(Text("a device's name", filled=True)), None,
        "where the token embeddings go; None: with the first layer, or where it is fastest",
        O("--embed-device", help="Where the token embeddings go.", without="fastest"),
        DEVICES)]
    head_device: Annotated[str | None, P(
        OrNone(Text("a device's name", filled=True)), None,
        "where the output head goes; None: with the last layer, or where it is fastest",
        O("--head-device", help="Where the output head goes.", without="fastest"), DEVICES)]
    expert_split: Annotated[Sequence[float] | None, P(
        SHARES, None, "shares of all devices, the CPU too, in each layer's experts",
        O("--expert-split",
          help="Shares of all devices in each layer's experts, for example 0.5,0.5.",
          without="whole with their layers"), DEVICES)]
    stream_weights: Annotated[bool | Literal["auto"], P(
        Either(Choice("auto"), Flag()), "auto",
        'send the CPU\'s weights through a GPU in steps of many tokens; "auto": where it is '
        "predicted to be faster",
        O("--stream-weights",
          help="Send the CPU's weights through a GPU in prompts: auto, on, off."), DEVICES)]
    expert_cache: Annotated[int | Literal["auto"], P(
        Either(Choice("auto"), Whole(0)), 0,
        "experts of each layer that keeps its experts on the CPU which the layer's GPU has too: "
        'those used most; "auto": as many as half of the memory holds that is left',
        O("--expert-cache",
          help="Most used experts of a layer to keep on its GPU: auto, or a number."), DEVICES)]
    context_size: Annotated[int | None, P(
        TOKENS, None,
        "tokens at most in one sequence; None: what the model was trained for, or less where "
        "memory is short",
        O("--context-size", "-c", help="Tokens of context.", without="the model's"), MEMORY)]
    cache_tokens: Annotated[int | None, P(
        TOKENS, None,
        "tokens of all sequences together that the cache holds, at least context_size; None: as "
        "memory leaves, up to a whole context for each of max_seqs",
        O("--cache-tokens", help="Tokens of all sequences together that the cache holds.",
          without="as memory leaves"), MEMORY)]
    batch_size: Annotated[int, P(
        Whole(1), 512, "tokens in one step",
        O("--batch-size", "-b", help="Tokens in one step."), MEMORY)]
    kv_type: Annotated[str | tuple[str, str], P(
        Either(KV_TYPE, Pair(KV_TYPE, "a pair of these for keys and values",
                             'for example kv_type=("q8_0", "f16")')), "f16",
        'type of the KV cache: "f16", "f32" or "q8_0", or a pair for keys and values',
        O("--kv-type", help="Type of the KV cache: f16, f32, q8_0, or two by comma for K and V."),
        MEMORY)]


class ModelNames(PlaceNames, total=False):
    """The parameters of :class:`unladen.Model` other than its file."""

    max_seqs: Annotated[int, P(
        Whole(1), 32, "sequences in one step", None, MEMORY)]
    max_queue: Annotated[int, P(
        Whole(0), 16384,
        "requests that may wait beyond those that the next step has room for; more raise QueueFull",
        None, MEMORY)]
    use_mmap: Annotated[bool, P(
        Flag(), True, "False copies the weights instead of mapping the file",
        O("--no-mmap", help="Copy the weights instead of mapping."), MEMORY)]
    use_mlock: Annotated[bool, P(
        Flag(), False, "keep the CPU's weights in memory, or warn that it can't be",
        O("--mlock", help="Keep the CPU's weights in memory."), MEMORY)]
    on_oom: Annotated[Sequence[str], P(
        Items(Text("the name of a rung", filled=True), "a list of rungs",
              'for example ["ubatch", "kv:q8_0", "layers", "context"]'),
        (), 'what to give up where memory runs out, in this order, of "ubatch", "kv:TYPE", '
        '"layers", "context"; without it that is an error',
        O("--on-oom",
          help="What to give up where memory runs out, by comma: ubatch, kv:TYPE, layers, context.",
          without="an error"), MEMORY)]
    packed_cache: Annotated[bool | str | os.PathLike[str], P(
        Either(Flag(), PathText()), False,
        "folder for a copy of the weights as this processor reads them fastest; True: that of "
        "UNLADEN_PACKED_CACHE, else ~/.cache/unladen/packed",
        O("--packed-cache", help="Keep a copy of the weights, packed for this processor."), FILES)]
    tokenizer: Annotated[str | os.PathLike[str] | None, P(
        OrNone(PathText()), None, "a tokenizer.json to use instead of the file's own tokenizer",
        O("--tokenizer", help="A tokenizer.json to use instead.", without="the model's own"),
        FILES)]
    vocab_only: Annotated[bool, P(
        Flag(), False, "load the tokenizer alone", None, FILES)]
    progress: Annotated[Callable[[LoadProgress], object] | None, P(
        OrNone(Called("a function of a LoadProgress")), None,
        "called while weights are loaded; what it raises ends that, with nothing left behind", None,
        FILES)]
    n_threads: Annotated[int | None, P(
        COUNT, None, "threads for steps of few tokens; None: one a core",
        O("--threads", "-t", help="Threads.", without="one a core"), SPEED)]
    n_threads_batch: Annotated[int | None, P(
        COUNT, None, "threads for prompts; None: as n_threads",
        O("--threads-batch", help="Threads for prompts.", without="as --threads"), SPEED)]
    speculate: Annotated[bool, P(
        Flag(), True,
        "guess ahead where a text repeats itself, if that is measured to be faster; the text is"
        " the same",
        O("--speculate/--no-speculate",
          help="Guess ahead where the text repeats itself, if it pays: the same text, sooner."),
        SPEED)]
    n_draft: Annotated[int, P(
        Whole(1, hint="speculate=False turns drafting off"), 15, "tokens guessed ahead at most",
        O("--n-draft", help="Tokens guessed ahead at most."), SPEED)]
    step_seconds: Annotated[float | None, P(
        OrNone(Real(0)), 0.4,
        "seconds that a step with prompts should take at most while other requests wait for its "
        "end; None: no bound",
        None, SPEED)]
    numa: Annotated[str | None, P(
        OrNone(Choice("distribute", "isolate", "numactl")), None,
        'where threads run: "distribute" spreads them over the memory\'s nodes, "isolate" keeps '
        'them on the caller\'s, "numactl" where the process is allowed to',
        O("--numa", help="Where threads run: distribute, isolate or numactl."), SPEED)]
    precise: Annotated[bool, P(
        Flag(), False, "keep activations float32 where they meet quantized weights", None, SPEED)]
    deterministic: Annotated[bool, P(
        Flag(), False,
        "the same logits to the last bit, whatever else is computed with them; on the CPU "
        "alone, and slower",
        O("--deterministic",
          help="The same logits to the last bit, whatever else is computed with them; slower."),
        SPEED)]
    strict: Annotated[bool, P(
        Flag(), False, "make every fallback an error",
        O("--strict", help="Make every fallback an error."), ERRORS)]
    check_tensors: Annotated[bool, P(
        Flag(), False, "look for NaN and infinity in all weights first, which takes a while",
        O("--check-tensors", help="Look for NaN and infinity in the weights first."), ERRORS)]


def _others() -> Others:
    from unladen.parameters.pasted import MODEL_NAMES
    return MODEL_NAMES


MODEL = Table.of("Model", ModelNames, _others)
PLACE = Table.of("place", PlaceNames, _others)
PATH = PathText("a path, 'tiny' or org/repo:QUANT", 'for example Model("model.gguf")')
NO_FILE: Any = ""
"""Stands for the path where the caller gave none."""
