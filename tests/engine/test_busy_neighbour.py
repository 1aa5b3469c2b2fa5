"""Other programs on the cores change no logits: an interrupted thread's work is done by another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from factory import Shape, write_model

SCRIPT = r"""
import json, os, subprocess, sys, time
from unladen import Model
from unladen._native import cpu

cores = sorted(os.sched_getaffinity(0))[:2]
os.sched_setaffinity(0, cores)
COUNT = "import os, sys; os.sched_setaffinity(0, [int(sys.argv[1])])\nwhile True: pass"
chooses = sys.argv[2] == "chooses"
if not chooses:
    cpu.keep_tiles_apart()
with Model(sys.argv[1], devices=["cpu"], n_threads=2) as model:
    expected = [model.logits([token]).tobytes() for token in range(8)]
    others = [subprocess.Popen([sys.executable, "-c", COUNT, str(core)]) for core in cores]
    n_steps = n_wrong = 0
    try:
        end = time.monotonic() + (3 if chooses else 60)
        counts = lambda: (cpu.n_tiles_taken_back(), cpu.n_times_relieved())
        before = counts()  # what else runs on the machine may have interrupted us already
        rare = lambda: [now - then for now, then in zip(counts(), before)]
        while (chooses or min(rare()) < 3) and time.monotonic() < end:
            for token in range(8):
                n_steps += 1
                n_wrong += model.logits([token]).tobytes() != expected[token]
    finally:
        for other in others:
            other.kill()
            other.wait()
    print(json.dumps([n_steps, n_wrong, *rare()]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="keeps itself on two processors, as Linux can")
@pytest.mark.parametrize("arch", ["llama", "gpt2"])
@pytest.mark.parametrize("ways", ["apart", "chooses"])
def test_no_logit_changes(tmp_path: Path, rng: np.random.Generator, arch: str, ways: str) -> None:
    shape = Shape(arch, n_embd=1024, n_ff=8192, n_heads=8, n_kv_heads=8, n_ctx=96)
    path = write_model(tmp_path / "m.gguf", rng, shape, quant="Q8_0")
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(path), ways], capture_output=True,
                          text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    n_steps, n_wrong, n_taken_back, n_relieved = json.loads(done.stdout)
    assert n_wrong == 0
    assert n_steps > 0
    if ways == "apart":
        assert n_taken_back >= 3, f"{n_steps} steps without an interruption"
        assert n_relieved >= 3, f"in {n_steps} steps no worker went on in the caller's place"


TOGETHER = r"""
import json, os, sys, threading, time
from unladen import Model

def used():
    return {int(task): int(open(f"/proc/self/task/{task}/schedstat").read().split()[0])
            for task in os.listdir("/proc/self/task")}

def step():
    os.sched_setaffinity(0, [core])  # of this thread
    model.logits([1])
    before = used()
    for token in range(8):
        model.logits([token])
    took = {task: ns - before.get(task, 0) for task, ns in used().items()}
    del took[threading.get_native_id()]
    worker = max(took, key=took.__getitem__)
    seen, done = set(), threading.Event()

    def watch():
        while not done.wait(0.0002):
            seen.add(tuple(sorted(os.sched_getaffinity(worker))))

    watcher = threading.Thread(target=watch)
    watcher.start()
    os.sched_setaffinity(watcher.native_id, allowed)  # not its parent's
    end = time.monotonic() + 30
    while parted not in seen and time.monotonic() < end:
        os.sched_setaffinity(worker, [core])
        for token in range(8):
            model.logits([token])
    done.set()
    watcher.join()
    end = time.monotonic() + 30
    while os.sched_getaffinity(worker) != allowed and time.monotonic() < end:
        time.sleep(0.01)
    print(json.dumps([parted in seen, sorted(seen), sorted(os.sched_getaffinity(worker))]))

allowed = os.sched_getaffinity(0)
core = min(allowed)
parted = tuple(sorted(allowed - {core}))
with Model(sys.argv[1], devices=["cpu"], n_threads=2) as model:
    caller = threading.Thread(target=step)
    caller.start()
    caller.join()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="keeps threads on a processor, as Linux can")
def test_workers_leave_the_callers_core(tmp_path: Path, rng: np.random.Generator) -> None:
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("there is one processor: nowhere else to go")
    shape = Shape("llama", n_embd=1024, n_ff=8192, n_heads=8, n_kv_heads=8, n_ctx=96)
    path = write_model(tmp_path / "m.gguf", rng, shape, quant="Q8_0")
    done = subprocess.run([sys.executable, "-c", TOGETHER, str(path)], capture_output=True,
                          text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    was_parted, seen, afterwards = json.loads(done.stdout)
    assert was_parted, seen
    assert afterwards == sorted(allowed), "asleep, it isn't kept from any"
