"""A process that tries mutated files and reports each; it is killed if a file makes it hang.

``worker.py FOLDER SEED FIRST STEP LAST`` tries the files FIRST, FIRST + STEP, ... of the run SEED
with the sound models in FOLDER/seeds.pickle, and writes a line of JSON for each.
"""

from __future__ import annotations

import faulthandler
import json
import os
import pickle
import resource
import signal
import sys
import traceback
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))

from fuzz.attempt import Outcome, attempt
from fuzz.mutations import mutated
from fuzz.seeds import Seed

HANG_S = 1.0
"""Seconds of processor time that one file may take."""
PATIENCE_S = 120
"""Seconds of wall-clock time for one file that waits for something. It is long because other
programs may be running."""
ROOM_BYTES = 2 << 30
"""Address space that the process may take beyond what it has at its start."""
SLACK_BYTES = 4 << 20
"""Bytes by which two loads of the same sound file may differ: the allocator's and the interpreter's
pools don't give everything back."""


def main(folder: Path, seed: int, first: int, step: int, last: int) -> None:
    """See the module's text."""
    seeds: list[Seed] = pickle.loads((folder / "seeds.pickle").read_bytes())
    others = [raw for s in seeds for raw in s.files.values()]
    room = folder / f"files-{os.getpid()}"
    room.mkdir()
    usual: dict[str, int] = {}
    _limit()
    faulthandler.enable()
    faulthandler.register(signal.SIGVTALRM)
    for index in range(first, last, step):
        rng = np.random.default_rng([seed, index])
        chosen = seeds[int(rng.integers(len(seeds)))]
        if chosen.name not in usual:
            sound = [_try(room, chosen, chosen.files) for _ in range(2)]
            assert all(outcome.kind == "ran" for outcome, _ in sound), (chosen.name, sound)
            usual[chosen.name] = max(peak for _, peak in sound)
        files = mutated(rng, chosen.files, others)
        print(json.dumps({"begin": index, "seed": chosen.name}), flush=True)
        outcome, peak = _try(room, chosen, files)
        allowed = usual[chosen.name] + 2 * sum(map(len, files.values())) + SLACK_BYTES
        if peak > allowed:
            outcome = Outcome("fault", f"took {peak} bytes, not {allowed}; {outcome}")
        print(json.dumps({"end": index, "kind": outcome.kind, "text": outcome.text}), flush=True)


def _limit() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM_BYTES, size + ROOM_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _try(room: Path, seed: Seed, files: dict[str, bytes]) -> tuple[Outcome, int]:
    """The outcome for ``files``, and the peak of the memory taken beyond that before."""
    for old in room.iterdir():
        old.unlink()
    for name, raw in files.items():
        (room / name).write_bytes(raw)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    signal.setitimer(signal.ITIMER_PROF, HANG_S)  # ends the process: no handler is set
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.9 * HANG_S)  # prints a traceback first
    signal.alarm(PATIENCE_S)
    try:
        outcome = attempt(room / seed.first, [len(raw) for raw in files.values()] or [0])
    except BaseException as error:  # noqa: BLE001  # whatever it is, it is told
        outcome = Outcome("fault", "".join(traceback.format_exception(error, limit=-6)))
    for timer in (signal.ITIMER_PROF, signal.ITIMER_VIRTUAL):
        signal.setitimer(timer, 0)
    signal.alarm(0)
    return outcome, _status("VmHWM") - before


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
