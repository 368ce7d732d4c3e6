"""Conversations that call a tool: a question, the call, the tool's result, an answer from it.

Three fixed tools with few possible values, because a model of a few million parameters learns the
pattern and not how to read a schema. Knows nothing of templates.
"""

import random
from typing import Any

Message = dict[str, Any]

CITIES = ("London", "Paris", "Berlin", "Rome", "Oslo", "Madrid", "Vienna", "Dublin")
WEATHER = ("sunny", "cloudy", "windy", "rainy", "snowy", "stormy")
THINGS = ("apple", "book", "toy", "hat", "cake", "kite", "doll", "lamp")
PRICES = ("1", "2", "3", "4", "5", "6", "7", "8", "9")
PLACES = ("garden", "kitchen", "barn", "forest", "house", "school", "park", "castle")
ANIMALS = ("fox", "cat", "dog", "rabbit", "bear", "horse", "mouse", "owl")


def tool_conversation(rng: random.Random, *, reasons: bool) -> tuple[list[Message], list[Message]]:
    """Messages, and the definitions of the tools offered; with `reasons` a thought goes before."""
    make = rng.choice((_weather, _price, _place))
    question, name, arguments, result, answer = make(rng)
    offered = sorted({name, rng.choice(list(TOOLS))}) if rng.random() < 0.3 else [name]
    call: Message = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}],
    }
    if reasons:
        call["thinking"] = f"I need the tool {name} for this."
    messages = [{"role": "user", "content": question}, call]
    if rng.random() < 0.7:
        messages.append({"role": "tool", "content": result})
        messages.append({"role": "assistant", "content": answer})
    return messages, [TOOLS[tool] for tool in offered]


def _weather(rng: random.Random) -> tuple[str, str, dict[str, str], str, str]:
    city, sky = rng.choice(CITIES), rng.choice(WEATHER)
    asked = rng.choice(("What is the weather in {}?", "How is the weather in {} today?"))
    return asked.format(city), "get_weather", {"city": city}, sky, f"It is {sky} in {city} today."


def _price(rng: random.Random) -> tuple[str, str, dict[str, str], str, str]:
    thing, price = rng.choice(THINGS), rng.choice(PRICES)
    asked = rng.choice(("What does the {} cost?", "How much is the {}?"))
    return asked.format(thing), "get_price", {"thing": thing}, price, f"The {thing} costs {price}."


def _place(rng: random.Random) -> tuple[str, str, dict[str, str], str, str]:
    animal, place = rng.choice(ANIMALS), rng.choice(PLACES)
    asked = rng.choice(("Where is the {}?", "Can you find the {}?"))
    said = f"The {animal} is in the {place}."
    return asked.format(animal), "find_animal", {"animal": animal}, place, said


def _definition(name: str, description: str, parameter: str) -> Message:
    schema = {
        "type": "object",
        "properties": {parameter: {"type": "string"}},
        "required": [parameter],
    }
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


TOOLS = {
    "get_weather": _definition("get_weather", "Tells the weather in a city.", "city"),
    "get_price": _definition("get_price", "Tells the price of a thing.", "thing"),
    "find_animal": _definition("find_animal", "Tells where an animal is.", "animal"),
}
