"""The parameters of a generation: how tokens are chosen, and where the text ends.

Type checkers, the checks of values and the command line's options all use the same lines. The
defaults for choosing tokens are those of :class:`unladen.SamplingParams`.
"""
# This module evaluates its annotations, because they are the table: it has no
# `from __future__ import annotations`.

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from unladen.parameters.kinds import (
    INT32_MAX,
    Either,
    Flag,
    Items,
    Kind,
    OrNone,
    Pairs,
    Real,
    Text,
    Whole,
)
from unladen.parameters.table import MISSING, Others, Table
from unladen.parameters.table import Option as O
from unladen.parameters.table import Parameter as P

SEED_MAX = 2**64 - 1
"""The largest seed: seeds are uint64."""


class _Bias(Kind):
    """Numbers from -1e6 to 1e6, and -inf, which bans a token."""

    def __init__(self) -> None:
        super().__init__("a number from -1e6 to 1e6, or -inf to ban the token")

    def of(self, name: str, value: object) -> float:
        """The same as a float."""
        if isinstance(value, float) and value == -math.inf:
            return float(value)
        return _BIAS.of(name, value)


_BIAS = Real(-1e6, 1e6)


class Form(Kind):
    """What may describe the form of an answer. :mod:`unladen.sample.constrain.form` reads it."""

    def __init__(self) -> None:
        super().__init__(
            "a JSON schema, {'type': 'json_schema', ...} as OpenAI writes it, a Python type, or "
            "what unladen.grammar(), lark(), regex() or json_schema() return",
            "for example response_format={'type': 'object'}")

    def of(self, name: str, value: object) -> object:
        """The same."""
        fits = (value is None or isinstance(value, Mapping | type)
                or hasattr(value, "define")  # a Language, which isn't imported here
                or hasattr(value, "__args__"))  # an annotation such as list[int]
        if not fits:
            self.refuse(name, value)
        if isinstance(value, Mapping):
            try:
                json.dumps(dict(value), allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                self.refuse(name, value, "JSON", str(error))
        return value


class _OthersNames(TypedDict, total=False):
    """Other programs' names for parameters of this package."""

    max_new_tokens: int | None
    n_predict: int | None
    num_predict: int | None
    max_completion_tokens: int | None
    stop_strings: str | Sequence[str] | None
    stop_sequences: str | Sequence[str] | None
    top_logprobs: int
    n_probs: int
    temp: float
    typ_p: float
    typical: float
    mirostat_mode: int
    mirostat_ent: float
    mirostat_lr: float
    dynatemp_exp: float
    repetition_penalty: float
    penalty_repeat: float
    penalty_freq: float
    penalty_present: float
    present_penalty: float
    repeat_last_n: int
    samplers: Sequence[str]
    dry_sequence_breaker: Sequence[str]
    json_schema: Any
    guided_json: Any
    format: Any


class SamplingNames(_OthersNames, total=False):
    """How tokens are chosen: parameters of :meth:`unladen.Model.generate` and similar methods."""

    temperature: Annotated[float, P(
        Real(0), 0.8, "divides the logits; 0 takes the likeliest token",
        O("--temp", help="Temperature; 0 takes the likeliest.", without="0.8"))]
    """Divides the logits; 0 takes the likeliest token. Default 0.8."""
    dynatemp_range: Annotated[float, P(
        Real(0), 0.0, "how far the temperature follows the entropy; 0: off",
        O("--dynatemp-range", help="How far the temperature follows the entropy."))]
    """How far the temperature follows the entropy, up and down; 0, the default: off."""
    dynatemp_exponent: Annotated[float, P(
        Real(0), 1.0, "the power with which it follows",
        O("--dynatemp-exp", help="The power with which it follows.", without="1"))]
    """The power with which the temperature follows the entropy. Default 1."""
    top_k: Annotated[int, P(
        Whole(-2**31), 40, "keep the k likeliest tokens; 0: all",
        O("--top-k", help="Keep the k likeliest; 0: all.", without="40"))]
    """Keep the k likeliest tokens; 0: all. Default 40."""
    top_p: Annotated[float, P(
        Real(0, 1), 0.95, "keep the likeliest tokens of this probability together; 1: all",
        O("--top-p", help="Keep the likeliest of this probability together.", without="0.95"))]
    """Keep the likeliest tokens that together have this probability; 1: all. Default 0.95."""
    min_p: Annotated[float, P(
        Real(0, 1), 0.05, "keep what is this likely or more, relative to the likeliest; 0: all",
        O("--min-p", help="Keep what is this likely or more, relative to the likeliest.",
          without="0.05"))]
    """Keep what is at least this likely, relative to the likeliest; 0: all. Default 0.05."""
    typical_p: Annotated[float, P(
        Real(0, 1), 1.0, "keep this much probability, the most ordinary tokens first; 1: all",
        O("--typical-p", help="Keep this much probability, the most ordinary tokens first."))]
    """Keep this much probability, tokens of the most ordinary surprise first. Default 1: all."""
    top_n_sigma: Annotated[float, P(
        Real(0, 1e6), 0.0, "keep the logits within n deviations of the largest; 0: off",
        O("--top-n-sigma", help="Keep logits within n deviations of the largest."))]
    """Keep the logits within n standard deviations of the largest. Default 0: off."""
    xtc_probability: Annotated[float, P(
        Real(0, 1), 0.0, "how often the likeliest tokens are dropped; 0: never",
        O("--xtc-probability", help="How often the likeliest are dropped."))]
    """How often the likeliest tokens are dropped. Default 0: never."""
    xtc_threshold: Annotated[float, P(
        Real(0, 1), 0.1, "drop tokens above this probability, except the least likely of them",
        O("--xtc-threshold", help="Drop those above this probability, except one.",
          without="0.1"))]
    """XTC drops tokens above this probability, except the least likely of them. Default 0.1."""
    repeat_penalty: Annotated[float, P(
        Real(1e-6, 1e6), 1.0, "make recent tokens less likely, by this factor; 1: off",
        O("--repeat-penalty", help="Make recent tokens less likely; 1: off."))]
    """Make recent tokens less likely, by this factor. Default 1: off."""
    frequency_penalty: Annotated[float, P(
        Real(-1e6, 1e6), 0.0, "subtract this from a recent token's logit as often as it came",
        O("--frequency-penalty", help="Make recent tokens less likely, by how often they came."))]
    """Subtract this from a recent token's logit as often as it came. Default 0."""
    presence_penalty: Annotated[float, P(
        Real(-1e6, 1e6), 0.0, "subtract this once, if it came at all",
        O("--presence-penalty", help="Make recent tokens less likely, if they came at all."))]
    """Subtract this from a recent token's logit once. Default 0."""
    penalty_last_n: Annotated[int, P(
        Whole(-1), 64, "how many tokens are recent; -1: all",
        O("--repeat-last-n", help="How many tokens are recent; -1: all.", without="64"))]
    """How many tokens are recent; -1: all. Default 64."""
    dry_multiplier: Annotated[float, P(
        Real(0, 1e6), 0.0, "make repetitions of sequences less likely; 0: off",
        O("--dry-multiplier", help="Make repetitions of sequences less likely."))]
    """Make repetitions of sequences less likely. Default 0: off."""
    dry_base: Annotated[float, P(
        Real(1, 1e6), 1.75, "multiply the penalty by this for each further token of a repetition",
        O("--dry-base", help="Factor of that penalty for each further token.", without="1.75"))]
    """The penalty's factor for each further token of a repetition. Default 1.75."""
    dry_allowed_length: Annotated[int, P(
        Whole(0), 2, "tokens that may repeat",
        O("--dry-allowed-length", help="Tokens that may repeat.", without="2"))]
    """Tokens that may repeat without a penalty. Default 2."""
    dry_penalty_last_n: Annotated[int, P(
        Whole(-1), -1, "how far back repetitions are looked for; -1: everywhere",
        O("--dry-penalty-last-n", help="How far back to look for repetitions; -1: everywhere.",
          without="-1"))]
    """How many tokens back repetitions are looked for. Default -1: everywhere."""
    dry_sequence_breakers: Annotated[Sequence[str], P(
        Items(Text("a text that isn't empty", filled=True), "a list of texts",
              'for example ["\\n", ":"]'),
        ("\n", ":", '"', "*"), "a text that ends a repetition; may be repeated",
        O("--dry-sequence-breaker", help="A text that ends a repetition; may be repeated.",
          without='line breaks, ":", quotes, "*"'))]
    """Texts that end a repetition. Default line breaks, colons, quotes and stars."""
    mirostat: Annotated[int, P(
        Whole(0, 2, hint="0 is off, 1 and 2 are the method's versions"), 0,
        "keep the surprise even: version 1 or 2 of the method; 0: off",
        O("--mirostat", help="Keep the surprise even: version 1 or 2; 0: off."))]
    """Keep the surprise even: version 1 or 2 of the method. Default 0: off."""
    mirostat_tau: Annotated[float, P(
        Real(0, 1e6), 5.0, "the surprise that mirostat keeps, in bits",
        O("--mirostat-ent", help="The surprise that mirostat keeps, in bits.", without="5"))]
    """The surprise that mirostat keeps, in bits. Default 5."""
    mirostat_eta: Annotated[float, P(
        Real(0, 1e6), 0.1, "the rate at which mirostat learns",
        O("--mirostat-lr", help="The rate at which mirostat learns.", without="0.1"))]
    """How fast mirostat learns. Default 0.1."""
    adaptive_target: Annotated[float, P(
        Real(high=1), -1.0, "prefer tokens of about this probability; below 0: off",
        O("--adaptive-target", help="Prefer tokens of about this probability."))]
    """Prefer tokens of about this probability. Default -1: off."""
    adaptive_decay: Annotated[float, P(
        Real(0, 0.99), 0.9, "how long drawn tokens count for adaptive_target",
        O("--adaptive-decay", help="How long drawn tokens count for --adaptive-target.",
          without="0.9"))]
    """How long drawn tokens count for ``adaptive_target``. Default 0.9."""
    logit_bias: Annotated[Mapping[int, float] | None, P(
        OrNone(Pairs(Whole(0), _Bias(), "a mapping from token ids to numbers",
                     "for example {13: -2.5}")),
        None, "TOKEN_ID=NUMBER, added to the token's logit; may be repeated",
        O("--logit-bias", help="TOKEN_ID=NUMBER, added to its logit; may be repeated."))]
    """Numbers by token id that are added to the logits; -inf bans a token. Default None."""
    ignore_eos: Annotated[bool, P(
        Flag(), False, "go on where the model would end",
        O("--ignore-eos", help="Go on where the model would end."))]
    """Go on where the model would end. Default False."""
    seed: Annotated[int | None, P(
        OrNone(Whole(-1, SEED_MAX)), None, "the same seed repeats a run; -1: a new one each time",
        O("--seed", help="The same seed repeats a run.", without="a new one each time"))]
    """The same seed, 0 to 2**64 - 1, repeats a run. None, the default, and -1: a new one."""
    min_keep: Annotated[int, P(
        Whole(0), 1, "tokens that top_p, min_p, typical_p and xtc leave at least")]
    """Tokens that ``top_p``, ``min_p``, ``typical_p`` and ``xtc`` leave at least. Default 1."""
    order: Annotated[Sequence[str], P(
        Items(Text("a step's name", filled=True), "a list of steps",
              'for example ["top_k", "temperature"]'), MISSING,
        "the sampler's steps in their order, by semicolon",
        O("--samplers", help="The sampler's steps in their order, by semicolon.",
          without="as in the reference"))]
    """The steps in their order. Default :data:`unladen.sample.params.ORDER`."""


class RequestNames(SamplingNames, total=False):
    """Parameters of :meth:`unladen.Model.generate` and similar methods that are given by name only:
    how tokens are chosen, and when the request is computed."""

    priority: Annotated[int, P(
        Whole(-INT32_MAX), 0, "requests of a higher priority are begun first")]
    """Requests of a higher priority are begun first. Default 0."""
    deadline: Annotated[float | None, P(
        OrNone(Real(0)), None,
        "seconds after which the request ends, done or not; None: no limit")]
    """Seconds after which the request ends, done or not. Default None: no limit."""
    response_format: Annotated[Any, P(
        Form(), None, "the form of the text: a JSON schema, a Python type, or what grammar(), "
                      "lark(), regex() or json_schema() return; None: any text")]
    """The form of the text: a JSON schema, ``{"type": "json_schema", ...}`` or ``{"type":
    "json_object"}`` as OpenAI writes them, a Python type (dataclass, TypedDict, pydantic model,
    ``list[int]``, ...), or what :func:`unladen.grammar`, :func:`unladen.lark`,
    :func:`unladen.regex` or :func:`unladen.json_schema` return. Default None: any text."""


class GenerationNames(RequestNames, total=False):
    """The parameters of a generation other than its prompt and a sampler."""

    max_tokens: Annotated[int | None, P(
        OrNone(Whole(0, hint="None goes on to the end of the context")), None,
        "tokens to write; None: to the end of the context",
        O("--max-tokens", "-n", help="Tokens to write.", without="to the end of the context"))]
    stop: Annotated[str | Sequence[str] | None, P(
        OrNone(Either(Text("a text that isn't empty", filled=True),
                      Items(Text("a text that isn't empty", filled=True), "a list of such texts",
                            'for example ["\\n\\n"]'))),
        (), "end at this text, which is not part of it",
        O("--stop", help="End at this text; may be repeated."))]
    logprobs: Annotated[int | None, P(
        OrNone(Whole(0, hint="0 for those of the chosen tokens, n for n others too")), None,
        "0 for the log-probabilities of the chosen tokens, n for those of n others too")]


def _others() -> Others:
    from unladen.parameters.pasted import GENERATION_NAMES
    return GENERATION_NAMES


SAMPLING = Table.of("SamplingParams", SamplingNames, _others)
GENERATION = Table.of("generate", GenerationNames, _others)


def generation(call: str) -> Table:
    """The parameters of a generation, for errors that name the function ``call``."""
    return Table(call, GENERATION.parameters, GENERATION.others)
