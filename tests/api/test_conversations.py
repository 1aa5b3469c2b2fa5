"""Conversations that go on, go back, fork, and move between files: little is computed twice."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen import Model
from unladen.api.session import Session
from unladen.chat.completion import ChatCompletion
from unladen.types import BLOCK_TOKENS

CONTEXT = 4096
SPECIAL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
SHOWN = [chr(i) for i in range(33, 127)]
N_CONTROL, CONTROL, BYTE, UNKNOWN, NORMAL = len(SPECIAL), 3, 6, 2, 1
KINDS = {"full": "qwen3-dense", "window": "gemma3-dense", "recurrent": "mamba2-dense",
         "hybrid": "jamba-dense"}
TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def build(shared: Path, name: str, folder: Path) -> Path:
    """The recipe's model, with a vocabulary of characters and a longer context."""
    recipe = json.loads((shared / f"archs/{name}.json").read_text())
    n = next(len(value) for key, _, value in recipe["metadata"] if key == "tokenizer.ggml.tokens")
    names = [*SPECIAL, *SHOWN, "\u2581", "<0x0A>"]
    types = [UNKNOWN] + [CONTROL] * (N_CONTROL - 1) + [NORMAL] * (len(SHOWN) + 1) + [BYTE]
    names += [f"filler{i}" for i in range(n - len(names))]
    types += [CONTROL] * (n - len(types))
    text, whole, array = ["STRING"], ["UINT32"], "ARRAY"
    recipe["metadata"] = [each for each in recipe["metadata"]
                          if not each[0].startswith("tokenizer.")] + [
        ["tokenizer.ggml.model", text, "llama"],
        ["tokenizer.ggml.tokens", [array, "STRING"], names],
        ["tokenizer.ggml.token_type", [array, "INT32"], types],
        ["tokenizer.ggml.scores", [array, "FLOAT32"], [-float(i) for i in range(n)]],
        ["tokenizer.ggml.bos_token_id", whole, 1], ["tokenizer.ggml.eos_token_id", whole, 2],
        ["tokenizer.chat_template", text, TEMPLATE]]
    for each in recipe["metadata"]:
        if each[0].endswith(".context_length"):
            each[2] = CONTEXT
    changed = folder / f"{name}.json"
    changed.write_text(json.dumps(recipe))
    spec = importlib.util.spec_from_file_location("fixture", shared / "archs/fixture.py")
    assert spec is not None and spec.loader is not None
    fixture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fixture)
    fixture.build(changed, folder / f"{name}.gguf")
    return folder / f"{name}.gguf"


class Talk:
    """A conversation whose every answer is compared with that of a model that begins anew."""

    def __init__(self, path: Path, max_seqs: int = 64) -> None:
        options: dict[str, Any] = {"devices": ["cpu"], "n_threads": 1, "kv_type": "f32",
                                   "max_seqs": max_seqs, "context_size": CONTEXT}
        self.model, self._fresh = Model(path, **options), Model(path, **options)
        size = self.model.tokenizer.n_vocab
        hidden = [*range(N_CONTROL), *range(N_CONTROL + len(SHOWN), size)]
        self.wishes: dict[str, Any] = {"temperature": 0.0, "max_tokens": 6,
                                       "logit_bias": dict.fromkeys(hidden, -np.inf)}
        self.session = self.model.session(system="Be brief.", **self.wishes)

    def check(self, answer: ChatCompletion, session: Session | None = None) -> None:
        """The fresh model writes the same after the same tokens."""
        tokens = (session or self.session).tokens
        n = len(tokens) - len(answer.tokens)
        again = self._fresh.generate(tokens[:n], **self.wishes)
        assert again.tokens == answer.tokens
        assert answer.usage.n_prompt == n


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def talk(kind: str, shared: Path, tmp_path: Path) -> Iterator[Talk]:
    made = Talk(build(shared, KINDS[kind], tmp_path))
    yield made
    made.model.close()
    made._fresh.close()


@pytest.mark.parametrize("n_turns", [40, pytest.param(90, marks=pytest.mark.long)])
def test_only_what_changed_is_computed(talk: Talk, kind: str, n_turns: int,
                                       rng: np.random.Generator) -> None:
    session = talk.session
    for i in range(n_turns):
        before = session.tokens
        answer = session.say(f"{i} " + "".join(rng.choice(SHOWN, 5)))
        talk.check(answer)
        assert session.tokens[:len(before)] == before, "tokens of earlier turns stay"
        assert answer.usage.n_cached == max(0, len(before) - 1)
    kept, whole = session.messages, session.tokens
    middle = 1 + n_turns // 2 * 2
    session.edit(middle, "changed")
    assert session.messages == [*kept[:middle], {"role": "user", "content": "changed"}]
    answer = session.regenerate()
    talk.check(answer)
    n_same = next(i for i, (a, b) in enumerate(zip(whole, session.tokens, strict=False)) if a != b)
    if kind == "full":
        assert answer.usage.n_cached == n_same
    else:  # windows and recurrent state end with blocks
        assert n_same - BLOCK_TOKENS < answer.usage.n_cached <= n_same
    before = session.tokens
    answer = session.say("Go on")
    talk.check(answer)
    assert answer.usage.n_cached == len(before) - 1


def test_few_checkpoints(shared: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    """A recurrent model with few slots for its state goes back further, and writes the same."""
    talk = Talk(build(shared, KINDS["recurrent"], tmp_path), max_seqs=1)
    session = talk.session
    for i in range(20):
        session.say(f"{i} " + "".join(rng.choice(SHOWN, 5)))
    for index, n_most in ((-4, 3 * BLOCK_TOKENS), (1, 2 * BLOCK_TOKENS)):
        whole = session.tokens
        session.edit(index, "changed")
        answer = session.regenerate()
        talk.check(answer)
        n_same = next(i for i, (a, b) in enumerate(zip(whole, session.tokens, strict=False))
                      if a != b)
        assert answer.usage.n_cached % BLOCK_TOKENS == 0
        assert n_same - n_most < answer.usage.n_cached <= n_same
    talk.model.close()
    talk._fresh.close()
