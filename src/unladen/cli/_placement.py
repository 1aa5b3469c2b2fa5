"""The options of placement, which every command that computes has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import typer

from unladen.cli._extend import Parameters, extended
from unladen.cli._progress import loading_line
from unladen.errors import InvalidArgument


def placeable(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options of :func:`placement` on its command line; it takes what becomes
    of them as one parameter ``placement``."""
    return extended(command, placement)


def placement(
    *, device: Annotated[str | None, typer.Option(
        "--device", show_default="a GPU, if there is one, and cpu",
        help="Devices by comma, for example cpu or wgpu:0,cpu.")] = None,
    gpu_layers: Annotated[str, typer.Option(
        "--n-gpu-layers", "-ngl",
        help="Layers on devices other than the CPU: auto, all, or a number.")] = "auto",
    split_mode: Annotated[str, typer.Option(
        "--split-mode", "-sm", help="How devices share it: none, layer, row or tensor.")] = "layer",
    tensor_split: Annotated[str | None, typer.Option(
        "--tensor-split", help="Shares of the devices by comma, for example 0.6,0.4.")] = None,
    main_gpu: Annotated[int, typer.Option(
        "--main-gpu", "-mg",
        help="The device of --split-mode none, and of what rows don't divide.")] = 0,
    offload_order: Annotated[str, typer.Option(
        "--offload-order", help="Which layers are offloaded: first, last, or as cost says."
    )] = "first",
    override_tensor: Annotated[list[str] | None, typer.Option(
        "--override-tensor", "-ot",
        help="REGEX=DEVICE for weights by name; may be repeated.")] = None,
    cpu_moe: Annotated[bool, typer.Option(
        "--cpu-moe", help="Keep all experts on the CPU.")] = False,
    n_cpu_moe: Annotated[int | None, typer.Option(
        "--n-cpu-moe", show_default="as is fastest",
        help="Keep the experts of so many layers there.")] = None,
    no_kv_offload: Annotated[bool, typer.Option(
        "--no-kv-offload", help="Keep the KV cache and its attention on the CPU.")] = False,
    embed_device: Annotated[str | None, typer.Option(
        "--embed-device", show_default="as is fastest",
        help="Where the token embeddings go.")] = None,
    head_device: Annotated[str | None, typer.Option(
        "--head-device", show_default="as is fastest", help="Where the output head goes.")] = None,
    expert_split: Annotated[str | None, typer.Option(
        "--expert-split",
        help="Shares of all devices in each layer's experts, for example 0.5,0.5.")] = None,
    stream_weights: Annotated[str, typer.Option(
        "--stream-weights", help="Send the CPU's weights through a GPU in prompts: auto, on, off."
    )] = "auto",
    strict: Annotated[bool, typer.Option(
        "--strict", help="Make every fallback an error.")] = False,
    no_mmap: Annotated[bool, typer.Option(
        "--no-mmap", help="Copy the weights instead of mapping.")] = False,
    mlock: Annotated[bool, typer.Option(
        "--mlock", help="Keep the CPU's weights in memory.")] = False,
    packed_cache: Annotated[bool, typer.Option(
        "--packed-cache", help="Keep a copy of the weights, packed for this processor.")] = False,
    numa: Annotated[str | None, typer.Option(
        "--numa", help="Where threads run: distribute, isolate or numactl.")] = None,
) -> Parameters:
    """The options as parameters of a model; raises :class:`InvalidArgument`."""
    return {
        "devices": None if device is None else [d for d in device.split(",") if d],
        "n_gpu_layers": _gpu_layers(gpu_layers), "split_mode": split_mode,
        "tensor_split": _shares(tensor_split, "--tensor-split"), "main_gpu": main_gpu,
        "offload_order": offload_order, "override_tensor": _overrides(override_tensor or []),
        "cpu_moe": cpu_moe, "n_cpu_moe": n_cpu_moe, "kv_offload": not no_kv_offload,
        "embed_device": embed_device, "head_device": head_device,
        "expert_split": _shares(expert_split, "--expert-split"),
        "stream_weights": _streams(stream_weights), "strict": strict, "use_mmap": not no_mmap,
        "use_mlock": mlock, "packed_cache": packed_cache, "numa": numa, "progress": loading_line()}


def _streams(text: str) -> bool | Literal["auto"]:
    meanings: dict[str, bool | Literal["auto"]] = {"auto": "auto", "on": True, "off": False}
    if text not in meanings:
        raise InvalidArgument(f"--stream-weights {text!r} makes no sense",
                              hint="use " + ", ".join(meanings))
    return meanings[text]


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
