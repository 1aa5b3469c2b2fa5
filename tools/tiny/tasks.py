"""Tasks for tools: what a user asks, the call that the model makes, and how it words the result.

A task is one exchange: the user's message, the calls, the results, the answer. Results are real:
sums are computed and units converted, so a reader may check them. Each tool's definition varies in
its wording, because callers word theirs as they like.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from talks import Teller, new_name

UNITS: Mapping[str, tuple[str, float]] = {
    "km": ("miles", 0.6214), "miles": ("km", 1.609), "kg": ("pounds", 2.2046),
    "pounds": ("kg", 0.4536), "m": ("feet", 3.2808), "feet": ("m", 0.3048),
    "cm": ("inches", 0.3937), "inches": ("cm", 2.54), "liters": ("gallons", 0.2642),
    "gallons": ("liters", 3.7854), "hours": ("minutes", 60), "minutes": ("seconds", 60),
    "days": ("hours", 24), "weeks": ("days", 7), "years": ("months", 12)}
"""What a unit is converted to, and how many of those it is."""
OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "+": ("{x} + {y}", "{x} plus {y}", "{x}+{y}", "the sum of {x} and {y}"),
    "-": ("{x} - {y}", "{x} minus {y}", "{x}-{y}"),
    "*": ("{x} * {y}", "{x} times {y}", "{x}*{y}", "{x} x {y}"),
    "/": ("{x} / {y}", "{x} divided by {y}", "{x}/{y}")}
"""How a user writes an operation."""
QUESTIONS = ("What is {it}?", "What is {it}?", "How much is {it}?", "what's {it}", "{it}",
             "Calculate {it}.", "Compute {it}.", "Can you tell me what {it} is?", "{it} = ?",
             "Please calculate {it}.", "Do you know what {it} is?", "And {it}?")
WORD_PROBLEMS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "+": (("I have {x} {n} and get {y} more. How many {n} do I have?", "You have {r} {n}."),
          ("{p} has {x} {n} and finds {y} more. How many {n} does {p} have now?",
           "{p} has {r} {n} now."),
          ("There are {x} {n} in one box and {y} {n} in another. How many {n} are there?",
           "There are {r} {n}.")),
    "-": (("I have {x} {n} and lose {y} of them. How many {n} are left?", "{r} {n} are left."),
          ("{p} has {x} {n} and gives away {y}. How many {n} does {p} have now?",
           "{p} has {r} {n} now.")),
    "*": (("There are {x} boxes with {y} {n} each. How many {n} are there?", "There are {r} {n}."),
          ("{p} buys {x} bags of {y} {n}. How many {n} does {p} have?", "{p} has {r} {n}.")),
    "/": (("{y} friends share {x} {n}. How many {n} does each get?", "Each gets {r} {n}."),)}
"""Stories about sums: question and answer."""
CONVERSIONS = ("Convert {x} {u} to {v}.", "How many {v} are {x} {u}?", "What is {x} {u} in {v}?",
               "How much is {x} {u} in {v}?", "convert {x} {u} into {v}", "{x} {u} in {v}?",
               "Please convert {x} {u} to {v}.", "How many {v} is {x} {u}?", "{x} {u} to {v}")
WEATHER = ("What is the weather in {c}?", "How is the weather in {c}?", "Is it raining in {c}?",
           "What's the weather like in {c}?", "Tell me the weather in {c}.", "weather in {c}",
           "Do I need a coat in {c}?")
SKIES = ("sunny", "rainy", "cloudy", "windy", "snowy", "foggy", "clear", "stormy")
PHONE = ("What is {c}'s phone number?", "What is the phone number of {c}?", "How can I call {c}?",
         "Give me the number of {c}.", "I want to call {c}. What is the number?")
TIME = ("What time is it in {c}?", "What is the time in {c}?", "How late is it in {c}?",
        "Tell me the time in {c}.")


@dataclass(frozen=True)
class Tool:
    """A tool: what callers may call and describe it, its parameters with their types.

    The first of several names, of the tool or of a parameter, is the usual one.
    """

    names: tuple[str, ...]
    descriptions: tuple[str, ...]
    parameters: Mapping[tuple[str, ...], tuple[str, str]]

    def offer(self, rng: random.Random) -> Offer:
        """The tool as one caller defines it, in the form of OpenAI's clients."""
        described = rng.random() < 0.4
        keys = {names[0]: _often_first(names, rng) for names in self.parameters}
        properties = {
            keys[names[0]]: {"type": kind, "description": text} if described else {"type": kind}
            for names, (kind, text) in self.parameters.items()}
        name = _often_first(self.names, rng)
        return Offer(name, keys, {"type": "function", "function": {
            "name": name, "description": rng.choice(self.descriptions),
            "parameters": {"type": "object", "properties": properties,
                           "required": list(properties)}}})


