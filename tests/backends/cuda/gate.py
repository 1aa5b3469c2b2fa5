"""Compiles kernels for NVIDIA's chips without one, and compares what they take with a record.

    PYTHONPATH=tests python tests/backends/cuda/gate.py            # all kernels for all chips
    PYTHONPATH=tests python tests/backends/cuda/gate.py --accept   # write what they take now

A kernel that takes more registers or shared memory, or spills more, than ``registers.json`` says
is a failure. ``--accept`` writes the record anew; with ``--sample N`` it has N variants of each
kernel. What isn't in it only has to compile. The record is of one version of NVRTC, that of the
dependency group ``cuda``; with another version all kernels only have to compile.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import cases
from backends._gpu.emulated import EmulatedBackend, EmulatedProgram
from backends._gpu.rounding import Rounding
from backends._gpu.storing import Norming, Storing
from cases import running
from cases.base import Case, Maker
from unladen import quants
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.cuda_like.compiler import Compiler, compiler_of
from unladen.backends._gpu.dispatch import Dispatch
from unladen.backends._gpu.lowering import registry
from unladen.backends.base import BackendOptions, Program
from unladen.backends.cuda.driver import CUDA, chip_named

CHIPS = (75, 80, 86, 89, 90, 100, 120)
RECORD = Path(__file__).with_name("registers.json")
WHAT = ("registers", "spilled bytes", "shared bytes")
VERBOSE = "--ptxas-options=-v"
REGISTERS = re.compile(r"Used (\d+) registers")
SPILLS = re.compile(r"(\d+) bytes spill (?:stores|loads)")
SHARED = re.compile(r"(\d+) bytes smem")
SLOWED = re.compile(r"\(C75\d\d\)")
"""The compiler's advice that it put waits between asynchronous products, or makes them one by
one."""

FORK = multiprocessing.get_context("fork")
"""How processes are made that compile: they have the compiler's library at once."""
Takes = tuple[int, ...]
"""What a kernel takes, as :data:`WHAT` names it."""
Found = tuple[str, int, Takes | str]
"""A kernel's name, a chip, and what it takes there or why it doesn't compile."""
Record = dict[str, dict[str, Takes]]
"""What each kernel takes on each chip, by their names."""


@dataclass(frozen=True)
class Text:
    """A kernel's name with all that it is compiled with, and its text."""

    name: str
    text: str


@cache
def nvrtc() -> Compiler | None:
    return compiler_of(CUDA)


def formats(rng: np.random.Generator) -> Iterator[Case]:
    """Products of few rows and of many with every block format."""
    for quant in sorted(quants.registry()):
        if c_texts.has_format(quant):
            n = 2 * max(32, quants.get(quant).block_size)
            for n_tokens in (1, 40):
                m = Maker(rng, n_tokens)
                yield m.case("linear", m.input("T", n),
                             weights={"w0": m.weight("w0", 70, n, quant=quant)})


def joined(backend: EmulatedBackend) -> Iterator[Dispatch]:
    """Nodes that one dispatch computes: products of several formats that store keys and values,
    norms that do, and norms whose rows are rounded."""
    rng, kv_types, found = np.random.default_rng(0), ("F16", "F16"), list[Program]()
    for formats in (["Q4_K", "Q4_K", "Q6_K"], ["Q8_0"] * 3, ["F16"] * 3):
        for style in ("norm", "neox"):
            case = Storing(rng, style, 8, formats=formats, kv_types=kv_types, n_in=256)
            found.append(case.compiled(backend, joined=True, options=BackendOptions())[0])
    for style in ("neox", ""):
        norms = Norming(rng, style, 8, dim=128, kv_types=kv_types)
        found.append(norms.compiled(backend, joined=True)[0])
    if "int_dot" in backend.target.features:
        found.append(Rounding(rng, ["Q4_K", "Q6_K"], 8).compiled(backend, joined=True)[0])
    for program in found:
        assert isinstance(program, EmulatedProgram)
        yield from program.lowered.dispatches


