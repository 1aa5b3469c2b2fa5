"""Which frequencies the rotary embedding turns at, from the file's scaling keys."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from unladen.errors import GGUFError, UnsupportedModel
from unladen.gguf import HParams
from unladen.models._parts.load import Tensors

MAX_ROTATED = 1 << 16
"""Heads that turn more dimensions than this are refused, before there is a table of them."""


def rope_attrs(hp: HParams, tensors: Tensors, n_rot: int, *, base: float | None = None,
               scaled: bool = True, factors: str = "rope_freqs.weight"
               ) -> dict[str, tuple[float, ...] | float]:
    """Attributes of a ``rope_table`` node: ``freqs`` [n_rot / 2] and ``magnitude``.

    Plain: base^(-2i / n_rot), ``base`` None: as the file says. Where that is ``scaled``,
    ``rope.scaling.type`` linear, which is also what a bare factor means, divides by the factor;
    yarn (Peng et al. 2023) divides slow dimensions, leaves fast ones, and blends between. The
    tensor ``factors``, if it is there, divides each dimension by a number of its own (llama 3;
    longrope, Ding et al. 2024). Raises :class:`GGUFError` for numbers that make no sense,
    :class:`UnsupportedModel` for another type of scaling.
    """
    if n_rot > MAX_ROTATED:
        raise GGUFError(f"{n_rot} dimensions of a head are to be turned, more than {MAX_ROTATED}",
                        path=hp.path, hint="the file is damaged or was converted wrongly")
    base = rope_base(hp) if base is None else base
    if not 0 < base < math.inf:
        raise GGUFError(f"rotations have the base {base}, not a positive number", path=hp.path,
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
    """Frequencies and magnitude for the context that the file's keys stretch to."""
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
    """The base that ``suffix`` names, else ``default``, else that of ``rope.freq_base``; raises
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
    """How far the context is stretched, under the new or the old key; 0 means not at all."""
    suffix = "rope.scaling.factor" if "rope.scaling.factor" in hp else "rope.scale_linear"
    return 1.0 if hp.float(suffix, 1.0) == 0 else _positive(hp, suffix, 1.0)


def _yarn(hp: HParams, freqs: npt.NDArray[np.float64], base: float, n_rot: int, factor: float
          ) -> npt.NDArray[np.float64]:
    """Interpolate dimensions that turn less than ``beta_slow`` times over the original context,
    keep those that turn more than ``beta_fast`` times, blend linearly between."""
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
