"""Asks a model, which calls a tool, and answers with the tool's result.

    python examples/chat.py [MODEL]

MODEL is a GGUF file, ``org/repo:QUANT`` on Hugging Face, or (by default) ``tiny-chat``.
"""

from __future__ import annotations

import sys
from typing import Any

from unladen import Model

WEATHER = {"London": "rainy, 12 degrees", "Paris": "sunny, 21 degrees"}


def weather(city: str) -> str:
    """The weather in a city.

    city: the name of the city
    """
    return WEATHER.get(city, "cloudy, 15 degrees")


def main(path: str = "tiny-chat") -> None:
    messages: list[Any] = []
    with Model(path) as model:
        for question in ("Hello! Who are you?", "What is the weather in Paris?"):
            print(f"> {question}")
            messages.append({"role": "user", "content": question})
            answer = model.chat(messages, tools=[weather], temperature=0.0, max_tokens=80)
            messages.append(answer.message)
            while answer.tool_calls:
                for call in answer.tool_calls:
                    print(f"({call.name} {call.arguments})")
                    result = weather(**call.values()) if call.is_complete else "not understood"
                    messages.append({"role": "tool", "name": call.name, "content": result})
                answer = model.chat(messages, tools=[weather], tool_choice="none",
                                    temperature=0.0, max_tokens=80)
                messages.append(answer.message)
            print(answer.text)


if __name__ == "__main__":
    main(*sys.argv[1:])
