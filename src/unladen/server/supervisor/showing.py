"""What a model's card shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from unladen.server.core import Card

if TYPE_CHECKING:
    from unladen.server.supervisor.hosted import Hosted

FACTS: Final = frozenset(Card.__dataclass_fields__) - {
    "name", "aliases", "state", "share", "expires", "running", "waiting", "options",
    "tokens_per_second", "n_blocks", "n_blocks_held", "n_restarts", "n_evictions", "fault",
    "done_bytes", "total_bytes", "n_arrivals", "n_prefilled", "n_written", "n_prompt", "n_cached",
    "experts"}
"""Fields of a card that a worker tells."""
ANSWERS: Final = frozenset({"ready", "moving"})
"""States in which the worker takes requests."""


def card_of(hosted: Hosted, **more: Any) -> Card:
    """What is known of the model ``hosted`` now. ``more``: fields of the card that its parts
    know."""
    facts = {name: value for name, value in hosted.facts.items() if name in FACTS}
    if "can" in facts:
        facts["can"] = frozenset(facts["can"])
    if hosted.state not in ANSWERS:
        facts.pop("plan", None)
    facts |= {f"n_{name}": n for name, n in hosted.tokens.items()}
    done, total = hosted.loaded
    return Card(
        hosted.own.name, hosted.own.aliases, state=hosted.state, share=hosted.share,
        fault=hosted.fault, done_bytes=done, total_bytes=total, running=hosted.queue.n_running,
        waiting=hosted.queue.n_waiting, options=hosted.options, n_restarts=hosted.n_restarts,
        n_evictions=hosted.n_evictions, n_arrivals=hosted.n_arrivals, **more, **facts)
