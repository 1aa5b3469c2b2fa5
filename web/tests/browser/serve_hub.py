"""Runs the tests' hub with the package's small model, and prints the hub's port.

Its first argument is the seconds between two pieces of a file: a download can be paused meanwhile.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from hub.pretend_hub import Pretend  # noqa: E402

with Pretend() as hub:
    hub.content = (ROOT / "src" / "unladen" / "data" / "tiny.gguf").read_bytes()
    hub.pace = float(sys.argv[1])
    print(hub.server_port, flush=True)
    hub.serve_forever()
