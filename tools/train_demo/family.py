"""What sets the two families apart before any model is built: tokens, regexes, dialogue form.

Knows the text side only; the networks are in `qwen.py` and `gpt_oss.py`.
"""

import re
from dataclasses import dataclass
from typing import Literal

Name = Literal["qwen35moe", "gpt-oss"]
NAMES: tuple[Name, ...] = ("qwen35moe", "gpt-oss")


@dataclass(frozen=True, slots=True)
class Family:
    """The text side of a family.

    special, plain   added tokens in id order, after the merges; `plain` ones survive decoding
    before, after    what stands around a text that is no dialogue
    answers          finds in a rendered dialogue what the assistant wrote, end token included
    """

    name: Name
    template: str
    pre_tokenizer: str
    nfc: bool
    special: tuple[str, ...]
    plain: tuple[str, ...]
    before: str
    after: str
    answers: re.Pattern[str]
    bos: str
    pad: str
    stop: tuple[str, ...]


FAMILIES: dict[str, Family] = {
    "qwen35moe": Family(
        name="qwen35moe",
        template="Qwen3.5-4B.jinja",
        pre_tokenizer=(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
            r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        nfc=True,
        special=("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        plain=(
            "<tool_call>",
            "</tool_call>",
            "<tool_response>",
            "</tool_response>",
            "<think>",
            "</think>",
        ),
        before="",
        after="<|endoftext|>",
        answers=re.compile(r"(?<=<\|im_start\|>assistant\n).*?<\|im_end\|>", re.DOTALL),
        bos="<|endoftext|>",
        pad="<|endoftext|>",
        stop=("<|im_end|>", "<|endoftext|>"),
    ),
    "gpt-oss": Family(
        name="gpt-oss",
        template="openai-gpt-oss-120b.jinja",
        pre_tokenizer=(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
            r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        nfc=False,
        special=(
            "<|startoftext|>",
            "<|endoftext|>",
            "<|return|>",
            "<|constrain|>",
            "<|channel|>",
            "<|start|>",
            "<|end|>",
            "<|message|>",
            "<|call|>",
        ),
        plain=(),
        before="<|startoftext|>",
        after="<|endoftext|>",
        answers=re.compile(
            r"(?<=<\|start\|>assistant).*?(?:<\|end\|>|<\|return\|>|<\|call\|>)", re.DOTALL
        ),
        bos="<|startoftext|>",
        pad="<|endoftext|>",
        stop=("<|return|>", "<|endoftext|>", "<|call|>"),
    ),
}
