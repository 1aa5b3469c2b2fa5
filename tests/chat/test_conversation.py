"""Sessions that keep messages, with the package's model that can chat."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unladen import Model
from unladen.api.session import Session
from unladen.chat.conversation import Conversation
from unladen.chat.messages import Message
from unladen.chat.prompt import Prompt
from unladen.chat.reading import REASONING
from unladen.chat.saved import MAX_BYTES
from unladen.errors import ContextOverflow, InvalidArgument

GREEDY: dict[str, Any] = {"temperature": 0.0, "max_tokens": 30}


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model("tiny-chat", devices=["cpu"], n_threads=1) as made:
        yield made


@pytest.fixture
def session(model: Model) -> Iterator[Session]:
    with model.session(system="You are helpful.", **GREEDY) as made:
        yield made


def test_answers_are_those_of_chat(model: Model, session: Session) -> None:
    n_before = 0
    for said in ("Hello!", "My name is Ann.", {"role": "user", "content": "Thanks <|im_end|>"}):
        answer = session.say(said)
        assert answer.text == model.chat(session.messages[:-1], **GREEDY).text
        assert answer.usage.n_cached >= n_before - 1
        n_before = len(session.tokens)
    assert [m["role"] for m in session.messages] == ["system", *["user", "assistant"] * 3]


def test_messages_are_a_copy(session: Session) -> None:
    session.say("Hello!")
    session.messages[1]["content"] = "changed"
    session.messages.clear()
    assert session.messages[1]["content"] == "Hello!"


def test_edits_go_back(model: Model, session: Session) -> None:
    for said in ("Hello!", "Thanks"):
        session.say(said)
    session.edit(3, "My name is Ann.")
    assert len(session.messages) == 4
    answer = session.regenerate()
    assert answer.text == model.chat(session.messages[:-1], **GREEDY).text
    session.edit(-1, "Hi Ann.")
    assert session.messages[-1] == {"role": "assistant", "content": "Hi Ann."}
    answer = session.say("Thanks")
    assert answer.text == model.chat(session.messages[:-1], **GREEDY).text
    for bad in (7, -8, True, "1"):
        with pytest.raises(InvalidArgument, match="index"):
            session.edit(bad, "x")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        session.edit(0, {"content": "no role"})


@pytest.mark.parametrize("begun", [
    {"content": "The"}, {"content": [{"type": "text", "text": "The"}]}, {"content": ""},
    {"content": []}, {}, {"content": "", "reasoning_content": "Let me"},
    {"content": "Yes", "reasoning": "Let me"}])
def test_an_answer_that_was_begun_is_one_message(session: Session, begun: dict[str, Any]) -> None:
    answer = session.say([{"role": "user", "content": "Hello!"}, {"role": "assistant", **begun}],
                         continues=True)
    last, said = session.messages[-1], begun.get("content")
    if isinstance(said, list) and said:
        assert last["content"] == [{"type": "text", "text": "The" + answer.text}]
    else:
        assert last["content"] == (said or "") + answer.text
    thought = begun.get("reasoning_content", begun.get("reasoning", ""))
    assert bool(thought) <= ("reasoning_content" in last)
    for key in {*REASONING} & {*last}:
        assert last[key] == thought + answer.message.reasoning
    assert [m["role"] for m in session.messages] == ["system", "user", "assistant"]
    assert session.say("Thanks").text


def test_forks_go_their_own_way(session: Session) -> None:
    session.say("Hello!")
    n = len(session.tokens)
    with session.fork() as other:
        first, second = session.say("My name is Ann."), other.say("Thanks")
        assert min(first.usage.n_cached, second.usage.n_cached) >= n - 1
        assert session.messages[:3] == other.messages[:3]
        assert session.messages[3:] != other.messages[3:]


def test_errors_leave_the_messages(session: Session) -> None:
    session.say("Hello!")
    before = session.messages
    with pytest.raises(ContextOverflow):
        session.say("word " * 2000)
    with pytest.raises(InvalidArgument):
        session.say("Hello", temperature=-1.0)
    with pytest.raises(InvalidArgument):
        session.say(5)  # type: ignore[arg-type]
    assert session.messages == before
    session.say("Thanks")
    assert session.messages[:3] == before


def test_a_stream_keeps_what_was_written(session: Session) -> None:
    with session.stream_say("What can you do?") as stream:
        next(stream)
        with pytest.raises(InvalidArgument, match="another caller"):
            session.say("Hello")
    assert session.messages[-1]["content"] == stream.result.text != ""
    session.edit(1, "Hello!")
    with session.stream_say(None) as stream:
        text = "".join(stream.text())
    assert session.messages[-1]["content"] == text


def test_coroutines(session: Session) -> None:
    async def talk() -> None:
        await session.asay("Hello!")
        deltas = [delta async for delta in session.astream_say("Thanks")]
        assert deltas

    asyncio.run(talk())
    assert [m["role"] for m in session.messages] == ["system", *["user", "assistant"] * 2]


def test_the_session_keeps_what_the_prompt_drops(session: Session) -> None:
    for i in range(4):
        answer = session.say(f"{i} " + "word " * 120, on_overflow="shift", max_tokens=8)
    assert answer.usage.n_truncated > 0
    assert len(session.messages) == 9


def test_tokens_of_answers_are_kept_where_they_stand(model: Model) -> None:
    """Prompts go on from the tokens that the model chose, and control tokens stay what they are."""
    tokenizer = model.tokenizer
    mark = tokenizer.control_texts["<|im_end|>"]
    chosen = [token for char in "Hello" for token in tokenizer.encode(char)]
    assert chosen != tokenizer.encode("Hello")
    begin, go_on = "<|im_start|>assistant\n", "<|im_end|>\n<|im_start|>user\nHi"

    def prompt(text: str, *plain: tuple[int, int]) -> Prompt:
        return Prompt(text, tokenizer.encode(text, add_special=False, plain=plain), plain)

    talk = Conversation(tokenizer)
    for written, whole in ((chosen, "Hello"), ([*chosen, mark], "Hello<|im_end|>"),
                           ([*chosen, *tokenizer.encode("<|im_end|>", special=False)],
                            "Hello<|im_end|>")):
        is_text = len(written) > len(chosen) + 1
        at = len(begin + "Hello")
        plain = ((at, at + 1),) if is_text else ()
        first = talk.split(prompt(begin))
        talk.answered([], Message(whole), first, written, is_continued=False)
        known = [*tokenizer.encode(begin), *written]
        for text, marked, is_known in (
                (begin + whole + go_on, plain, True), (begin + whole, plain, True),
                (begin + "Help" + go_on, (), False), ("x" + begin + whole, (), False),
                (begin + whole + go_on, () if is_text else ((at, at + 1),), whole == "Hello"
                 and not is_text)):
            asked = prompt(text, *marked)
            ids = [token for piece in talk.split(asked) for token in piece.ids]
            assert (ids[:len(known)] == known) is is_known
            assert tokenizer.decode(ids, special=True) == text
            marks = [token for token in ids if token in tokenizer.control_texts.values()]
            assert marks == [token for token in asked.ids
                             if token in tokenizer.control_texts.values()]
        talk.pieces = ()


def test_files(model: Model, session: Session, tmp_path: Path) -> None:
    for said in ("Hello!", "My name is Ann."):
        session.say(said)
    path = tmp_path / "talk.json"
    session.save(path)
    session.save(path)
    assert [each.name for each in tmp_path.iterdir()] == ["talk.json"]
    n, expected = len(session.tokens), session.fork().say("Thanks")
    with model.session(**GREEDY) as other:
        other.load(path)
        assert other.messages == session.messages
        answer = other.say("Thanks")
        assert (answer.text, answer.usage.n_prompt) == (expected.text, expected.usage.n_prompt)
        assert answer.usage.n_cached > n - 40
    with model.session(**GREEDY) as other:
        data = json.loads(path.read_text())
        path.write_text(json.dumps({**data, "fingerprint": "of another model", "pieces": 5}))
        other.load(path)
        assert other.say("Thanks").text == expected.text


def test_hostile_files(session: Session, tmp_path: Path) -> None:
    session.say("Hello!")
    path, before = tmp_path / "talk.json", session.messages
    session.save(path)
    good = json.loads(path.read_text())
    pieces = good["pieces"]
    bad: list[Any] = [
        5, [], {}, {**good, "version": 2}, {**good, "messages": 5}, {**good, "messages": [5]},
        {**good, "messages": [{"role": 5}]}, {**good, "pieces": 5}, {**good, "pieces": [5]},
        *({**good, "pieces": [{**pieces[0], **wrong}, *pieces[1:]]} for wrong in (
            {"ids": [1 << 40]}, {"ids": [True]}, {"ids": "x"}, {"ids": [1, 2]}, {"plain": [[3, 1]]},
            {"plain": [[0, 1 << 40]]}, {"plain": 3}, {"asked": 3}, {"asked": "other"})),
        {**good, "pieces": [pieces[0], {**pieces[1], "answered": "other"}]}]
    for each in [*(json.dumps(one).encode() for one in bad), b"", b"\xff", b"[" * 100_000,
                 b" " * (MAX_BYTES + 1)]:
        path.write_bytes(each)
        with pytest.raises(InvalidArgument, match="holds no conversation"):
            session.load(path)
    with pytest.raises(OSError, match="absent"):
        session.load(tmp_path / "absent")
    assert session.messages == before
