"""The golden rows of harmony, and their conversations in the form of OpenAI's chat API.

Goldens are those of openai-harmony 0.0.8 (tests/data/README.md).
"""

import json
from datetime import datetime
from typing import Any

from junto.chat.dialogue import Turn
from tests.data_dir import find

Row = dict[str, Any]
GOLDEN_DAY = datetime(2025, 6, 28)
ROWS: list[Row] = [
    json.loads(line)
    for line in find("templates/harmony.golden.jsonl").read_text("utf-8").splitlines()
]
RENDER_ROWS = [row for row in ROWS if row["kind"] == "render"]
PARSE_ROWS = [row for row in ROWS if row["kind"] == "parse"]


def id_of(row: Row) -> str:
    return str(row["id"])


def _text(message: Row) -> str:
    return "".join(part["text"] for part in message["content"])


def _call_id(message: Row) -> str:
    return f"id of {message['recipient']}"


def _add_spoken(chat: list[Row], message: Row) -> None:
    """An assistant's message, or another part of the one that is being made."""
    if not chat or chat[-1]["role"] != "assistant" or "reasoning_content" not in chat[-1]:
        chat.append({"role": "assistant"})
    channel, recipient = message["channel"], message.get("recipient")
    if channel == "analysis":
        chat[-1]["reasoning_content"] = _text(message)
    elif recipient:
        function = {"name": recipient.removeprefix("functions."), "arguments": _text(message)}
        chat[-1]["tool_calls"] = [{"id": _call_id(message), "function": function}]
    else:
        chat[-1]["content"] = _text(message)


def chat_of(row: Row) -> tuple[list[Row], Turn]:
    """The messages and the turn that say what a golden conversation says."""
    chat: list[Row] = []
    tools: list[Row] = []
    variables: Row = {}
    effort = None
    for message in row["conversation"]["messages"]:
        first = message["content"][0]
        match message["role"]:
            case "system":
                effort = first["reasoning_effort"].lower()
                variables["model_identity"] = first["model_identity"]
                variables["builtin_tools"] = list(first.get("tools", ()))
            case "developer":
                if "instructions" in first:
                    chat.append({"role": "developer", "content": first["instructions"]})
                declared = first.get("tools", {}).get("functions", {"tools": []})["tools"]
                tools += [{"type": "function", "function": tool} for tool in declared]
            case "assistant":
                _add_spoken(chat, message)
            case "tool":
                chat.append(
                    {
                        "role": "tool",
                        "tool_call_id": f"id of {message['name']}",
                        "content": _text(message),
                    }
                )
            case role:
                chat.append({"role": role, "content": _text(message)})
    return chat, Turn(tools=tools, effort=effort, variables=variables)
