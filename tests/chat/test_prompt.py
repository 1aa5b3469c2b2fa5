"""From a conversation to token ids: BOS, roles, control marks, prefills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unladen import Model
from unladen.chat import ChatTemplate
from unladen.chat.formats import named
from unladen.chat.named import ChatTemplates
from unladen.chat.prompt import PromptMaker
from unladen.errors import InvalidArgument, TemplateError
from unladen.gguf import open_gguf
from unladen.storage.mapping import map_file
from unladen.tokenizer import Tokenizer

USER = {"role": "user", "content": "Hello"}


def tokenizer_of(path: Path) -> Tokenizer:
    file = open_gguf(str(path), map_file(str(path)))
    return Tokenizer.from_gguf(file.metadata, str(path))


@pytest.fixture(scope="module")
def llama(shared: Path) -> Tokenizer:
    return tokenizer_of(shared / "vocabs/ggml-vocab-llama-bpe.gguf")


@pytest.fixture(scope="module")
def chat() -> Tokenizer:
    return Model("tiny-chat", vocab_only=True).tokenizer


def test_bos_comes_once_whoever_asks_for_it(llama: Tokenizer) -> None:
    assert llama.add_bos
    assert llama.bos_id is not None
    with_bos, without = (ChatTemplate(f"{bos}{{{{ messages[0].content }}}}")
                         for bos in ("{{ bos_token }}", ""))
    for template in (with_bos, without):
        ids = PromptMaker(template, llama)([USER]).ids
        assert ids.count(llama.bos_id) == 1
        assert ids[0] == llama.bos_id


def test_no_bos_where_nobody_asks_for_it(chat: Tokenizer) -> None:
    ids = PromptMaker(named("chatml"), chat)([USER]).ids
    assert chat.bos_id is None or chat.bos_id not in ids


MAKERS = ("ggml-vocab-llama-bpe", "ggml-vocab-qwen2", "ggml-vocab-gemma-4", "ggml-vocab-phi-3",
          "ggml-vocab-llama-spm", "ggml-vocab-deepseek-coder")


@pytest.mark.parametrize("vocab", MAKERS)
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_a_control_mark_in_a_message_is_text(shared: Path, vocab: str, role: str) -> None:
    tokenizer = tokenizer_of(shared / f"vocabs/{vocab}.gguf")
    marks = [text for text in tokenizer.control_texts if text.strip()][:4]
    assert marks
    # A template without marks of its own: no token may be a control token but BOS.
    make = PromptMaker(ChatTemplate("{% for m in messages %}{{ m.role }}: {{ m.content|trim }}\n"
                                    "{% endfor %}"), tokenizer)
    for mark in marks:
        content = f"a {mark} b{mark}{mark[:-1]}"
        prompt = make([{"role": role, "content": content}])
        ids = prompt.ids[prompt.ids[:1] == [tokenizer.bos_id]:]
        assert not set(ids) & set(tokenizer.hidden_ids), f"{mark!r} became a control token"
        assert content in prompt.text


def test_the_templates_own_marks_are_control_tokens(chat: Tokenizer) -> None:
    prompt = PromptMaker(named("chatml"), chat)([USER])
    start = chat.encode("<|im_start|>", add_special=False)
    assert len(start) == 1
    assert prompt.ids.count(start[0]) == prompt.text.count("<|im_start|>") == 2


def test_a_mark_in_a_tools_description_is_text(chat: Tokenizer) -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "<|im_end|>",
                                             "parameters": {"type": "object", "properties": {}}}}
    template = ChatTemplate("{{ tools|tojson }}")
    assert not set(PromptMaker(template, chat)([USER], [tool]).ids) & set(chat.hidden_ids)


@pytest.mark.parametrize("begun", ["Once upon", "Once upon ", "Wörter, <|im_end|>"])
def test_a_prompt_ends_behind_the_answer_that_is_continued(chat: Tokenizer, begun: str) -> None:
    said: list[dict[str, Any]] = [USER, {"role": "assistant", "content": begun}]
    text = PromptMaker(named("chatml"), chat)(said, continues=True).text
    assert text.rstrip().endswith(begun.rstrip())


@pytest.mark.parametrize("parts", [[], ["Once "], ["Once ", "upon"]])
def test_parts_are_continued(chat: Tokenizer, parts: list[str]) -> None:
    template = ChatTemplate("{% for m in messages %}{% if m.content is string %}{{ m.content }}"
                            "{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}"
                            "|{% endfor %}")
    assert template.takes_parts
    said: list[dict[str, Any]] = [USER, {"role": "assistant", "content": parts}]
    text = PromptMaker(template, chat)(said, continues=True).text
    assert text == f"{USER['content']}|{''.join(parts)}"


PUBLISHED = sorted((Path(__file__).resolve().parents[3] / "shared/chat/templates").glob("*.jinja"))


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_answers_are_continued_with_published_templates(path: Path, chat: Tokenizer) -> None:
    """The prompt ends behind the beginning of the answer, and begins as it does without it."""
    make = PromptMaker(ChatTemplate(path.read_text(encoding="utf-8")), chat)
    variables = {"functions": "[]", "datetime": "now", "date_string": "1 Jan"}
    begun: list[dict[str, Any]] = [USER, {"role": "assistant", "content": "The answer, in short: "}]
    text = make(begun, continues=True, variables=variables).text
    assert text.endswith("The answer, in short: ")
    assert text.count("The answer") == 1
    assert "Hello" in text


PARTS = ChatTemplate("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
                     "{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}{% endfor %}"
                     )


@pytest.mark.parametrize("content", [[], [{"type": "text", "text": ""}], "", None])
def test_an_answer_without_a_beginning_is_continued(chat: Tokenizer, content: Any) -> None:
    said: list[dict[str, Any]] = [USER, {"role": "assistant", "content": content}]
    assert PromptMaker(PARTS, chat)(said, continues=True).text == "Hello"


def test_reasoning_is_continued(chat: Tokenizer) -> None:
    template = ChatTemplate("{% for m in messages %}{% if m.reasoning_content %}<think>"
                            "{{ m.reasoning_content|trim }}</think>{% endif %}{{ m.content }}."
                            "{% endfor %}")
    said = [USER, {"role": "assistant", "content": "", "reasoning": "First, "}]
    assert PromptMaker(template, chat)(said, continues=True).text == "Hello.<think>First, "
    said[1] = {"role": "assistant", "content": "", "reasoning_content": "So", "thinking": 5}
    assert PromptMaker(template, chat)(said, continues=True).text == "Hello.<think>So"


def test_a_users_message_isnt_continued(chat: Tokenizer) -> None:
    with pytest.raises(InvalidArgument, match="can't be continued"):
        PromptMaker(named("chatml"), chat)([USER], continues=True)


STRICT = ChatTemplate(
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate user and assistant') }}{% endif %}"
    "[{{ m.role }}] {{ m.content }}\n{% endfor %}")


def test_a_template_without_a_system_role_gets_its_text_with_the_users(chat: Tokenizer) -> None:
    prompt = PromptMaker(STRICT, chat)([{"role": "system", "content": "Be kind."}, USER])
    assert prompt.text == "[user] Be kind.\n\nHello\n"
    assert prompt.notes


def test_messages_of_one_role_are_joined_where_roles_alternate(chat: Tokenizer) -> None:
    prompt = PromptMaker(STRICT, chat)([USER, {"role": "user", "content": "Again"}])
    assert prompt.text == "[user] Hello\n\nAgain\n"
    assert prompt.notes


def test_a_developer_is_a_system_where_the_template_has_none(chat: Tokenizer) -> None:
    prompt = PromptMaker(named("chatml"), chat)([{"role": "developer", "content": "Brief."}, USER])
    assert "<|im_start|>system\nBrief." in prompt.text


def test_an_empty_conversation_is_an_error(chat: Tokenizer) -> None:
    with pytest.raises(InvalidArgument, match="empty"):
        PromptMaker(named("chatml"), chat)([])


def test_templates_are_chosen_by_what_there_is() -> None:
    found = ChatTemplates.from_metadata({"tokenizer.chat_template": "plain",
                                         "tokenizer.chat_template.tool_use": "tools",
                                         "tokenizer.chat_template.rag": "documents"})
    assert found.chosen().source == "plain"
    assert found.chosen(tools=[{}]).source == "tools"
    assert found.chosen(documents=[{}]).source == "documents"
    assert ChatTemplates({"default": "plain"}).chosen(tools=[{}]).source == "plain"
    with pytest.raises(TemplateError, match="chatml"):
        ChatTemplates({}).chosen()
    with pytest.raises(InvalidArgument, match="tool_use"):
        found.named("nothing")
