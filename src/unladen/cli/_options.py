"""Options that several commands share, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
SplitMode = Annotated[str, typer.Option(
    "--split-mode", "-sm", help="How devices share a model: none, layer, row or tensor.")]
MainGpu = Annotated[int, typer.Option(
    "--main-gpu", "-mg", help="The device of --split-mode none, and of what rows don't divide.")]
OffloadOrder = Annotated[str, typer.Option(
    "--offload-order", help="Which layers are offloaded: first, last, or as cost says.")]
CpuMoe = Annotated[bool, typer.Option("--cpu-moe", help="Keep all experts on the CPU.")]
NCpuMoe = Annotated[int | None, typer.Option(
    "--n-cpu-moe", show_default="as is fastest", help="Keep the experts of so many layers there.")]
NoKVOffload = Annotated[bool, typer.Option(
    "--no-kv-offload", help="Keep the KV cache and its attention on the CPU.")]
EmbedDevice = Annotated[str | None, typer.Option(
    "--embed-device", show_default="as is fastest", help="Where the token embeddings go.")]
HeadDevice = Annotated[str | None, typer.Option(
    "--head-device", show_default="as is fastest", help="Where the output head goes.")]
ExpertSplit = Annotated[str | None, typer.Option(
    "--expert-split", help="Shares of all devices in each layer's experts, for example 0.5,0.5.")]
OverrideTensor = Annotated[list[str] | None, typer.Option(
    "--override-tensor", "-ot", help="REGEX=DEVICE for weights by name; may be repeated.")]
OnOom = Annotated[str | None, typer.Option(
    "--on-oom", show_default="an error", help="What to give up where memory runs out, by comma: "
                                              "ubatch, kv:TYPE, layers, context.")]
Strict = Annotated[bool, typer.Option("--strict", help="Make every fallback an error.")]
NoMmap = Annotated[bool, typer.Option("--no-mmap", help="Copy the weights instead of mapping.")]


def load_model(path: str, *, threads: int | None = None, threads_batch: int | None = None,
               precise: bool = False, **options: Any) -> Model:
    """The model that the options describe, by the names of :func:`model_parameters`; raises
    :class:`InvalidArgument` for bad values."""
    from unladen.api import Model
    return Model(path, n_threads=threads, n_threads_batch=threads_batch, precise=precise,
                 **model_parameters(**options))


def model_parameters(
        *, context_size: int | None = None, batch_size: int = 512, kv_type: str = "f16",
        device: str | None = None, gpu_layers: str = "auto", split_mode: str = "layer",
        tensor_split: str | None = None, main_gpu: int = 0, offload_order: str = "first",
        override_tensor: list[str] | None = None, cpu_moe: bool = False,
        n_cpu_moe: int | None = None, no_kv_offload: bool = False, embed_device: str | None = None,
        head_device: str | None = None, expert_split: str | None = None, strict: bool = False,
        no_mmap: bool = False, on_oom: str | None = None) -> dict[str, Any]:
    """The options as parameters of a model."""
    return {
        "context_size": context_size, "batch_size": batch_size, "kv_type": _kv_types(kv_type),
        "devices": None if device is None else [d for d in device.split(",") if d],
        "n_gpu_layers": _gpu_layers(gpu_layers), "split_mode": split_mode,
        "tensor_split": _shares(tensor_split, "--tensor-split"), "main_gpu": main_gpu,
        "offload_order": offload_order, "override_tensor": _overrides(override_tensor or []),
        "cpu_moe": cpu_moe, "n_cpu_moe": n_cpu_moe, "kv_offload": not no_kv_offload,
        "embed_device": embed_device, "head_device": head_device,
        "expert_split": _shares(expert_split, "--expert-split"), "strict": strict,
        "use_mmap": not no_mmap, "on_oom": [rung for rung in (on_oom or "").split(",") if rung]}


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


def _shares(text: str | None, option: str) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgument(f"{option} {text!r} is no list of numbers",
                              hint=f"for example {option} 0.6,0.4") from None


def _overrides(texts: list[str]) -> Mapping[str, str]:
    result = {}
    for text in texts:
        pattern, equals, device = text.rpartition("=")
        if not equals or not pattern or not device:
            raise InvalidArgument(f"--override-tensor {text!r} is not REGEX=DEVICE",
                                  hint="for example --override-tensor 'ffn_.*=cpu'")
        result[pattern] = device
    return result
