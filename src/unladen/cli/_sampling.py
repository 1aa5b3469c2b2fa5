"""The options that say how tokens are chosen. One that isn't given has the file's value, else the
default."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unladen.cli._extend import Parameters, extended, with_options
from unladen.errors import InvalidArgument
from unladen.parameters.sampling import SAMPLING

CHOOSING = ("temperature", "top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "xtc_probability",
            "xtc_threshold", "dynatemp_range", "dynatemp_exponent", "mirostat", "mirostat_tau",
            "mirostat_eta", "adaptive_target", "adaptive_decay", "logit_bias", "ignore_eos",
            "order", "seed")
REPEATING = ("repeat_penalty", "frequency_penalty", "presence_penalty", "penalty_last_n",
             "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n",
             "dry_sequence_breakers")
"""The parameters that these options set, in the order of the help."""


def samples(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options that say how tokens are chosen. It gets their values as two
    parameters, ``sampling`` and ``repetition``."""
    return extended(extended(command, _options("sampling", CHOOSING)),
                    _options("repetition", REPEATING))


def _options(name: str, names: Sequence[str]) -> Callable[..., Parameters]:
    return with_options(
        name, {each: SAMPLING.parameters[each] for each in names},
        {"logit_bias": _biases, "order": _steps},
        many=frozenset(["logit_bias", "dry_sequence_breakers"]), shows_defaults=False)


def _steps(text: str) -> list[str]:
    return text.split(";")


def _biases(texts: list[str]) -> dict[int, float]:
    result = {}
    for text in texts:
        token, _, amount = text.partition("=")
        try:
            result[int(token)] = float(amount)
        except ValueError:
            raise InvalidArgument(f"--logit-bias must be TOKEN_ID=NUMBER, got {text!r}",
                                  hint="for example --logit-bias 13=-2.5, or 13=-inf to ban it"
                                  ) from None
    return result
