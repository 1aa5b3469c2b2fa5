"""Numbers to look at, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from unladen.server.core import Core
from unladen.server.events import Ended
from unladen.server.visit import Visit

FIRST_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Bounds of the histograms of seconds to a first token, in the queue and of whole requests."""
TOKEN_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 5.0)
"""Bounds of the histogram of seconds from token to token."""
OTHER: Final = "other"
"""The label of a model that isn't among the cards. Clients can't make up labels."""


class Metrics:
    """The metrics of one application. ``core``: the models."""

    def __init__(self, core: Core) -> None:
        self._registry = own = CollectorRegistry()
        ProcessCollector(registry=own)
        own.register(_Models(core))
        self._core = core
        self._requests = Counter(
            "unladen_requests", "Requests that have ended.", ("dialect", "route", "status"),
            registry=own)
        self._seconds = Histogram(
            "unladen_request_seconds", "Seconds from a request to the end of its answer.",
            ("dialect", "route"), buckets=FIRST_S, registry=own)
        self._faults = Counter("unladen_faults", "Requests that failed.", ("kind",), registry=own)
        self._tokens = Counter(
            "unladen_tokens", "Tokens: of prompts, those of them that came from the cache, "
            "written, those of them that are reasoning, guessed ahead, guessed right.",
            ("model", "kind"), registry=own)
        self._first = Histogram(
            "unladen_first_token_seconds", "Seconds from a request to its first token.",
            ("model",), buckets=FIRST_S, registry=own)
        self._wait = Histogram("unladen_queue_seconds", "Seconds in the queue.", ("model",),
                               buckets=FIRST_S, registry=own)
        self._each = Histogram(
            "unladen_token_seconds", "Seconds from token to token, a mean for each answer.",
            ("model",), buckets=TOKEN_S, registry=own)
        self._ends = Counter("unladen_answers", "Answers that have ended.", ("model", "reason"),
                             registry=own)

    def label(self, name: str) -> str:
        """The model called ``name`` as a label."""
        cards = self._core.cards()
        if not name and cards:
            return cards[0].name
        return next((card.name for card in cards if name == card.name or name in card.aliases),
                    OTHER)

    def first(self, model: str, seconds: float) -> None:
        """Count the first token of an answer."""
        self._first.labels(model).observe(seconds)

    def ended(self, model: str, event: Ended) -> None:
        """Count an answer that is complete."""
        for kind, n in (("prompt", event.n_prompt), ("cached", event.n_cached),
                        ("completion", event.n_completion), ("reasoning", event.n_reasoning),
                        ("drafted", event.n_drafted), ("accepted", event.n_accepted)):
            if n:
                self._tokens.labels(model, kind).inc(n)
        self._wait.labels(model).observe(event.wait_s)
        self._ends.labels(model, event.reason).inc()
        if event.n_completion > 1:
            self._each.labels(model).observe(event.completion_s / (event.n_completion - 1))

    def computed(self, model: str, n_tokens: int) -> None:
        """Count the tokens of a question that has no events, such as embeddings."""
        self._tokens.labels(model, "prompt").inc(n_tokens)

    def left(self, visit: Visit) -> None:
        """Count a request that has ended."""
        self._requests.labels(visit.dialect, visit.route, str(visit.status)).inc()
        self._seconds.labels(visit.dialect, visit.route).observe(visit.seconds)
        if visit.fault:
            self._faults.labels(visit.fault).inc()

    def page(self, accept: str) -> tuple[bytes, str]:
        """All metrics and their media type, in the format that ``accept`` prefers."""
        encode, media = choose_encoder(accept)
        return encode(self._registry), media


class _Models(Collector):
    """What the models' cards say at the moment of a look."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def describe(self) -> Iterator[Metric]:
        """Nothing, so that registering asks no model."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        cards = self._core.cards()
        gauges = (
            ("unladen_requests_running", "Requests that are computed.",
             [card.running for card in cards]),
            ("unladen_requests_waiting", "Requests that wait.", [card.waiting for card in cards]),
            ("unladen_model_loaded", "1 where the model answers.",
             [int(card.state in ("ready", "moving")) for card in cards]),
            ("unladen_cache_blocks", "Blocks of the cache of keys and values.",
             [card.n_blocks for card in cards]),
            ("unladen_cache_blocks_held", "Blocks of the cache that requests hold; the others are "
             "free, or keep what later prompts may begin with.",
             [card.n_blocks_held for card in cards]))
        for name, text, values in gauges:
            gauge = GaugeMetricFamily(name, text, labels=("model",))
            for card, value in zip(cards, values, strict=True):
                gauge.add_metric((card.name,), float(value))
            yield gauge
        counters = (
            ("unladen_restarts", "Workers that died and were started again.",
             [card.n_restarts for card in cards]),
            ("unladen_evictions", "Models that were unloaded to make room.",
             [card.n_evictions for card in cards]),
            ("unladen_expert_choices", "Experts that tokens chose in layers with a cache of "
             "experts.", [card.experts[0] for card in cards]),
            ("unladen_expert_hits", "Those of them that a device had in its cache.",
             [card.experts[1] for card in cards]))
        for name, text, values in counters:
            counter = CounterMetricFamily(name, text, labels=("model",))
            for card, value in zip(cards, values, strict=True):
                counter.add_metric((card.name,), float(value))
            yield counter
        memory = GaugeMetricFamily("unladen_model_bytes", "Bytes that a model has on a device.",
                                   labels=("model", "device"))
        for card in cards:
            for device, n_bytes in card.device_bytes.items():
                memory.add_metric((card.name, device), float(n_bytes))
        yield memory
