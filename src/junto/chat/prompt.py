"""Messages to token ids, so that nobody but the template can write a control token.

The idea: in everything that comes with the messages, the letters that begin or end some added
token are exchanged for stand-ins (unassigned code points that occur nowhere else) before the
template sees them. What still spells an added token after rendering was written by the template.
The stand-ins are then changed back and the text between those tokens is encoded as plain text, in
whole stretches, so merges across the border of template and message are as without all this.

What this cannot see: a template that itself writes both ends of a token around a message's text, as
'<' + name + '>'. That is allowed for roles, which are checked; no family does it with other texts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from junto.chat.template import Message, render
from junto.chat.tokenizer import Tokenizer
from junto.errors import TextError

# Noncharacters first: they never occur in real text. Then the end of the last private-use plane.
_STAND_INS = (*map(chr, range(0xFDD0, 0xFDF0)), *map(chr, range(0x10FF00, 0x10FFFE)))


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
            _translated(key, table): inner if key == "role" else _translated(inner, table)
            for key, inner in value.items()
        }
    if isinstance(value, Sequence):
        return [_translated(inner, table) for inner in value]
    return value


def _edge_letters(added: Iterable[str]) -> list[str]:
    return sorted({letter for text in added for letter in (text[0], text[-1])})


def _stand_in_table(letters: Sequence[str], used: Iterable[str]) -> dict[int, str]:
    """Letter -> a code point that occurs in none of the used texts."""
    taken = {letter for text in used for letter in text if letter >= "\ufdd0"}
    free = [letter for letter in _STAND_INS if letter not in taken]
    if len(free) < len(letters):
        raise TextError(
            "prompt: the texts use too many private code points; remove those above U+10FF00"
        )
    return {ord(letter): free[i] for i, letter in enumerate(letters)}


def _check_roles(messages: Sequence[Message], letters: Sequence[str]) -> None:
    for index, message in enumerate(messages):
        role = message.get("role")
        if not isinstance(role, str) or set(role) & set(letters):
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

    The text is that of `render`; added tokens come out only where the template writes them,
    whatever messages and tools hold. `variables` are the template's further variables.
    TextError where there is no template, or as `render` says.
    """
    template = tokenizer.chat_template
    if template is None:
        raise TextError("the model file holds no chat template; give the prompt as it is (--raw)")
    letters = _edge_letters(tokenizer.added_texts)
    _check_roles(messages, letters)
    if tokenizer.added_id("</think>") is not None:
        messages = [split_reasoning(message) for message in messages]
    given = [messages, tools or [], variables]
    table = _stand_in_table(letters, [template, *_texts(given)])
    text = render(
        template,
        _translated(messages, table),
        add_generation_prompt=add_generation_prompt,
        tools=None if tools is None else _translated(tools, table),
        **(_names_of_tokens(tokenizer) | _translated(variables, table)),
    )
    return _encode(tokenizer, text, {ord(new): chr(old) for old, new in table.items()})


def _names_of_tokens(tokenizer: Tokenizer) -> dict[str, str]:
    """What templates call the first and the last token."""
    names = {}
    if tokenizer.bos_id is not None:
        names["bos_token"] = tokenizer.token_text(tokenizer.bos_id)
    if tokenizer.eos_id is not None:
        names["eos_token"] = tokenizer.token_text(tokenizer.eos_id)
    return names


def _encode(tokenizer: Tokenizer, text: str, back: Mapping[int, str]) -> list[int]:
    """Ids of rendered text; what stands between added tokens is plain text once changed back."""
    ids: list[int] = []
    for is_added, piece in tokenizer.split_added(text):
        ids += (
            tokenizer.encode(piece, special=True)
            if is_added
            else tokenizer.encode(piece.translate(back), special=False)
        )
    return ids
