"""Asks a server what its description allows, and what it doesn't: ``python tests/fuzz/api.py``.

schemathesis reads ``/openapi.json`` and makes cases of every route until there are ``--cases``. No
answer may have a status of 500 or more that isn't meant, and statuses, media types and errors must
be as described. Prints what schemathesis found, and ends with status 1 if something was wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).parents[1]))

from clients.serving import serving

CHECKS: Final = ("not_a_server_error", "status_code_conformance", "content_type_conformance",
                 "response_schema_conformance")
PATIENCE_S: Final = 300
"""Seconds after which an answer counts as hung. The machine may be busy, or stopped for a while."""
WORKERS: Final = 4
"""Requests at a time."""
SLOW: Final = "/models/unload"
"""A route that makes all others wait until the model is loaded again: it gets few cases."""
SLOW_CASES: Final = 3
ELSEWHERE: Final = "^/ui/api/(hub|downloads|fit)"
"""Routes that ask a hub in the network, or keep files of the user: they get no random cases."""
N_OPERATIONS: Final = 42
"""Routes, about: cases are divided among them. Those without a body have one case each."""


def run(program: str, address: str, seed: int, n_each: int, more: Sequence[str]) -> tuple[int, int]:
    """The exit status of schemathesis, and how many cases it made: at most ``n_each`` of a route.
    ``more``: its other options."""
    command = [program, "run", f"{address}/openapi.json", "--phases", "fuzzing", "--checks",
               ",".join(CHECKS), "--workers", str(WORKERS), "--max-examples", str(n_each), "--seed",
               str(seed), "--request-timeout", str(PATIENCE_S), "--generation-database", "none",
               "--suppress-health-check", "all", "--warnings", "off", "--no-color", *more]
    with tempfile.TemporaryDirectory() as folder:  # what it writes into its folder goes with it
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={
            **os.environ, "SCHEMATHESIS_HOOKS": "api_hooks",
            "PYTHONPATH": str(Path(__file__).parent)})
    found = re.search(r"(\d+) generated", done.stdout)
    if done.returncode or found is None:
        print(done.stdout, done.stderr)
    return done.returncode, 0 if found is None else int(found[1])


def cases(program: str, n_cases: int, seed: int) -> int:
    """Try at least ``n_cases``; returns the number of runs that found something wrong, or made no
    cases."""
    n_wrong = n_done = 0
    named = [{"ref": name, "context_size": 256} for name in ("tiny-chat", "tiny")]
    with serving(*named, memory_share=1.0) as server:
        status, n = run(program, server.address, seed, SLOW_CASES, ["--include-path", SLOW])
        n_wrong, n_done = int(status != 0 or not n), n
        while n_done < n_cases:
            seed += 1
            n_each = -(-(n_cases - n_done) // N_OPERATIONS)
            status, n = run(program, server.address, seed, n_each, [
                "--exclude-path", SLOW, "--exclude-path-regex", ELSEWHERE])
            n_wrong, n_done = n_wrong + (status != 0 or not n), n_done + n
            print(f"seed {seed}: {n} cases of {n_each} for each route, {n_done} in all, status "
                  f"{status}", flush=True)
            if not n:
                break
        said = server.log.read_text()
    if "Traceback" in said:
        print(said[-10_000:])
        n_wrong += 1
    print(f"{n_done} cases, {n_wrong} runs at fault")
    return n_wrong


def main() -> int:
    """Start a server and ask it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", default="schemathesis", help="its command (%(default)s)")
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    options = parser.parse_args()
    print(f"seed {options.seed}: --seed {options.seed} --cases {options.cases} makes the same "
          "cases", flush=True)
    return bool(cases(options.program, options.cases, options.seed))


if __name__ == "__main__":
    sys.exit(main())
