"""Messages to token ids, so that nobody but the template can write a control token.

What is guaranteed, whatever messages, tools, variables and the template hold:

- An added token's id stands only where the template itself wrote every letter of it, side by side:
  as text outside of expressions, as a literal, as the name of the first or last token, or as one of
  the well-known roles. Nothing foreign, not even an empty text, can have stood in between.
- All else is plain text, encoded in whole stretches, so merges across the border of template and
  message are as without all this. The text is the one that the template renders.

How: `provenance` follows the template's own letters through the rendering. Besides, the punctuation
that begins or ends some added token is exchanged, in all that is foreign, for stand-ins (unassigned
code points that occur nowhere else) until the text is rendered. So a template that looks for markup
in a message, as Qwen's does for </think> and <tool_response>, does not take another branch, with
other control tokens, for a message that spells it.

What a template still decides: which control tokens it writes, and whether that depends on what else
a message says, how long it is or which fields it has. A template that writes a control token by an
operation that is not tracked ('<|%s|>' % x, '<|A|>'|lower) has plain text there. Where one escapes
a message for HTML, stand-ins pass unescaped.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from junto.chat.provenance import Traced, own, own_runs
from junto.chat.template import Message, render
from junto.chat.tokenizer import Tokenizer
from junto.errors import TextError

# Noncharacters first: they never occur in real text. Then the end of the last private-use plane.
_STAND_INS = (*map(chr, range(0xFDD0, 0xFDF0)), *map(chr, range(0x10FF00, 0x10FFFE)))
# Templates may build tokens of these, as '<|' + role + '|>'; there is nothing to forge with them.
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def _texts(value: object) -> Iterator[str]:
    """Every text in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _texts(inner)


def _translated(value: Any, table: Mapping[int, str]) -> Any:
    """The value with every text translated; roles stay, since templates compare them."""
    if isinstance(value, str):
        return value.translate(table)
    if isinstance(value, Mapping):
        return {
            _translated(key, table): _role(inner) if key == "role" else _translated(inner, table)
            for key, inner in value.items()
        }
    if isinstance(value, Sequence):
        return [_translated(inner, table) for inner in value]
    return value


def _role(value: Any) -> Any:
    return own(value) if value in _ROLES else value


def _edge_letters(added: Iterable[str]) -> list[str]:
    """The punctuation that begins or ends added tokens."""
    edges = {letter for text in added for letter in (text[0], text[-1])}
    return sorted(letter for letter in edges if not letter.isalnum() and not letter.isspace())


def _stand_in_table(letters: Sequence[str], used: Sequence[str]) -> dict[int, str]:
    """Letter -> a code point that occurs in none of the used texts, nor does its JSON escape."""
    taken = {letter for text in used for letter in text if letter >= "\ufdd0"}
    taken |= {chr(int(code, 16)) for text in used for code in re.findall(r"\\u([fF][dD]..)", text)}
    free = [letter for letter in _STAND_INS if letter not in taken]
    if len(free) < len(letters):
        raise TextError(
            "prompt: the texts use too many private code points; remove those above U+10FF00"
        )
    return {ord(letter): free[i] for i, letter in enumerate(letters)}


def _check_roles(messages: Sequence[Message]) -> None:
    for index, message in enumerate(messages):
        role = message.get("role")
        if not isinstance(role, str) or not re.fullmatch(r"[\w.-]+", role):
            raise TextError(f"messages[{index}]: role is {role!r:.40}, expected a plain name")


def split_reasoning(message: Message) -> Message:
    """An assistant's message with the reasoning that its content spells out moved to its own field.

    Templates that look for </think> in old answers must not find it in what others wrote.
    """
    content = message.get("content")
    if message.get("role") != "assistant" or "reasoning_content" in message:
        return message
    if not isinstance(content, str) or "</think>" not in content:
        return message
    before, _, after = content.rpartition("</think>")
    reasoning = before.split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
    return {**message, "reasoning_content": reasoning, "content": after.lstrip("\n")}


def prompt_ids(
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool = True,
    tools: Sequence[Mapping[str, Any]] | None = None,
    **variables: Any,
) -> list[int]:
    """Token ids of a conversation, by the tokenizer's chat template.

    The text is that of `render`; what may become an added token is said above. `variables` are the
    template's further variables.
    TextError where there is no template, or as `render` says.
    """
    template = tokenizer.chat_template
    if template is None:
        raise TextError("the model file holds no chat template; give the prompt as it is (--raw)")
    letters = _edge_letters(tokenizer.added_texts)
    _check_roles(messages)
    if tokenizer.added_id("</think>") is not None:
        messages = [split_reasoning(message) for message in messages]
    given = [template, messages, tools or [], variables]
    table = _stand_in_table(letters, list(_texts(given)))
    text = render(
        template,
        _translated(messages, table),
        add_generation_prompt=add_generation_prompt,
        tools=None if tools is None else _translated(tools, table),
        **(_names_of_tokens(tokenizer) | _translated(variables, table)),
    )
    return _encode(tokenizer, text, {new: chr(old) for old, new in table.items()})


def _names_of_tokens(tokenizer: Tokenizer) -> dict[str, Traced]:
    """What templates call the first and the last token."""
    names = {}
    if tokenizer.bos_id is not None:
        names["bos_token"] = own(tokenizer.token_text(tokenizer.bos_id))
    if tokenizer.eos_id is not None:
        names["eos_token"] = own(tokenizer.token_text(tokenizer.eos_id))
    return names


def _encode(tokenizer: Tokenizer, text: Traced, back: Mapping[str, str]) -> list[int]:
    """Ids of rendered text; what stands between added tokens is plain text once changed back."""
    ids: list[int] = []
    plain = str.__str__(text)
    end = 0
    for start, stop, token_id in _added_tokens(tokenizer, text):
        ids += tokenizer.encode(_changed_back(plain[end:start], back), special=False)
        ids.append(token_id)
        end = stop
    return ids + tokenizer.encode(_changed_back(plain[end:], back), special=False)


def _added_tokens(tokenizer: Tokenizer, text: Traced) -> Iterator[tuple[int, int, int]]:
    """Where added tokens stand in the template's own letters: (start, end, id)."""
    plain = str.__str__(text)
    for start, end in own_runs(text):
        for is_added, piece in tokenizer.split_added(plain[start:end]):
            token_id = tokenizer.added_id(piece) if is_added else None
            if token_id is not None:
                yield start, start + len(piece), token_id
            start += len(piece)


def _changed_back(text: str, back: Mapping[str, str]) -> str:
    """The letters that stand-ins stand for, also where a template wrote them as JSON escapes."""
    if "\\u" in text:
        for new, old in back.items():
            text = text.replace(f"\\u{ord(new):04x}", old)
    return text.translate({ord(new): old for new, old in back.items()})
