"""Computes the frequencies of the rotary embedding from the file's scaling keys."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from unladen.errors import GGUFError, UnsupportedModel
from unladen.gguf import HParams
from unladen.models._parts.load import Tensors

MAX_ROTATED = 1 << 16
"""Heads that rotate more dimensions are refused, before a table is computed."""


def rope_attrs(hp: HParams, tensors: Tensors, n_rot: int, *, base: float | None = None,
               scaled: bool = True, factors: str = "rope_freqs.weight"
               ) -> dict[str, tuple[float, ...] | float]:
    """Attributes of a ``rope_table`` node: ``freqs`` [n_rot / 2] and ``magnitude``.

    Without scaling the frequencies are base^(-2i / n_rot); ``base`` None takes the file's base.
    With ``scaled``, ``rope.scaling.type`` decides: linear (also meant by a factor without a type)
    divides all frequencies by the factor; yarn (Peng et al. 2023) divides the slow dimensions,
    keeps the fast ones and blends between. If the file has the tensor ``factors``, it divides each
    dimension by a number of its own (llama 3; longrope, Ding et al. 2024). Raises
    :class:`GGUFError` for impossible numbers, :class:`UnsupportedModel` for another type of
    scaling.
    """
    if n_rot > MAX_ROTATED:
        raise GGUFError(f"a head can rotate at most {MAX_ROTATED} dimensions, got {n_rot}",
                        path=hp.path, hint="the file is damaged or was converted wrongly")
    base = rope_base(hp) if base is None else base
    if not 0 < base < math.inf:
        raise GGUFError(f"the base of rotations must be positive, got {base}", path=hp.path,
                        hint="the file is damaged or was converted wrongly")
    freqs = base ** (-np.arange(0, n_rot, 2, dtype=np.float64) / n_rot)
    divisors = tensors.values(factors, n_rot // 2)
    if divisors is not None:
        if not np.all((divisors > 0) & np.isfinite(divisors)):
            raise GGUFError(f"{factors} holds numbers that aren't positive", path=hp.path)
        freqs = freqs / divisors
    magnitude = 1.0
    if scaled:
        freqs, magnitude = _scale(hp, freqs, base, n_rot)
    return {"freqs": tuple(freqs.tolist()), "magnitude": magnitude}


def _scale(hp: HParams, freqs: npt.NDArray[np.float64], base: float, n_rot: int
           ) -> tuple[npt.NDArray[np.float64], float]:
    """Frequencies and magnitude for the context length to which the file's keys extend the model.
    """
    kind = hp.str("rope.scaling.type", "linear")
    factor = _factor(hp)
    magnitude = _positive(hp, "rope.scaling.attn_factor", 1.0)
    if kind == "yarn":
        freqs = _yarn(hp, freqs, base, n_rot, factor)
        log_factor = max(0.0, math.log(factor))
        multiplier = hp.float("rope.scaling.yarn_log_multiplier", 0.0)
        magnitude *= (1 + 0.1 * log_factor) / (1 + 0.1 * multiplier * log_factor)
    elif kind in ("linear", "longrope"):
        freqs = freqs / factor
    elif kind != "none":
        raise UnsupportedModel(f"{hp.path}: rope scaling {kind!r} isn't implemented", arch=hp.arch,
                               hint="known: none, linear, longrope, yarn")
    return freqs, magnitude


def rope_base(hp: HParams, suffix: str = "rope.freq_base", default: float | None = None) -> float:
    """The base at the key ``suffix``, else ``default``, else the base at ``rope.freq_base``; raises
    :class:`GGUFError`."""
    if default is None:
        default = 10000.0 if suffix == "rope.freq_base" else rope_base(hp)
    return _positive(hp, suffix, default)


def _positive(hp: HParams, suffix: str, default: float) -> float:
    value = hp.float(suffix, default)
    if not 0 < value < math.inf:
        raise GGUFError(f"the metadata key {hp.arch}.{suffix} is {value}, not a positive number",
                        path=hp.path, hint="the file is damaged or was converted wrongly")
    return value


def _factor(hp: HParams) -> float:
    """The factor by which the context is extended, from the new or the old key; 0 if it isn't."""
    suffix = "rope.scaling.factor" if "rope.scaling.factor" in hp else "rope.scale_linear"
    return 1.0 if hp.float(suffix, 1.0) == 0 else _positive(hp, suffix, 1.0)


def _yarn(hp: HParams, freqs: npt.NDArray[np.float64], base: float, n_rot: int, factor: float
          ) -> npt.NDArray[np.float64]:
    """Interpolate dimensions that rotate less than ``beta_slow`` times over the original context,
    keep those that rotate more than ``beta_fast`` times, and blend linearly between."""
    original = hp.int("rope.scaling.original_context_length", hp.int("context_length"), minimum=1)
    if base <= 1:
        raise GGUFError(f"yarn scaling with the base {base}", path=hp.path,
                        hint="the file is damaged or was converted wrongly")

    def dimension(turns: float) -> float:
        return n_rot * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low = max(0, math.floor(dimension(_positive(hp, "rope.scaling.yarn_beta_fast", 32.0))))
    high = min(n_rot - 1, math.ceil(dimension(_positive(hp, "rope.scaling.yarn_beta_slow", 1.0))))
    ramp = np.clip((np.arange(n_rot // 2) - low) / max(0.001, high - low), 0, 1)
    return freqs * (1 - ramp) + freqs / factor * ramp
