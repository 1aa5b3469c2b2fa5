"""Compares tokenizing with llama.cpp: the same vocabularies and text, alternating processes.

    python benchmarks/tokenizing.py --peer /path/to/venv/bin/python vocab-a.gguf vocab-b.gguf
    python benchmarks/tokenizing.py --worst vocab-a.gguf

``--peer`` is a Python that has llama-cpp-python. The output has, for each file, the medians of
megabytes of text per second on one core, in the first call of a fresh process, and of the seconds
from opening the file to a tokenizer that is ready. The text is Python's own ``help`` on the
language, half a megabyte of English, or ``--text FILE``. ``--worst`` times text that is made to be
slow instead, a megabyte of each kind.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

WORST = {"one letter": "a", "spaces": " ", "combining marks": "\u0301", "digits": "1",
         "quotes": "'", "line feeds": "\n", "Chinese": "中", "emoji": "🚀", "accented": "e\u0301",
         "letters and marks in turn": "x\u0327", "capitals in turn": "aB", "<": "<",
         "spaces and lines": " \n", "no spaces": "abcdefghijklmnopqrstuvwxyz"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocab", nargs="+", help="GGUF files")
    parser.add_argument("--peer", help="a Python with llama-cpp-python")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worst", action="store_true")
    parser.add_argument("--worker", choices=["unladen", "peer"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        json.dump((_unladen if args.worker == "unladen" else _peer)(args.vocab[0], _text(args)),
                  sys.stdout)
    elif args.worst:
        _worst(args.vocab)
    else:
        _compare(args)


def _compare(args: argparse.Namespace) -> None:
    pythons = {"unladen": sys.executable} | ({"peer": args.peer} if args.peer else {})
    print("| vocabulary | MB/s | peer's | ratio | ready, s | peer's | ratio |\n"
          "| --- | --- | --- | --- | --- | --- | --- |")
    for vocab in args.vocab:
        found: dict[str, list[dict[str, float]]] = {who: [] for who in pythons}
        for _ in range(args.rounds):
            for who, python in pythons.items():
                command = [python, __file__, vocab, "--worker", who]
                command += ["--text", str(args.text)] if args.text else []
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
                found[who].append(json.loads(done.stdout))
        rate, ready, n_tokens = ({who: statistics.median(row[what] for row in rows)
                                  for who, rows in found.items()}
                                 for what in ("rate", "ready", "n_tokens"))
        cells = [Path(vocab).stem, f"{rate['unladen']:.1f}"]
        if args.peer:
            cells += [f"{rate['peer']:.1f}", f"{rate['unladen'] / rate['peer']:.1f}"]
        cells.append(f"{ready['unladen']:.3f}")
        if args.peer:
            cells += [f"{ready['peer']:.3f}", f"{ready['peer'] / ready['unladen']:.1f}"]
        print(f"| {' | '.join(cells)} |", flush=True)
        if len(set(n_tokens.values())) > 1:
            print(f"numbers of tokens differ: {n_tokens}", file=sys.stderr)


def _text(args: argparse.Namespace) -> str:
    if args.text:
        return args.text.read_text(encoding="utf-8")
    from pydoc_data import topics
    return "\n".join(topics.topics.values())


def _timed(call: Callable[[], int], n_bytes: int) -> dict[str, float]:
    start = time.perf_counter()
    n_tokens = call()
    return {"rate": n_bytes / 1e6 / (time.perf_counter() - start), "n_tokens": n_tokens}


def _unladen(vocab: str, text: str) -> dict[str, float]:
    from unladen.gguf import open_gguf
    from unladen.tokenizer import Tokenizer
    logging.getLogger("unladen").setLevel(logging.ERROR)
    start = time.perf_counter()
    tokenizer = Tokenizer.from_gguf(open_gguf(Path(vocab)).metadata)
    ready = time.perf_counter() - start
    return {"ready": ready, **_timed(lambda: len(tokenizer.encode(text)), len(text.encode()))}


def _peer(vocab: str, text: str) -> dict[str, float]:
    import llama_cpp as peer

    @peer.llama_log_callback
    def silent(*_: object) -> None:
        pass
    peer.llama_log_set(silent, None)
    peer.llama_backend_init()
    options = peer.llama_model_default_params()
    options.vocab_only = True
    start = time.perf_counter()
    model = peer.llama_model_load_from_file(vocab.encode(), options)
    tokenizer = peer.llama_model_get_vocab(model)
    ready = time.perf_counter() - start
    raw = text.encode()
    room = (peer.llama_token * (len(raw) + 8))()
    return {"ready": ready, **_timed(lambda: int(peer.llama_tokenize(
        tokenizer, raw, len(raw), room, len(room), True, True)), len(raw))}


def _worst(vocabs: list[str]) -> None:
    from unladen.gguf import open_gguf
    from unladen.tokenizer import Tokenizer
    logging.getLogger("unladen").setLevel(logging.ERROR)
    for vocab in vocabs:
        tokenizer = Tokenizer.from_gguf(open_gguf(Path(vocab)).metadata)
        times = {}
        for name, unit in WORST.items():
            text = unit * (1_000_000 // len(unit.encode()))
            start = time.perf_counter()
            tokenizer.encode(text)
            times[name] = time.perf_counter() - start
        slowest = sorted(times.items(), key=lambda item: -item[1])[:3]
        print(f"{Path(vocab).stem}: " + ", ".join(f"{n} {t:.2f} s" for n, t in slowest), flush=True)


if __name__ == "__main__":
    main()
