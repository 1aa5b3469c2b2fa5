"""The process ends while threads are inside the engine: notebooks, servers and GUIs do that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WORK = {
    "generate": "model.generate('Once upon a time', temperature=1.0)",
    "stream": "list(model.stream('Once upon a time', temperature=1.0, max_tokens=20))",
    "prompt": "model.logits(long)",
    "logits": "model.logits(short)",
    "tokenize": "model.tokenize(text)",
    "logprobs": "model.generate('Once', max_tokens=9, logprobs=3)",
    "load": "unladen.Model('tiny').close()",
    "plan": "unladen.plan('tiny')",
    "state": "model.load_state(model.save_state(short))",
    "coroutine": "asyncio.run(model.agenerate('Once', max_tokens=9))",
    "quantize": "unladen.quantize(TINY, target, 'Q4_0', allow_requantize=True)",
    "place": "model.place(n_gpu_layers=0)",
}
"""The calls that a daemon thread repeats."""

CODE = """
import asyncio, sys, tempfile, threading, time, unladen
from unladen.api import TINY
model = unladen.Model("tiny", n_threads=2, n_threads_batch=2)
text = "The little cloud went up. " * 2000
long = model.tokenize(text)[:model.context_size - 1]
short = long[:40]
target = tempfile.mkdtemp() + "/q.gguf"
begun = threading.Event()
def work():
    while True:
        {work}
        begun.set()
{threads}
assert begun.wait(120)
time.sleep({seconds})
"""
ONE = "threading.Thread(target=work, daemon=True).start()"
SEVERAL = f"for _ in range(3): {ONE}"


@pytest.mark.parametrize(("threads", "seconds"), [(ONE, 0.0), (SEVERAL, 0.01)],
                         ids=["one", "several"])
@pytest.mark.parametrize("work", WORK)
def test_daemon_threads(work: str, threads: str, seconds: float, tmp_path: Path) -> None:
    code = CODE.format(work=WORK[work], threads=threads, seconds=seconds)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=240, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-2000:]
    assert "terminate" not in done.stderr
    assert "nanobind" not in done.stderr


def test_a_forked_child_of_a_busy_process_ends() -> None:
    """Threads of the parent are counted as computing; the child has none of them."""
    code = CODE.format(work=WORK["generate"], threads=SEVERAL, seconds=0) + """
import os
pid = os.fork()
if pid == 0:
    start = time.monotonic()
    import atexit
    atexit._run_exitfuncs()
    os._exit(time.monotonic() - start > 9)  # it would wait for 10 seconds
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True,
                          text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
