"""Compiles kernels by hiprtc in a process of its own, which the compiler may end.

Reads {"chip": ..., "seconds": ..., "texts": [...]} from the standard input, and writes a line for
each text that it came to before the time was over: what the compiler says, "" if it makes code.
"""

from __future__ import annotations

import json
import sys
import time

from unladen.backends._gpu.cuda_like.compiler import compiler_of
from unladen.backends.hip.driver import HIP


def main() -> None:
    wanted = json.load(sys.stdin)
    compiler = compiler_of(HIP)
    assert compiler is not None
    end = time.monotonic() + wanted["seconds"]
    for text in wanted["texts"]:
        if time.monotonic() > end:
            break
        code, log = compiler.attempt(text, HIP.options(wanted["chip"]), wanted["chip"])
        sys.stdout.write(json.dumps("" if code else log or "no message") + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
