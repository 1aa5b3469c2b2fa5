"""The page about environment variables: the meaning of each, and which module reads it."""

from __future__ import annotations

import re
from pathlib import Path

from reference.markdown import table

OURS = {
    "UNLADEN_DEVICES": "Devices by comma where none are given, for example `cpu`. Without it: GPUs "
                       "that `wgpu` reaches and the CPU; devices of other backends compute only "
                       "where they are named.",
    "UNLADEN_CPU_ISA": "The level of the CPU's kernels: `portable`, `avx2`, `avx512`, `vbmi`, "
                       "`neon`, `dotprod` or `i8mm`. Without it: the best that the processor has.",
    "UNLADEN_WGPU_FEATURES": "The adapter's features that kernels of `wgpu` may use, by comma: "
                             "`subgroups`, `int_dot`; or `none`.",
    "UNLADEN_OPENCL_FEATURES": "The device's features that `opencl` may use, by comma: "
                               "`subgroups`, `int_dot`, `command_buffers`; or `none`.",
    "UNLADEN_CUDA_FEATURES": "The card's features that kernels of `cuda` may use, by comma: "
                             "`subgroups`, `int_dot`, `mma`, `wgmma`, `pdl`; or `none`.",
    "UNLADEN_CUDA_NO_VMM": "`1`: caches on `cuda` are allocated whole, and don't grow.",
    "UNLADEN_NO_NCCL": "`1`: several cards add partial results by copies, also where NCCL or RCCL "
                       "is installed.",
    "UNLADEN_HIP_FEATURES": "The card's features that kernels of `hip` may use, by comma: "
                            "`subgroups`, `int_dot`; or `none`.",
    "UNLADEN_METAL_FEATURES": "`none`: kernels of `metal` don't use `subgroups`.",
    "UNLADEN_SYCL_FEATURES": "The device's features that kernels of `sycl` may use, by comma: "
                             "`subgroups`, `int_dot`; or `none`.",
    "UNLADEN_HUGE_PAGES": "`0`: weights of a mapped file stay where the system has them, in its "
                          "pages.",
    "UNLADEN_PACKED_CACHE": "The folder of packed copies, where `packed_cache` asks for them "
                            "without naming one.",
    "UNLADEN_KERNEL_CACHE": "The folder of compiled GPU kernels; empty: none are kept. Without it: "
                            "`unladen/kernels` in the folder of caches.",
    "UNLADEN_HISTORY": "The file of the messages of earlier conversations; empty: none is kept. "
                       "Without it: `unladen/history` in the folder of the user's state.",
    "UNLADEN_PLUGIN_PATH": "Folders with plug-ins, with `:` between them (`;` on Windows).",
    "UNLADEN_NULL_MEMORY": "Bytes of the null backend's devices, by comma.",
    "UNLADEN_GGML": "A libggml, or the folder that it is in, for the devices `ggml:0` and so on.",
    "UNLADEN_PROBE": "`0`: use every kernel without trying it on the device first.",
    "UNLADEN_KEY": "The key that clients of `unladen serve` must send, and that `unladen ps` and "
                   "`unladen stop` send, where `--key` gives none.",
    "UNLADEN_SERVER": "Where `unladen ps` and `unladen stop` find a server where `--server` "
                      "doesn't say it: `HOST:PORT`, an address, or `unix:PATH`.",
    "UNLADEN_MODELS": "The folder of models that `unladen create` and `unladen cp` make. Without "
                      "it: `unladen/models` in the folder of the user's data.",
    "UNLADEN_NAMES": "The table of short names of models. Without it: `unladen/names.toml` in the "
                     "folder of the user's settings.",
    "UNLADEN_DEBUG": "Any value does the same as `--debug`: tracebacks and debug messages.",
}
"""Variables that only unladen reads."""

OTHERS = {
    "HF_HOME": "The folder of Hugging Face's programs; models are in `hub` below it.",
    "HF_HUB_CACHE": "The folder of downloaded models.",
    "HF_HUB_OFFLINE": "`1`: models come from that folder only; the network isn't used.",
    "OLLAMA_MODELS": "The folder of Ollama's manifests and blobs.",
    "LLAMA_CACHE": "The folder of llama.cpp's downloads.",
    "HF_TOKEN": "The token for private and gated models.",
    "HF_ENDPOINT": "Another address in the place of `https://huggingface.co`.",
    "XDG_CACHE_HOME": "The folder of caches, `~/.cache` without it.",
    "XDG_STATE_HOME": "The folder of the user's state on Linux, `~/.local/state` without it.",
    "XDG_DATA_HOME": "The folder of the user's data, `~/.local/share` without it.",
    "XDG_CONFIG_HOME": "The folder of the user's settings, `~/.config` without it.",
    "LOCALAPPDATA": "The folder of the user's state and data on Windows.",
    "CUDA_VISIBLE_DEVICES": "Which NVIDIA cards the driver shows.",
    "HIP_VISIBLE_DEVICES": "Which AMD cards the driver shows.",
    "NO_COLOR": "Any value: no colours in help and progress bars, and no Markdown in answers.",
    "TERM": "`dumb` or `unknown`: no progress bars, and no Markdown in answers.",
    "COLUMNS": "The width of output on a terminal; by default the terminal's width.",
}
"""Variables that other programs define."""

HEAD = """# Environment variables

An option or parameter overrides a variable; a variable overrides automatic choices. What is said of
Windows and macOS has not run there yet.

"""
MIDDLE = """
"Read by" names the modules of `src/unladen/`.

These have the same meaning as in other programs:

"""


def page(root: Path) -> str:
    """The page's text. Fails where the package reads a variable that isn't described here, or
    doesn't read one that is."""
    package = root / "src/unladen"
    readers: dict[str, list[str]] = {}
    for path in sorted(package.rglob("*.py")):
        module = path.relative_to(package).with_suffix("").as_posix().removesuffix("/__init__")
        for name in sorted(set(re.findall(r'"(UNLADEN_[A-Z_]+)"',
                                          path.read_text(encoding="utf-8")))):
            readers.setdefault(name, []).append(f"`{module}`")
    unclear = set(readers) ^ set(OURS)
    assert not unclear, f"describe these in tools/reference/environment.py: {sorted(unclear)}"
    ours = table(("variable", "meaning", "read by"),
                 ((f"`{name}`", about, ", ".join(readers[name])) for name, about in OURS.items()))
    return HEAD + ours + MIDDLE + table(("variable", "meaning"), (
        (f"`{name}`", about) for name, about in OTHERS.items()))