def texts(abilities: frozenset[str], port: Path = CUDA.port) -> list[Text]:
    """Every text that the lowering has for the cases of all ops, on chips with these abilities. The
    cases are the same each time."""
    found: dict[str, Text] = {}
    backend = EmulatedBackend(c_texts, features=abilities)
    for op, how in sorted(registry().items()):
        if not all(map(c_texts.has_kernel, how.kernels)):
            continue
        each: list[Case] = list(cases.registry()[op](np.random.default_rng(0)))
        if op == "linear":
            each += formats(np.random.default_rng(0))
        for case in each:
            if backend.supports(backend.target.device, case.node):
                program = running.Bench(backend, case).program
                assert isinstance(program, EmulatedProgram)
                for d in program.lowered.dispatches:
                    text = _text(d, port)
                    found.setdefault(text.name, text)
    for d in joined(backend):
        text = _text(d, port)
        found.setdefault(text.name, text)
    return list(found.values())


def _text(d: Dispatch, port: Path) -> Text:
    # The place of a cache's columns, of which cases have many, changes no kernel but by a number.
    constants = {k: min(v, 1) if k == "FIRST_COLUMN" else v for k, v in d.constants.items()}
    words = (k if v is True else f"{k}={v}" for k, v in sorted(constants.items())
             if v is not False)
    name = " ".join([d.kernel, d.quant or "-", *words])
    return Text(name, c_texts.assemble(d.kernel, d.quant, constants, port).text)


def takes(text: str, chip: int) -> Takes | str:
    """What the kernel takes on ``chip``, or why it doesn't compile."""
    compiler = nvrtc()
    assert compiler is not None
    target = compiler.target(chip_named(chip))
    assert target is not None
    code, log = compiler.attempt(text, (*CUDA.options(target), VERBOSE), target)
    if not code:
        return log or "the compiler makes nothing"
    if SLOWED.search(log):
        return f"the compiler makes products wait for each other: {log}"
    registers = REGISTERS.search(log)
    if registers is None:
        return f"the compiler doesn't say what it takes: {log}"
    return (int(registers[1]), sum(map(int, SPILLS.findall(log))),
            sum(map(int, SHARED.findall(log))))


def rise(name: str, chip: int, now: Takes | str, record: Mapping[str, Mapping[str, Takes]]) -> str:
    """What is wrong with a kernel: it doesn't compile, or takes more than it did. "": nothing."""
    if isinstance(now, str):
        return f"{name}\n  doesn't compile for {chip_named(chip).name}: {now}"
    before = record.get(name, {}).get(str(chip))
    more = [f"{a} {what} became {b}" for what, a, b in zip(WHAT, before or now, now, strict=True)
            if b > a]
    return f"{name}\n  on {chip_named(chip).name}: {', '.join(more)}" if more else ""


def load() -> Record:
    """The record, empty where it is of another version of NVRTC."""
    compiler = nvrtc()
    if compiler is None or not RECORD.exists():
        return {}
    data = json.loads(RECORD.read_text())
    if data["nvrtc"] != compiler.version:
        return {}
    return {name: {chip: takes for chips, takes in each.items() for chip in chips.split()}
            for name, each in data["kernels"].items()}


def save(record: Record) -> None:
    """Write the record, a line for each kernel. Chips on which it takes the same are one key."""
    compiler = nvrtc()
    assert compiler is not None
    kernels = []
    for name, each in sorted(record.items()):
        if not each:
            continue
        alike: dict[Takes, list[int]] = {}
        for chip, takes in each.items():
            alike.setdefault(tuple(takes), []).append(int(chip))
        chips = {" ".join(map(str, sorted(found))): takes for takes, found in alike.items()}
        kernels.append(f"{json.dumps(name)}: {json.dumps(chips, sort_keys=True)}")
    lines = ",\n".join(kernels)
    RECORD.write_text(f'{{"nvrtc": "{compiler.version}", "what": {json.dumps(WHAT)}, '
                      f'"kernels": {{\n{lines}\n}}}}\n')


def apart(text: str, chip: int) -> Takes | str:
    """:func:`takes`, in a process of its own, which a fault of the compiler may end."""
    found, made = multiprocessing.Pipe(duplex=False)
    child = FORK.Process(target=lambda: made.send(takes(text, chip)))
    child.start()
    made.close()
    try:
        now: Takes | str = found.recv()
    except EOFError:
        now = ""
    finally:
        found.close()
    child.join()
    return now or f"the compiler ends its process, with {child.exitcode}"


