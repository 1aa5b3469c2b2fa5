"""Quantizes a file with unladen and with llama.cpp in turn, and compares time and error.

    python benchmarks/quantize.py --peer /path/to/llama-quantize model-F16.gguf Q4_K_M Q8_0
    python benchmarks/quantize.py --peer ... --errors --imatrix i.gguf model-F16.gguf Q4_K_M
    python benchmarks/quantize.py --kernels /path/to/libggml-base.so

The first prints the medians of the times of whole processes and their ratio. The second prints the
ratio of squared errors for each tensor, weighted with the importance matrix if one is given. The
third prints millions of weights per second that each format's search encodes in memory, on one
thread.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

from unladen import quants
from unladen._native import cpu as native
from unladen.gguf import TensorInfo, open_gguf
from unladen.quantizing import read_imatrix

Floats = npt.NDArray[np.float32]
FORMATS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
           "IQ4_XS", "MXFP4")


def commands(args: argparse.Namespace, name: str, threads: int, targets: Sequence[Path]
             ) -> tuple[list[str], list[str]]:
    extra = ["--imatrix", str(args.imatrix)] if args.imatrix else []
    own = [sys.executable, "-m", "unladen", "quantize", str(args.model), str(targets[0]), name,
           "--force", "--threads", str(threads), *extra]
    peer = [str(args.peer), *extra, str(args.model), str(targets[1]), name, str(threads)]
    return own, peer


def seconds(command: Sequence[str], target: Path) -> float:
    target.unlink(missing_ok=True)
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def compare_times(args: argparse.Namespace, folder: Path) -> None:
    targets = folder / "own.gguf", folder / "peer.gguf"
    print("| type | threads | unladen, s | llama-quantize, s | ratio | same bytes |")
    print("| --- | --- | --- | --- | --- | --- |")
    args.model.read_bytes()  # into the page cache
    for name in args.types:
        for threads in args.threads:
            pair = commands(args, name, threads, targets)
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(args.rounds):
                for command, target, taken in zip(pair, targets, times, strict=True):
                    taken.append(seconds(command, target))
            own, peer = map(median, times)
            print(f"| {name} | {threads} | {own:.2f} | {peer:.2f} | {peer / own:.1f} "
                  f"| {same_bytes(*targets)} |", flush=True)


def same_bytes(a: Path, b: Path) -> str:
    return "yes" if subprocess.run(["cmp", "-s", a, b], check=False).returncode == 0 else "no"


def floats(tensor: TensorInfo) -> Floats:
    return quants.dequantize(tensor.quant, tensor.data, tensor.shape)


def compare_errors(args: argparse.Namespace, folder: Path) -> None:
    targets = folder / "own.gguf", folder / "peer.gguf"
    weights = read_imatrix(args.imatrix).entries if args.imatrix else {}
    for name in args.types:
        for command, target in zip(commands(args, name, args.threads[-1], targets), targets,
                                   strict=True):
            seconds(command, target)
        ratios = []
        with open_gguf(args.model) as source, open_gguf(targets[0]) as own, \
                open_gguf(targets[1]) as peer:
            for tensor in source.tensors.values():
                x, weight = floats(tensor), weights.get(tensor.name)
                factor = (1 if weight is None
                          else weight.reshape(-1, 1, x.shape[-1]) if x.ndim > 2 else weight)
                found = [float(((floats(file.tensors[tensor.name]) - x).astype(np.float64)**2
                                * factor).sum()) for file in (own, peer)]
                ratios.append(found[0] / found[1] if found[1] else float(found[0] > 0) + 1.0)
                if args.verbose:
                    print(f"{tensor.name:32} {own.tensors[tensor.name].quant:6} {ratios[-1]:.6f}")
        print(f"{name}: error of unladen's over llama-quantize's, {len(ratios)} tensors: from "
              f"{min(ratios):.6f} to {max(ratios):.6f}; same bytes: {same_bytes(*targets)}")


def rate(run: Callable[[], object], n_weights: int) -> float:
    """Millions of weights per second in the best of five runs."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return n_weights / min(times) / 1e6


def compare_kernels(library: Path) -> None:
    chunk = ctypes.CDLL(str(library)).ggml_quantize_chunk
    chunk.restype = ctypes.c_size_t
    chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3,
                      ctypes.c_void_p]
    rng = np.random.default_rng()
    x = (rng.standard_normal((128, 2048)) * 0.02).astype(np.float32)
    few, weights = x[:8], rng.random(2048, np.float32) + np.float32(0.1)
    levels = native.levels()
    print(f"| format | imatrix | llama.cpp | {' | '.join(levels)} | ratio |")
    print("| --- " * (4 + len(levels)) + "|")
    for name in FORMATS:
        quant = quants.get(name)
        out = np.zeros((8, quant.row_bytes(2048)), np.uint8)
        for given in (None, weights):
            address = None if given is None else given.ctypes.data
            theirs = partial(chunk, quant.type_id, few.ctypes.data, out.ctypes.data, 0, 8, 2048,
                             address)
            peer = rate(theirs, few.size)
            own = [rate(partial(native.quantize, name, x, given, quant.row_bytes(2048), level),
                        x.size) for level in levels]
            print(f"| {name} | {'' if given is None else 'yes'} | {peer:.1f} | "
                  f"{' | '.join(f'{r:.0f}' for r in own)} | {own[-1] / peer:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("types", nargs="*", default=["Q4_K_M", "Q8_0"])
    parser.add_argument("--peer", type=Path, help="llama.cpp's llama-quantize")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--imatrix", type=Path)
    parser.add_argument("--errors", action="store_true", help="compare errors, not times")
    parser.add_argument("--verbose", action="store_true", help="the error of every tensor")
    parser.add_argument("--kernels", type=Path, metavar="LIBRARY", help="llama.cpp's libggml-base")
    parser.add_argument("--folder", type=Path, help="where the files are written")
    args = parser.parse_args()
    if args.kernels:
        compare_kernels(args.kernels)
    if args.model:
        if not args.peer or not os.access(args.peer, os.X_OK):
            parser.error("--peer is needed: the path of llama-quantize")
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            (compare_errors if args.errors else compare_times)(args, Path(folder))


if __name__ == "__main__":
    main()
