"""Names that tests and their fixtures share; small kernels of tests: words in, words out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
WARP = 32
Launch = Callable[..., Array]
"""Runs a kernel; see the fixture ``launch``."""