@dataclass(frozen=True)
class Offer:
    """A tool as one caller defines it: its name there, and its parameters' names by the usual."""

    name: str
    keys: Mapping[str, str]
    definition: dict[str, Any]

    def call(self, task: Task) -> dict[str, Any]:
        """The call that the task needs."""
        arguments = {self.keys[key]: value for key, value in task.arguments.items()}
        return {"type": "function", "function": {"name": self.name, "arguments": arguments}}


def _often_first(names: tuple[str, ...], rng: random.Random) -> str:
    return names[0] if rng.random() < 0.7 else rng.choice(names)


TOOLS: Mapping[str, Tool] = {tool.names[0]: tool for tool in (
    Tool(("calculator", "calculate", "math"),
         ("Computes an expression.", "Calculates the value of an expression.",
          "A calculator for sums."),
         {("expression", "expr", "sum"): ("string", "The expression to compute.")}),
    Tool(("convert", "convert_units"),
         ("Converts a value from one unit to another.", "Converts units."),
         {("value", "amount"): ("number", "How much."),
          ("from",): ("string", "The unit of the value."),
          ("to",): ("string", "The unit of the result.")}),
    Tool(("weather", "get_weather"), ("Tells the weather in a city.", "The weather of a place."),
         {("city", "place", "location"): ("string", "The name of the city.")}),
    Tool(("time", "get_time", "clock"), ("Tells the time in a city.", "The time of a place."),
         {("city", "place", "location"): ("string", "The name of the city.")}),
    Tool(("phone", "find_phone", "contacts"),
         ("Finds the phone number of a person.", "Looks up a phone number."),
         {("name", "person"): ("string", "The name of the person.")}))}
"""The tools that the model learns to call."""


@dataclass(frozen=True)
class Task:
    """A question for a tool, the arguments of the call, its result, and the answer."""

    tool: str
    question: str
    arguments: Mapping[str, Any]
    result: str
    answer: str
    kind: str


