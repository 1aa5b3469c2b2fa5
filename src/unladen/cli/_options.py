"""Options that several commands share, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from unladen.errors import InvalidArgument

if TYPE_CHECKING:
    from unladen.api import Model

ModelArg = Annotated[str, typer.Argument(
    metavar="MODEL", help="A GGUF file, 'tiny', or org/repo:QUANT on Hugging Face.")]
ContextSize = Annotated[int | None, typer.Option(
    "--context-size", "-c", show_default="the model's", help="Tokens of context.")]
BatchSize = Annotated[int, typer.Option("--batch-size", "-b", help="Tokens in one step.")]
Threads = Annotated[int | None, typer.Option(
    "--threads", "-t", show_default="one a core", help="Threads.")]
ThreadsBatch = Annotated[int | None, typer.Option(
    "--threads-batch", show_default="as --threads", help="Threads for prompts.")]
KVType = Annotated[str, typer.Option(
    "--kv-type", help="Type of the KV cache: f16, f32, q8_0, or two by comma for K and V.")]
DeviceOption = Annotated[str | None, typer.Option(
    "--device", show_default="cpu", help="Devices by comma, for example cpu or reference.")]
GpuLayers = Annotated[str, typer.Option(
    "--n-gpu-layers", "-ngl", help="Layers on devices other than the CPU: auto, all, or a number.")]
TensorSplit = Annotated[str | None, typer.Option(
    "--tensor-split", help="Shares of the devices by comma, for example 0.6,0.4.")]
OverrideTensor = Annotated[list[str] | None, typer.Option(
    "--override-tensor", "-ot", help="REGEX=DEVICE for weights by name; may be repeated.")]
OnOom = Annotated[str | None, typer.Option(
    "--on-oom", show_default="an error", help="What to give up where memory runs out, by comma: "
                                              "ubatch, kv:TYPE, layers, context.")]
Strict = Annotated[bool, typer.Option("--strict", help="Make every fallback an error.")]
NoMmap = Annotated[bool, typer.Option("--no-mmap", help="Copy the weights instead of mapping.")]


def load_model(path: str, *, context_size: int | None = None, batch_size: int = 512,
               threads: int | None = None, threads_batch: int | None = None,
               kv_type: str = "f16", device: str | None = None, gpu_layers: str = "auto",
               tensor_split: str | None = None, override_tensor: list[str] | None = None,
               strict: bool = False, no_mmap: bool = False, precise: bool = False,
               on_oom: str | None = None) -> Model:
    """The model that the options describe; raises :class:`InvalidArgument` for bad values."""
    from unladen.api import Model
    return Model(
        path, context_size=context_size, batch_size=batch_size, n_threads=threads,
        n_threads_batch=threads_batch, kv_type=_kv_types(kv_type),
        devices=None if device is None else [d for d in device.split(",") if d],
        n_gpu_layers=_gpu_layers(gpu_layers), tensor_split=_shares(tensor_split),
        override_tensor=_overrides(override_tensor or []), strict=strict, use_mmap=not no_mmap,
        precise=precise, on_oom=[rung for rung in (on_oom or "").split(",") if rung])


def numbers(text: str, option: str, *, least: int) -> list[int]:
    """Whole numbers by comma, each at least ``least``."""
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or min(values) < least:
        raise InvalidArgument(f"{option} {text!r} is no list of numbers from {least} on",
                              hint=f"for example {option} {max(least, 1)},128")
    return values


def _kv_types(text: str) -> str | tuple[str, str]:
    k_type, comma, v_type = text.partition(",")
    return (k_type, v_type) if comma else text


def _gpu_layers(text: str) -> int | Literal["auto", "all"]:
    if text == "auto":
        return "auto"
    if text == "all":
        return "all"
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"--n-gpu-layers {text!r} makes no sense",
                              hint="use auto, all, or a number") from None


def _shares(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgument(f"--tensor-split {text!r} is no list of numbers",
                              hint="for example --tensor-split 0.6,0.4") from None


def _overrides(texts: list[str]) -> Mapping[str, str]:
    result = {}
    for text in texts:
        pattern, equals, device = text.rpartition("=")
        if not equals or not pattern or not device:
            raise InvalidArgument(f"--override-tensor {text!r} is not REGEX=DEVICE",
                                  hint="for example --override-tensor 'ffn_.*=cpu'")
        result[pattern] = device
    return result
