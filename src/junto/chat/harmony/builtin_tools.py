"""The tools that gpt-oss was trained with, in the words of its training: browser and python.

They are offered only where a caller asks for them (the template variable `builtin_tools`), who then
has to run them.

Source: the harmony format's tool configurations (openai-harmony 0.0.8, Apache-2.0). The words are
part of the format.
"""

from collections.abc import Collection
from typing import Any

from junto.chat.harmony.typescript import Function, namespace

PYTHON = "python"
BUILTIN_NAMES = ("browser", PYTHON)


def _arguments(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


_STRING = {"type": "string"}
_POSITION = {"type": "number", "default": -1}

_BROWSER = """\
Tool for browsing.
The `cursor` appears in brackets before each browsing display: `[{cursor}]`.
Cite information from the tool using the following format:
`【{cursor}†L{line_start}(-L{line_end})?】`, for example: `【6†L9-L11】` or `【8†L3】`.
Do not quote more than 10 words directly from the tool output.
sources=web (default: web)"""

_SEARCH = Function(
    "search",
    "Searches for information related to `query` and displays `topn` results.",
    _arguments(
        {"query": _STRING, "topn": {"type": "number", "default": 10}, "source": _STRING}, "query"
    ),
)

_OPEN = Function(
    "open",
    """\
Opens the link `id` from the page indicated by `cursor` starting at line number `loc`, showing \
`num_lines` lines.
Valid link ids are displayed with the formatting: `【{id}†.*】`.
If `cursor` is not provided, the most recent page is implied.
If `id` is a string, it is treated as a fully qualified URL associated with `source`.
If `loc` is not provided, the viewport will be positioned at the beginning of the document or \
centered on the most relevant passage, if available.
Use this function without `id` to scroll to a new location of an opened page.""",
    _arguments(
        {
            "id": {"type": ["number", "string"], "default": -1},
            "cursor": _POSITION,
            "loc": _POSITION,
            "num_lines": _POSITION,
            "view_source": {"type": "boolean", "default": False},
            "source": _STRING,
        }
    ),
)

_FIND = Function(
    "find",
    "Finds exact matches of `pattern` in the current page, or the page given by `cursor`.",
    _arguments({"pattern": _STRING, "cursor": _POSITION}, "pattern"),
)

_PYTHON = """\
Use this tool to execute Python code in your chain of thought. The code will not be shown to the \
user. This tool should be used for internal reasoning, but not for code that is intended to be \
visible to the user (e.g. when creating plots, tables, or files).

When you send a message containing Python code to python, it will be executed in a stateful \
Jupyter notebook environment. python will respond with the output of the execution or time out \
after 120.0 seconds. The drive at '/mnt/data' can be used to save and persist user files. Internet \
access for this session is UNKNOWN. Depends on the cluster."""


def builtin_sections(names: Collection[str]) -> list[str]:
    """The sections of the system message that offer these tools, in the order of training."""
    sections = {
        "browser": namespace("browser", (_SEARCH, _OPEN, _FIND), _BROWSER),
        PYTHON: namespace(PYTHON, (), _PYTHON),
    }
    return [sections[name] for name in BUILTIN_NAMES if name in names]


def is_builtin(recipient: str, names: Collection[str]) -> bool:
    """Whether a recipient is one of these tools, or a function of it."""
    return recipient.split(".")[0] in names
