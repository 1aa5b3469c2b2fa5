"""Complaint 2: the whole prompt is read again, by models with recurrent state or a window, and by
sub-agents that take each other's cache.

The counts of cached tokens that the server tells its clients prove that it isn't so. The models are
those of ``../shared/archs``, with a vocabulary of characters."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httpx", reason="needs httpx")

import httpx

from api.test_conversations import CONTEXT, N_CONTROL, SHOWN, build
from clients.serving import Served, serving
from unladen.types import BLOCK_TOKENS

RECIPES = {"window": "gemma3-dense", "recurrent": "mamba2-dense", "hybrid": "falcon-h1-dense"}
N_AGENTS = 8
"""Conversations beside each other. A peer has four slots as it comes, and a prefix in each."""
N_TURNS = 2
N_RULES = 600
"""Tokens that all agents begin with."""
RULES_KEPT = 0.8
"""The share of them that a new agent needn't have read."""
N_VOCAB = 128
HIDDEN = {str(each): -100 for each in [*range(N_CONTROL), *range(N_CONTROL + len(SHOWN), N_VOCAB)]}
"""A bias against tokens without a character of their own. An answer then comes back in the history
as the tokens that were written."""


@pytest.fixture(scope="module", params=RECIPES)
def served(request: pytest.FixtureRequest, shared: Any, tmp_path_factory: pytest.TempPathFactory
           ) -> Iterator[Served]:
    path = build(shared, RECIPES[request.param], tmp_path_factory.mktemp("archs"))
    with serving({"ref": path, "name": "small", "context_size": CONTEXT,
                  "speculate": False}) as found:
        yield found


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.address, timeout=300) as made:
        yield made


class Talk:
    """A conversation of ``client`` that begins with ``system``."""

    def __init__(self, client: httpx.Client, system: str) -> None:
        self._client = client
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
        self.n_before = 0
        """Tokens of the conversation after its last answer."""

    def say(self, text: str) -> tuple[int, int]:
        """Ask, and take the answer into the history; the prompt's tokens, and how many of them
        came from the cache."""
        self.messages.append({"role": "user", "content": text})
        done = self._client.post("/v1/chat/completions", json={
            "model": "small", "messages": self.messages, "max_tokens": 40, "temperature": 0,
            "logit_bias": HIDDEN})
        assert done.status_code == 200, done.text
        answer, usage = done.json()["choices"][0], done.json()["usage"]
        self.messages.append({"role": "assistant", "content": answer["message"]["content"]})
        self.n_before = usage["total_tokens"]
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def words(rng: np.random.Generator, n: int) -> str:
    """``n`` characters, a token each."""
    return "".join(rng.choice(SHOWN, n))


def test_2_a_turn_reads_only_what_is_new(client: httpx.Client, rng: np.random.Generator) -> None:
    """Titles and follow-ups come between two turns, with beginnings of their own."""
    chat, found = Talk(client, "Be brief."), []
    for turn in range(N_TURNS):
        n_before = chat.n_before
        n_prompt, n_cached = chat.say(words(rng, 40 if turn else 900))
        found.append((n_prompt, n_before, n_cached))
        for _ in range(3):
            Talk(client, f"A title for this. {words(rng, 20)}").say(
                "".join(str(each["content"]) for each in chat.messages)[-400:])
    assert found[0][2] < BLOCK_TOKENS, "nothing of a new conversation was known"
    for n_prompt, n_before, n_cached in found[1:]:
        assert n_before - BLOCK_TOKENS <= n_cached <= n_prompt, found


def test_2_sub_agents_keep_their_prefixes(client: httpx.Client, rng: np.random.Generator) -> None:
    """They begin alike, as agents do with their rules and tools. Later turns come all at once."""
    rules = words(rng, N_RULES)
    agents = [Talk(client, rules) for _ in range(N_AGENTS)]
    for agent, n in zip(agents, rng.integers(200, 600, N_AGENTS), strict=True):
        agent.say(words(rng, int(n)))
    with ThreadPoolExecutor(N_AGENTS) as threads:
        for _ in range(N_TURNS):
            before = [agent.n_before for agent in agents]
            texts = [words(rng, 40) for _ in agents]
            found = [*threads.map(Talk.say, agents, texts)]
            for n_before, (_, n_cached) in zip(before, found, strict=True):
                assert n_cached >= n_before - BLOCK_TOKENS, (before, found)
    # A new agent finds the rules, or most of them: recurrent state is kept where a step ended.
    _, n_cached = Talk(client, rules).say(words(rng, 100))
    assert n_cached >= RULES_KEPT * N_RULES
