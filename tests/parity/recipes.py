"""Builds tiny models from recipes, one for each architecture, and has another engine's answers."""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tests.conftest import SHARED

from unladen import Model
from unladen.models import registry
from unladen.models._parts.diffusion import DiffusionDecoder

COMPUTED_GELU = Path(__file__).with_name("gelu_answers.npz")
"""Answers of the same engine with exact GELU. For the answers beside the recipes it looks GELU up
in a table of float16 numbers, which alone moves them by about 1e-7: see
``tools/gen_gelu_answers.py``."""
TABLE = math.ldexp(1, -20)
"""Bound of the normalized squared error of logits that a table of 11 bits causes."""

TRAINED = frozenset({"rwkv6", "rwkv7"})
"""Architectures that are compared on trained models instead of recipes: see test_rwkv."""

WITHOUT_MEANING = frozenset({"refact-moe"})
"""The engine's answer for this recipe skips the experts, so it has no feed-forward network."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A file and the engine's answer: float32 ``expected``, a row for each of ``tokens``."""

    name: str
    path: Path
    tokens: list[int]
    expected: npt.NDArray[np.float32]


def names() -> list[str]:
    """The recipes of implemented architectures; none where ``../shared`` is absent."""
    return [p.stem for p in sorted((SHARED / "archs").glob("*.json"))
            if json.loads(p.read_text())["arch"] in registry() and p.stem not in WITHOUT_MEANING]


def with_experts() -> list[str]:
    """The recipes in :func:`names` whose layers have experts."""
    return [n for n in names() if "ffn_down_exps" in (SHARED / f"archs/{n}.json").read_text()]


def make(name: str, folder: Path) -> Recipe:
    """The recipe, its file built in ``folder``."""
    path = folder / f"{name}.gguf"
    spec = importlib.util.spec_from_file_location("fixture", SHARED / "archs/fixture.py")
    assert spec is not None and spec.loader is not None
    fixture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fixture)
    fixture.build(SHARED / f"archs/{name}.json", path)
    with np.load(SHARED / f"archs/{name}.npz") as data, np.load(COMPUTED_GELU) as computed:
        tokens, expected = data["tokens"].tolist(), data[next(k for k in data if k != "tokens")]
        if name in computed:
            assert 0 < error(computed[name], expected) < TABLE
            expected = computed[name]
    return Recipe(name, path, tokens, expected)


def answer(model: Model, tokens: list[int]) -> npt.NDArray[np.float32]:
    """The model's output for each of ``tokens``: logits, or an encoder's embeddings."""
    is_encoder = "embeddings" in model.architecture.build().outputs
    return model.embed(tokens) if is_encoder else model.logits(tokens)


def error(mine: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> float:
    """Normalized mean squared error."""
    a, b = mine.astype(np.float64), expected.astype(np.float64)
    return float(((a - b) ** 2).sum() / (b ** 2).sum())


def continues(name: str) -> bool:
    """Whether the recipe's model continues a text, so that its cache can be kept. Encoders and
    models that see whole texts don't."""
    arch = json.loads((SHARED / f"archs/{name}.json").read_text())["arch"]
    with np.load(SHARED / f"archs/{name}.npz") as data:
        return "logits" in data and not issubclass(registry()[arch], DiffusionDecoder)
