"""A process that ends with an open model says nothing more: no "Exception ignored", no complaint of
a driver."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from unladen.backends import backend_of

ROOT = Path(__file__).parents[2]
BEGIN = """
import builtins, contextlib, ctypes, gc, os, sys, threading
from unladen import Model
stack = contextlib.ExitStack()
# What stands in for a driver stays: whatever ends first, the stand-in doesn't.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(stack))
{install}
model = Model({path!r}, devices=[{device!r}], context_size=64)
assert {device!r} in model.placement(), model.placement()
model.generate([3, 4, 5], temperature=0.0, max_tokens=3, ignore_eos=True)
"""
INSTALL = {
    "cuda": "from stub_driver.stub import installed\n"
            "stack.enter_context(installed('cuda', runs=False))",
    "hip": "from stub_driver.stub import installed\n"
           "stack.enter_context(installed('hip', runs=False))",
    "metal": "from backends.metal.faking import faked\nstack.enter_context(faked())"}
"""What gives a backend its driver where this machine has none."""
WAYS = {
    "live": "",
    "exit": "sys.exit(0)",
    "exception": "raise RuntimeError('as wanted')",
    "half a stream": "pieces = model.stream([3, 4, 5], temperature=0.0, max_tokens=40,\n"
             "                       ignore_eos=True)\n"
                     "next(iter(pieces), None)",
    # The thread runs when the interpreter ends, and is stopped anywhere in a step.
    "a running thread": """
on = threading.Event()
def work():
    while True:
        model.generate([3, 4, 5], temperature=0.0, max_tokens=30, ignore_eos=True)
        on.set()
threading.Thread(target=work, daemon=True).start()
on.wait()
""",
    "exit in a thread": """
thread = threading.Thread(target=sys.exit, args=(3,))
thread.start()
thread.join()
""",
    # The thread keeps modules, so that Python clears their globals before objects are freed.
    "modules that are cleared": """
own = {}
exec("def work(kept, on, never):\\n on.set()\\n never.wait()", own)
on, modules = threading.Event(), [m for n, m in sys.modules.items() if n.startswith("unladen.b")]
threading.Thread(target=own["work"], args=(modules, on, threading.Event()), daemon=True).start()
on.wait()
sys.modules["unladen.backends.base"].kept = model
""",
    # The child is refused, frees what it inherited, and ends as a whole process does. With wgpu it
    # ends at once: the Vulkan driver's own exit handlers crash in a child.
    "a forked child": """
import warnings
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    from unladen.errors import BackendNotInitialised
    try:
        Model({path!r}, devices=[{device!r}])
    except BackendNotInitialised as error:
        assert "forked" in str(error), error
    else:
        raise AssertionError("the child isn't refused")
    del model
    gc.collect()
    (os._exit if {device!r} == "wgpu:0" else sys.exit)(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
model.generate([3, 4, 5], temperature=0.0, max_tokens=3)
"""}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("backend", ["cuda", "hip", "metal", "opencl", "sycl", "wgpu"])
def test_nothing_is_said(backend: str, way: str, make_model: Callable[..., Path]) -> None:
    if backend not in INSTALL and not backend_of(backend).devices():
        pytest.skip(backend_of(backend).why_none())
    if "fork" in way and not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    if (backend, way) == ("metal", "a running thread"):
        pytest.skip("the thread is in the stand-in for Metal, which the process takes away")
    names = {"path": str(make_model("llama", n_embd=64, n_layers=1)), "device": f"{backend}:0",
             "install": INSTALL.get(backend, "")}
    text = BEGIN.format(**names) + (WAYS[way].format(**names) if "fork" in way else WAYS[way])
    paths = [str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    said = done.stderr
    if way == "exception":
        assert done.returncode == 1 and said.endswith("RuntimeError: as wanted\n"), said
        said = said[said.index("Traceback"):] if said.startswith("Traceback") else said
        assert "ignored" not in said and said.count("Traceback") == 1, said
    else:
        assert (done.returncode, said) == (0, "")
