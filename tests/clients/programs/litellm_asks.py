"""Asks the server at the address argv[1] through litellm in three dialects; prints what came back
as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import litellm

ADDRESS, QUESTION = sys.argv[1], sys.argv[2]


def asked(provider: str, base: str) -> dict[str, Any]:
    """What ``provider`` answers in each of its ways."""
    own: dict[str, Any] = {"api_base": base, "api_key": "none", "temperature": 0, "max_tokens": 80,
                           "num_retries": 0, "messages": [{"role": "user", "content": QUESTION}]}
    whole = litellm.completion(model=f"{provider}/tiny-chat", **own)
    stream = litellm.completion(model=f"{provider}/tiny-chat", stream=True, **own)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    try:
        litellm.completion(model=f"{provider}/no-such", **own)
        error = ""
    except litellm.exceptions.NotFoundError as found:
        error = str(found)
    return {"whole": whole.choices[0].message.content, "stream": text, "error": error,
            "usage": [whole.usage.prompt_tokens, whole.usage.completion_tokens]}


litellm.suppress_debug_info = True
print(json.dumps({"openai": asked("openai", f"{ADDRESS}/v1"),
                  "anthropic": asked("anthropic", ADDRESS),
                  "ollama_chat": asked("ollama_chat", ADDRESS)}))
