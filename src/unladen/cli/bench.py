"""``unladen bench MODEL``: tokens per second, in llama-bench's tests and columns."""

from __future__ import annotations

import csv
import datetime
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unladen.cli import _options as o
from unladen.cli._extend import Parameters
from unladen.cli._fetch import fetched
from unladen.cli._loading import kv_types
from unladen.cli._notes import note_unused
from unladen.cli._placement import placeable
from unladen.cli._progress import Bar
from unladen.cli._table import entry, paragraph, room
from unladen.errors import InvalidArgument

if TYPE_CHECKING:
    from unladen.api import Model
    from unladen.measure.speed import Result

COLUMNS = ("model", "size", "params", "backend", "threads", "n_batch", "type_kv", "test", "t/s")


@placeable
def command(
    model: o.ModelArg,
    n_prompt: Annotated[str, typer.Option("-p", "--n-prompt", help="Prompt tokens.")] = "512",
    n_gen: Annotated[str, typer.Option("-n", "--n-gen", help="Generated tokens.")] = "128",
    n_depth: Annotated[str, typer.Option("-d", "--n-depth", help="Tokens before a test.")] = "0",
    n_seqs: Annotated[str, typer.Option(
        "-s", "--n-seqs", help="Sequences that generate together.")] = "1",
    repetitions: Annotated[int, typer.Option("-r", "--repetitions", help="Of each test.")] = 5,
    threads: Annotated[str | None, typer.Option(
        "-t", "--threads", show_default="one a core", help="Threads.")] = None,
    batch_size: Annotated[str, typer.Option(
        "-b", "--batch-size", help="Tokens in a step.")] = "512",
    logits: Annotated[bool, typer.Option(
        "--logits", help="Compute all logits, as drawing tokens needs; else the likeliest token."
    )] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write llama-bench's JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="The same by comma.")] = False,
    kv_type: o.KVType = "f16", *, placement: Parameters,
) -> None:
    """Time prompts (pp) and generation (tg). Options that name a number take several, by comma."""
    from unladen.api import Model
    from unladen.measure.speed import measure, tests
    wanted = list(tests(o.numbers(n_prompt, "-p", least=0), o.numbers(n_gen, "-n", least=0),
                        o.numbers(n_depth, "-d", least=0), o.numbers(n_seqs, "-s", least=1)))
    if not wanted or repetitions < 1:
        raise InvalidArgument("there is nothing to time", hint="for example -p 512 -n 128 -r 5")
    path, records = fetched(model), list[dict[str, Any]]()
    for n_threads in [None] if threads is None else o.numbers(threads, "-t", least=1):
        for n_batch in o.numbers(batch_size, "-b", least=1):
            loaded = Model(
                path, context_size=max(t.context for t in wanted),
                batch_size=n_batch, n_threads=n_threads, kv_type=kv_types(kv_type), **placement)
            with loaded:
                if not records:
                    note_unused(loaded, placement, as_json=as_json or as_csv)
                for test in wanted:
                    with Bar(test.name) as bar:
                        result = measure(loaded, test, repetitions, logits=logits,
                                         progress=partial(bar, total=repetitions))
                    records.append(record(loaded, result, n_threads, n_batch, kv_type)
                                   | {"logits": logits})
                    if not as_json and not as_csv:
                        _print_row(records, room())
    if as_json:
        json.dump(records, sys.stdout, indent=1)
        sys.stdout.write("\n")
    elif as_csv:
        _print_csv(records)


def record(model: Model, result: Result, n_threads: int | None, n_batch: int, kv_type: str
           ) -> dict[str, Any]:
    """One result under llama-bench's field names."""
    from unladen.backends.cpu.features import n_physical_cores, processor_name
    tensors = model.tensors
    kv = kv_type.split(",")
    devices = [d.name for d in model.engine.plan.blueprint.devices]
    n_params = sum(t.n_elements for t in tensors.values())
    ns = result.samples_ns
    return {
        "cpu_info": processor_name(), "gpu_info": "", "backends": ",".join(devices),
        "model_filename": str(model.path), "model_type": model_type(model, n_params),
        "model_size": sum(t.nbytes for t in tensors.values()), "model_n_params": n_params,
        "n_batch": n_batch, "n_ubatch": n_batch, "n_threads": n_threads or n_physical_cores(),
        "type_k": kv[0], "type_v": kv[-1],
        "n_prompt": result.test.n_prompt, "n_gen": result.test.n_gen,
        "n_depth": result.test.n_depth, "n_seqs": result.test.n_seqs,
        "test_time": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "avg_ns": sum(ns) // len(ns), "stddev_ns": _stddev(ns),
        "avg_ts": result.avg_ts, "stddev_ts": result.stddev_ts,
        "samples_ns": ns, "samples_ts": result.samples_ts, "test": result.test.name,
    }


def model_type(model: Model, n_params: int) -> str:
    """Architecture, size and the type of most weights: "llama 1.24 B Q4_K"."""
    by_type: dict[str, int] = {}
    for tensor in model.tensors.values():
        by_type[tensor.quant] = by_type.get(tensor.quant, 0) + tensor.n_elements
    quant = max(by_type, key=lambda q: by_type[q])
    return f"{model.architecture.arch} {_scaled(n_params)} {quant}"


def _stddev(samples: list[int]) -> int:
    import statistics
    return int(statistics.stdev(samples)) if len(samples) > 1 else 0


def _scaled(n: int) -> str:
    for unit, size in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if n >= size:
            return f"{n / size:.2f} {unit}"
    return str(n)


def _print_row(records: list[dict[str, Any]], columns: int) -> None:
    """Print the last of ``records`` under llama-bench's head. Where that is too wide for the
    terminal, print only the columns that differ between rows."""
    last = records[-1]
    cells = (last["model_type"], f"{last['model_size'] / 2**20:.2f} MiB",
             _scaled(last["model_n_params"]), last["backends"], last["n_threads"], last["n_batch"],
             f"{last['type_k']}/{last['type_v']}", last["test"],
             f"{last['avg_ts']:.2f} ± {last['stddev_ts']:.2f}")
    if columns < max(len("|  |".join(map(str, row))) + 4 for row in (COLUMNS, cells)):
        _print_narrow(records, columns, cells[-1])
        return
    if len(records) == 1:
        print("| " + " | ".join(COLUMNS) + " |")
        print("|" + "|".join(" --- " for _ in COLUMNS) + "|")
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def _print_narrow(records: list[dict[str, Any]], columns: int, speed: str) -> None:
    first, last = records[0], records[-1]
    if len(records) == 1:
        about = (f"{first['model_type']}, {first['model_size'] / 2**20:.2f} MiB, "
                 f"{first['backends']}, {first['n_threads']} threads, n_batch {first['n_batch']}, "
                 f"cache {first['type_k']}/{first['type_v']} (t/s)")
        print("\n".join(paragraph(about, columns)))
    test = str(last["test"])
    for name, sign in (("n_threads", "t"), ("n_batch", "b")):
        if any(r[name] != first[name] for r in records):
            test += f" -{sign} {last[name]}"
    print("\n".join(entry(f"{test}  ", speed, columns, at=20)), flush=True)


def _print_csv(records: list[dict[str, Any]]) -> None:
    names = [n for n in records[0] if not n.startswith("samples")]
    writer = csv.DictWriter(sys.stdout, names, extrasaction="ignore", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(records)