def _one(job: tuple[str, str, int]) -> Found:
    name, text, chip = job
    return name, chip, apart(text, chip)


def texts_for(chip: int) -> list[Text]:
    """Those for what the chip can do; for the oldest one also those that use no ability, which a
    trial may choose on each chip."""
    found = texts(chip_named(chip).abilities)
    if chip == CHIPS[0]:
        found = list({t.name: t for t in (*found, *texts(frozenset()))}.values())
    return found


def sampled(found: Sequence[Text], n: int) -> list[Text]:
    """``n`` variants of each kernel, evenly from all; all of them if ``n`` is 0."""
    by_kernel: dict[str, list[Text]] = {}
    for text in found:
        by_kernel.setdefault(text.name.split()[0], []).append(text)
    return [each[i * len(each) // min(n or len(each), len(each))] for each in by_kernel.values()
            for i in range(min(n or len(each), len(each)))]


def everything(chips: Sequence[int], kernels: Collection[str], n_each: int, n_jobs: int
               ) -> Iterator[Found]:
    """What each of ``kernels`` takes on each of ``chips``, or ``n_each`` variants of it; all
    kernels if there are none."""
    jobs = [(t.name, t.text, chip) for chip in chips for t in sampled(texts_for(chip), n_each)
            if not kernels or t.name.split()[0] in kernels]
    print(f"{len(jobs)} kernels to compile", file=sys.stderr)
    with ProcessPoolExecutor(n_jobs, mp_context=FORK) as pool:
        yield from pool.map(_one, jobs, chunksize=8)


def drawn(chips: Sequence[int], seconds: float, seed: int) -> Iterator[Found]:
    """What some kernels take on two of ``chips``, until ``seconds`` have passed: kernel by kernel,
    so that those with many variants don't take all turns."""
    rng, by_kernel = np.random.default_rng(seed), dict[str, list[tuple[int, Text]]]()
    for chip in rng.permutation(chips)[:2]:
        for text in texts_for(int(chip)):
            by_kernel.setdefault(text.name.split()[0], []).append((int(chip), text))
    end = time.monotonic() + seconds
    while True:
        for kernel in rng.permutation(sorted(by_kernel)):
            chip, text = by_kernel[kernel][rng.integers(len(by_kernel[kernel]))]
            yield text.name, chip, apart(text.text, chip)
            if time.monotonic() > end:
                return


def kept(record: Record, chips: Collection[int], kernels: Collection[str]) -> Record:
    """What stays of the record when ``kernels`` are compiled anew for ``chips``."""
    return {name: {chip: takes for chip, takes in each.items()
                   if int(chip) not in chips or (kernels and name.split()[0] not in kernels)}
            for name, each in record.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--accept", action="store_true", help="write the record anew")
    parser.add_argument("--chip", type=int, choices=CHIPS, action="append", help="only this one")
    parser.add_argument("--kernel", action="append", default=[], help="only this one")
    parser.add_argument("--sample", type=int, default=0, help="only so many variants of a kernel")
    parser.add_argument("--seconds", type=float, default=0.0,
                        help="draw kernels for so long, by the --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    compiler = nvrtc()
    if compiler is None:
        print(f"error: NVRTC is missing\nhint: {CUDA.no_compiler}", file=sys.stderr)
        return 2
    record, n_compiled, n_wrong, n_new = load(), 0, 0, 0
    chips = args.chip or CHIPS
    found = kept(record, chips, args.kernel)
    for name, chip, now in (drawn(chips, args.seconds, args.seed) if args.seconds else
                            everything(chips, args.kernel, args.sample, args.jobs)):
        wrong = rise(name, chip, now, record)
        if wrong and (isinstance(now, str) or not args.accept):
            n_wrong += 1
            print(f"FAILED {wrong}")
        n_compiled += not isinstance(now, str)
        n_new += str(chip) not in record.get(name, {})
        if not isinstance(now, str):
            found.setdefault(name, {})[str(chip)] = now
    print(f"{n_compiled} compiled", file=sys.stderr)
    if args.accept:
        save(found)
    elif n_wrong or n_new:
        print(f"{n_wrong} failed, {n_new} aren't in {RECORD.name}\n"
              "hint: if this is as it should be: make cubins CUBINS=--accept", file=sys.stderr)
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