def plain(value: float) -> str:
    """A number with two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))


def operands(rng: random.Random, sign: str) -> tuple[int, int]:
    """Two numbers for an operation whose result is a small enough number."""
    top = rng.choice((10, 20, 100, 100, 1000))
    if sign == "/":
        y = rng.randint(2, 12)
        return y * rng.randint(2, max(3, top // 4)), y
    if sign == "*":
        return rng.randint(2, min(top, 100)), rng.randint(2, 20)
    x, y = rng.randint(2, top), rng.randint(2, top)
    return (max(x, y) + 1, min(x, y)) if sign == "-" else (x, y)


def computed(x: float, sign: str, y: float) -> float:
    """The result of one operation."""
    return {"+": x + y, "-": x - y, "*": x * y, "/": x / y}[sign]


def a_sum(teller: Teller) -> Task:
    """A sum of two or, now and then, three numbers."""
    rng = teller.rng
    sign = rng.choice("+++--**/")
    x, y = operands(rng, sign)
    value: float = computed(x, sign, y)
    expression = f"{x} {sign} {y}"
    it = rng.choice(OPERATIONS[sign]).format(x=x, y=y)
    if sign in "+-" and rng.random() < 0.15:
        z = rng.randint(2, 20)
        value, expression, it = value + z, f"{expression} + {z}", f"{expression} + {z}"
    question = rng.choice(QUESTIONS).format(it=it)
    result = plain(value)
    return Task("calculator", question, {"expression": expression}, result,
                f"{expression} is {result}.", "sum")


def word_problem(teller: Teller) -> Task:
    """A sum in words."""
    rng = teller.rng
    sign = rng.choice("++--**/")
    x, y = operands(rng, sign)
    result = plain(computed(x, sign, y))
    question, answer = rng.choice(WORD_PROBLEMS[sign])
    words = {"x": x, "y": y, "r": result, "n": teller.pick("things"), "p": teller.pick("name")}
    return Task("calculator", question.format(**words), {"expression": f"{x} {sign} {y}"}, result,
                answer.format(**words), "words")


def conversion(teller: Teller) -> Task:
    """A value in another unit."""
    rng = teller.rng
    unit = rng.choice(list(UNITS))
    other, factor = UNITS[unit]
    value = float(rng.randint(2, rng.choice((10, 100, 500))))
    if rng.random() < 0.25:
        value = round(value + rng.randint(1, 9) / 10, 1)
    result = plain(round(value * factor, 2))
    given = int(value) if value % 1 == 0 else value
    question = rng.choice(CONVERSIONS).format(x=given, u=unit, v=other)
    return Task("convert", question, {"value": given, "from": unit, "to": other}, result,
                f"{given} {unit} are {result} {other}.", "units")


def weather(teller: Teller) -> Task:
    """The weather of a city."""
    rng = teller.rng
    city, sky = teller.expand("{town}"), rng.choice(SKIES)
    degrees = rng.randint(1, 35)
    return Task("weather", rng.choice(WEATHER).format(c=city), {"city": city},
                f"{sky}, {degrees} degrees", f"In {city} it is {sky}, {degrees} degrees.",
                "weather")


def time(teller: Teller) -> Task:
    """The time in a city."""
    rng = teller.rng
    city, clock = teller.expand("{town}"), f"{rng.randint(0, 23)}:{rng.randint(0, 59):02}"
    return Task("time", rng.choice(TIME).format(c=city), {"city": city}, clock,
                f"In {city} it is {clock}.", "time")


def phone(teller: Teller) -> Task:
    """Somebody's phone number."""
    rng = teller.rng
    name, digits = teller.pick("name"), teller.pick("code")
    return Task("phone", rng.choice(PHONE).format(c=name), {"name": name}, digits,
                f"The number of {name} is {digits}.", "phone")


TASKS: tuple[tuple[Callable[[Teller], Task], int], ...] = (
    (a_sum, 6), (word_problem, 3), (conversion, 5), (weather, 2), (time, 1), (phone, 1))
"""The kinds of tasks, and how often each comes."""


def any_task(teller: Teller) -> Task:
    """A task of a random kind."""
    makers, weights = zip(*TASKS, strict=True)
    make: Callable[[Teller], Task] = teller.rng.choices(makers, weights)[0]
    return make(teller)


def offered(rng: random.Random, needed: set[str]) -> dict[str, Offer]:
    """The ``needed`` tools, and some more, in any order, by their usual names."""
    names = [name for name in TOOLS if name in needed or rng.random() < 0.3]
    offers = {name: TOOLS[name].offer(rng) for name in names}
    if rng.random() < 0.1:
        other = Tool((new_name(rng).lower(),), ("Does something else.",),
                     {("text",): ("string", "Any text.")}).offer(rng)
        offers[other.name] = other
    return dict(rng.sample(list(offers.items()), len(offers)))


def result_text(task: Task, rng: random.Random) -> str:
    """What the tool answers: the bare result, or an object that holds it."""
    if rng.random() < 0.7:
        return task.result
    key = rng.choice(("result", "value", "answer"))
    is_number = task.kind in ("sum", "words", "units")
    return json.dumps({key: json.loads(task.result) if is_number else task.result})
