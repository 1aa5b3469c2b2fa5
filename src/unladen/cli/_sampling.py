"""The options of how tokens are chosen. What isn't given is as the file says, else as usual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from unladen.cli._extend import Parameters, extended
from unladen.errors import InvalidArgument

Real = float | None
Whole = int | None


def samples(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options of :func:`sampling` and :func:`repetition`, as two parameters of
    these names."""
    return extended(extended(command, sampling), repetition)


def sampling(
    *, temp: Annotated[Real, typer.Option(
        "--temp", help="Temperature; 0 takes the likeliest.", show_default="0.8")] = None,
    top_k: Annotated[Whole, typer.Option(
        "--top-k", help="Keep the k likeliest; 0: all.", show_default="40")] = None,
    top_p: Annotated[Real, typer.Option(
        "--top-p", help="Keep this much probability.", show_default="0.95")] = None,
    min_p: Annotated[Real, typer.Option(
        "--min-p", help="Keep what is this likely or more, relative to the likeliest.",
        show_default="0.05")] = None,
    typical_p: Annotated[Real, typer.Option(
        "--typical-p", help="Keep this much, the most ordinary first.")] = None,
    top_n_sigma: Annotated[Real, typer.Option(
        "--top-n-sigma", help="Keep logits within n deviations of the largest.")] = None,
    xtc_probability: Annotated[Real, typer.Option(
        "--xtc-probability", help="How often the likeliest are dropped.")] = None,
    xtc_threshold: Annotated[Real, typer.Option(
        "--xtc-threshold", help="Those above this probability, but one.", show_default="0.1"
    )] = None,
    dynatemp_range: Annotated[Real, typer.Option(
        "--dynatemp-range", help="How far the temperature follows the entropy.")] = None,
    dynatemp_exponent: Annotated[Real, typer.Option(
        "--dynatemp-exp", help="How: a power.", show_default="1")] = None,
    mirostat: Annotated[Whole, typer.Option(
        "--mirostat", help="Keep the surprise even: version 1 or 2; 0: off.")] = None,
    mirostat_tau: Annotated[Real, typer.Option(
        "--mirostat-ent", help="At so many bits.", show_default="5")] = None,
    mirostat_eta: Annotated[Real, typer.Option(
        "--mirostat-lr", help="Learning at this rate.", show_default="0.1")] = None,
    adaptive_target: Annotated[Real, typer.Option(
        "--adaptive-target", help="Prefer tokens of about this probability.")] = None,
    adaptive_decay: Annotated[Real, typer.Option(
        "--adaptive-decay", help="How long what was drawn counts.", show_default="0.9")] = None,
    bias: Annotated[list[str] | None, typer.Option(
        "--logit-bias", help="TOKEN_ID=NUMBER, added to its logit; may be repeated.")] = None,
    ignore_eos: Annotated[bool, typer.Option(
        "--ignore-eos", help="Go on where the model would end.")] = False,
    samplers: Annotated[str | None, typer.Option(
        "--samplers", help="The steps in their order, by semicolon.", show_default="the usual"
    )] = None,
    seed: Annotated[Whole, typer.Option(
        "--seed", show_default="a new one each time", help="The same seed repeats a run.")] = None,
) -> Parameters:
    """The options as parameters of a generation; raises :class:`InvalidArgument`."""
    given: Parameters = {
        "temperature": temp, "top_k": top_k, "top_p": top_p, "min_p": min_p,
        "typical_p": typical_p, "top_n_sigma": top_n_sigma, "xtc_probability": xtc_probability,
        "xtc_threshold": xtc_threshold, "dynatemp_range": dynatemp_range,
        "dynatemp_exponent": dynatemp_exponent, "mirostat": mirostat,
        "mirostat_tau": mirostat_tau, "mirostat_eta": mirostat_eta,
        "adaptive_target": adaptive_target, "adaptive_decay": adaptive_decay,
        "logit_bias": _biases(bias or []) or None, "ignore_eos": ignore_eos or None,
        "order": samplers.split(";") if samplers else None, "seed": seed}
    return {name: value for name, value in given.items() if value is not None}


def repetition(
    *, repeat_penalty: Annotated[Real, typer.Option(
        "--repeat-penalty", help="Make recent tokens less likely; 1: off.")] = None,
    frequency_penalty: Annotated[Real, typer.Option(
        "--frequency-penalty", help="The same, by how often they came.")] = None,
    presence_penalty: Annotated[Real, typer.Option(
        "--presence-penalty", help="The same, if they came at all.")] = None,
    penalty_last_n: Annotated[Whole, typer.Option(
        "--repeat-last-n", help="How many are recent; -1: all.", show_default="64")] = None,
    dry_multiplier: Annotated[Real, typer.Option(
        "--dry-multiplier", help="Make repetitions of sequences less likely.")] = None,
    dry_base: Annotated[Real, typer.Option(
        "--dry-base", help="More so for each further token.", show_default="1.75")] = None,
    dry_allowed_length: Annotated[Whole, typer.Option(
        "--dry-allowed-length", help="Tokens that may repeat.", show_default="2")] = None,
    dry_penalty_last_n: Annotated[Whole, typer.Option(
        "--dry-penalty-last-n", help="How far back; -1: everywhere.", show_default="-1")] = None,
    dry_sequence_breakers: Annotated[list[str] | None, typer.Option(
        "--dry-sequence-breaker", show_default='line breaks, ":", quotes, "*"',
        help="What no repetition goes over; may be repeated.")] = None,
) -> Parameters:
    """The options against repetition, likewise."""
    given: Parameters = {
        "repeat_penalty": repeat_penalty, "frequency_penalty": frequency_penalty,
        "presence_penalty": presence_penalty, "penalty_last_n": penalty_last_n,
        "dry_multiplier": dry_multiplier, "dry_base": dry_base,
        "dry_allowed_length": dry_allowed_length, "dry_penalty_last_n": dry_penalty_last_n,
        "dry_sequence_breakers": dry_sequence_breakers or None}
    return {name: value for name, value in given.items() if value is not None}


def _biases(texts: list[str]) -> dict[int, float]:
    result = {}
    for text in texts:
        token, _, amount = text.partition("=")
        try:
            result[int(token)] = float(amount)
        except ValueError:
            raise InvalidArgument(f"--logit-bias {text!r} is not TOKEN_ID=NUMBER",
                                  hint="for example --logit-bias 13=-2.5, or 13=-inf to ban it"
                                  ) from None
    return result
