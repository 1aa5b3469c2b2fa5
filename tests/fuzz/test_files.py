"""Tries some mutated files, the same in every run: each loads, or raises an error that says where.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fuzz.image import parse
from fuzz.run import run
from fuzz.seeds import seeds

N_FILES = 600
"""Mutated files to try: a few seconds of work."""


def test_slice(tmp_path: Path) -> None:
    result = run(tmp_path, seeds(tmp_path, np.random.default_rng(0)), seed=1, n_files=N_FILES)
    assert not result.faults
    assert result.kinds.total() == N_FILES
    assert result.kinds["ran"] > N_FILES / 10 and result.kinds["GGUFError"] > N_FILES / 3


def test_a_sound_file_is_put_together_as_it_was(tmp_path: Path) -> None:
    for seed in seeds(tmp_path, np.random.default_rng(0)):
        for name, raw in seed.files.items():
            assert parse(raw).content() == raw, name
