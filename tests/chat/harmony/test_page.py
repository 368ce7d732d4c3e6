"""The example of docs/harmony.md runs as it stands there."""

import re
from typing import Any

from junto.chat.events import message_of
from tests.chat.harmony.vocabulary import harmony_tokenizer
from tests.data_dir import REPOSITORY


def test_the_example_of_the_page_runs() -> None:
    page = (REPOSITORY / "docs" / "harmony.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    tokenizer = harmony_tokenizer()
    answer = "<|channel|>analysis<|message|>r<|end|><|start|>assistant to=functions.f<|channel|>"
    answer += 'commentary json<|message|>{"a": 1}<|call|>'
    names: dict[str, Any] = {
        "tokenizer": tokenizer,
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "messages": [{"role": "user", "content": "u"}],
        "answer": tokenizer.encode(answer, special=True),
    }
    exec(example, names)
    assert tokenizer.decode(names["ids"], special=True).endswith("<|end|><|start|>assistant")
    message = message_of(names["events"])
    assert message["reasoning_content"] == "r"
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}
