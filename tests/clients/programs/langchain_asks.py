"""Asks the server at the address argv[1] through LangChain; prints what came back as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any, Literal

from langchain_core.tools import tool
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

ADDRESS, QUESTION, SUM = sys.argv[1], sys.argv[2], sys.argv[3]


class Pet(BaseModel):
    """A pet."""

    kind: Literal["cat", "dog"]


@tool
def calculator(expression: str) -> str:
    """Works out an expression."""
    return "42"


def asked(chat: Any) -> dict[str, Any]:
    """What ``chat`` answers in each of its ways."""
    whole = chat.invoke(QUESTION)
    calling = chat.bind_tools([calculator])
    call = calling.invoke(SUM)
    result = calculator.invoke(call.tool_calls[0])
    return {"whole": whole.content, "usage": whole.usage_metadata,
            "stream": "".join(piece.content for piece in chat.stream(QUESTION)),
            "call": [call.tool_calls[0]["name"], call.tool_calls[0]["args"]],
            "after": calling.invoke([("user", SUM), call, result]).content,
            "form": chat.with_structured_output(Pet).invoke(QUESTION).kind}


openai = {"base_url": f"{ADDRESS}/v1", "api_key": "none"}
embeddings = OpenAIEmbeddings(model="encoder", check_embedding_ctx_length=False, **openai)
print(json.dumps({
    "openai": asked(ChatOpenAI(model="tiny-chat", temperature=0, max_tokens=80, **openai)),
    "ollama": asked(ChatOllama(model="tiny-chat", base_url=ADDRESS, temperature=0,
                               num_predict=80)),
    "embeddings": embeddings.embed_documents(["a cat", "a dog"])}))
