"""A file's text alone: its tokenizer, and how its family writes and reads conversations.

No weights are needed or touched. It finds the parts (vocabulary, family) and holds none of their
rules.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from junto.chat.dialogue import Dialogue, Effort, Parser, Tool, Turn
from junto.chat.events import message_of
from junto.chat.families import dialogue_of
from junto.chat.plain import PlainTemplate
from junto.chat.template import Message
from junto.chat.tokenizer import Tokenizer
from junto.errors import RequestError, TextError
from junto.formats.gguf import GGUFFile, read_gguf
from junto.formats.safetensors import Checkpoint


class Text:
    """Text to token ids and back, and conversations likewise.

    name        file or folder name
    tokenizer   the vocabulary and its merging
    dialogue    how the family writes conversations
    notes       what was missing in the file and how it was met, one line each
    """

    def __init__(self, name: str, tokenizer: Tokenizer) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.dialogue: Dialogue = dialogue_of(tokenizer)
        self.notes = (*tokenizer.notes, *(f"{name}: {note}" for note in self.dialogue.notes))

    @property
    def can_chat(self) -> bool:
        """Whether conversations can be rendered: by the family's rules, or the file's template."""
        has_rules = not isinstance(self.dialogue, PlainTemplate)
        return has_rules or self.tokenizer.chat_template is not None

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return self.dialogue.stop_ids | self.tokenizer.eos_ids

    def encode(self, text: str) -> list[int]:
        """Ids of plain text: no control token comes out, whatever it spells, and no bos before."""
        return self.tokenizer.encode(text, special=False)

    def prompt(self, text: str) -> list[int]:
        """Ids of plain text to be continued: bos comes first where the file says so."""
        bos, ids = self.tokenizer.bos_id, self.encode(text)
        return [bos, *ids] if self.tokenizer.add_bos and bos is not None else ids

    def decode(self, ids: Sequence[int], *, special: bool = False) -> str:
        """Text of ids; control tokens show only if `special`, invalid bytes become U+FFFD."""
        return self.tokenizer.decode(ids, special=special)

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] | None = None,
        add_generation_prompt: bool = True,
        enable_thinking: bool | None = None,
        effort: Effort | None = None,
        preserve_reasoning: bool = False,
        variables: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Ids of a conversation, in which only the family's own markup is control tokens.

        messages    {role, content, ...} as OpenAI's chat API has them; an assistant's may hold
                    `reasoning_content` and `tool_calls`
        tools       functions the model may call, as OpenAI's chat API has them
        variables   further variables of the file's chat template
        The others are told by `junto.chat.dialogue.Turn`.

        TextError where a message is not as it must be, or the file has no template and its family
        is unknown; RequestError for an unknown effort.
        """
        asked = turn(
            tools, add_generation_prompt, enable_thinking, effort, preserve_reasoning, variables
        )
        return self.dialogue.render(messages, asked)

    def stream(
        self,
        messages: Sequence[Message] = (),
        tools: Sequence[Tool] | None = None,
        enable_thinking: bool | None = None,
        effort: Effort | None = None,
    ) -> Parser:
        """A parser of one answer: `feed(id)` gives events, `finish(reason)` the last of them.

        The arguments are those of `render`: the conversation says whether the answer begins within
        reasoning, the tools which types their arguments have.
        """
        asked = turn(tools, enable_thinking=enable_thinking, effort=effort)
        return self.dialogue.parser(messages, asked)

    def parse(
        self,
        ids: Sequence[int],
        tools: Sequence[Tool] | None = None,
        messages: Sequence[Message] = (),
        enable_thinking: bool | None = None,
        effort: Effort | None = None,
    ) -> dict[str, Any]:
        """The assistant's message that the ids of a whole answer tell, as OpenAI's chat API has it.

        Keys: role and content; `reasoning_content` and `tool_calls` where there are any. The other
        arguments are those of `stream`. Nothing a model writes makes this fail.
        """
        parser = self.stream(messages, tools, enable_thinking, effort)
        events = [event for token_id in ids for event in parser.feed(token_id)]
        return message_of([*events, *parser.finish()])


def turn(
    tools: Sequence[Tool] | None = None,
    add_generation_prompt: bool = True,
    enable_thinking: bool | None = None,
    effort: Effort | None = None,
    preserve_reasoning: bool = False,
    variables: Mapping[str, Any] | None = None,
) -> Turn:
    """How an answer is asked for, from the arguments of a call; RequestError where one is wrong."""
    if effort is not None and effort not in get_args(Effort):
        raise RequestError(f"effort is {effort!r:.40}, expected {', '.join(get_args(Effort))}")
    return Turn(
        tuple(tools or ()),
        add_generation_prompt,
        enable_thinking,
        effort,
        preserve_reasoning,
        variables or {},
    )


def load_text(path: str | os.PathLike[str]) -> Text:
    """The text of a GGUF, a tokenizer.json, or a model folder; weights may be there or not.

    TextError or FormatError in one line where the file is missing, broken or holds no tokenizer.
    """
    path = Path(path)
    if not path.exists():
        raise TextError(f"{path}: no such file or folder")
    found = _tokenizer_of(path)
    if found is None:
        raise TextError(f"{path}: no tokenizer in it; give a GGUF, or a folder with tokenizer.json")
    return Text(path.name, found)


def text_of(file: GGUFFile | Checkpoint, n_vocab: int) -> Text | None:
    """The text of an opened model; None where the file, or its folder, holds no tokenizer.

    TextError where there are more tokens than the `n_vocab` rows of the embedding.
    """
    found = _of_gguf(file) if isinstance(file, GGUFFile) else _of_folder(file.path)
    return None if found is None else Text(file.path.name, found.padded(n_vocab))


def _tokenizer_of(path: Path) -> Tokenizer | None:
    if path.suffix == ".json" and not path.name.endswith(".safetensors.index.json"):
        return Tokenizer.from_file(path)
    if path.is_dir() or path.suffix in (".safetensors", ".json"):
        return _of_folder(path)
    return _of_gguf(read_gguf(path))


def _of_gguf(file: GGUFFile) -> Tokenizer | None:
    has_tokens = "tokenizer.ggml.tokens" in file.metadata
    return Tokenizer.from_gguf(file.metadata, file.path.name) if has_tokens else None


def _of_folder(path: Path) -> Tokenizer | None:
    """The tokenizer.json of a folder, or of the folder that a file lies in."""
    beside = (path if path.is_dir() else path.parent) / "tokenizer.json"
    return Tokenizer.from_file(beside) if beside.exists() else None
