"""Reads a Qwen answer, token by token: reasoning, content and tool calls.

Reasoning begins and ends with the tokens <think> and </think>; text that spells them is text. A
call begins with the token <tool_call>, even within reasoning (which goes on behind it), if a call
follows it; else it is text. A call whose <tool_call> is missing or only spelled is taken for one
(and counted as a repair) at the beginning of a line of content, outside of fenced code, if it names
one of the tools.

Invariants: never raises; events depend on the text and the markup tokens alone, not on how the text
was cut; nothing is lost but markup and newlines at the edges.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from junto.chat.detokenizer import StreamDecoder
from junto.chat.events import Event
from junto.chat.qwen.ahead import CALL_TAG, END_CALL_TAG, FUNCTION, Ahead
from junto.chat.qwen.answer import Answer, Section
from junto.chat.qwen.json_call import read_json_call
from junto.chat.qwen.marks import CALL, END, END_CALL, END_THINK, MARKS, THINK, Source, Wait
from junto.chat.qwen.xml_call import XmlCall
from junto.chat.tokenizer import Tokenizer

_PROSE_STOP = re.compile(f"[<{MARKS}]")
_FENCE = "```"


_MAX_FENCE_CHARS = 3 + len(_FENCE)  # Markdown allows three blanks before it


class _Lines:
    """Where a text stands: at the beginning of a line, within fenced code."""

    def __init__(self) -> None:
        self._line = ""
        self.is_fenced = False

    @property
    def is_at_start(self) -> bool:
        """Whether a line begins here."""
        return not self._line

    def add(self, text: str) -> None:
        """Go on behind a text."""
        first, *others = text.split("\n")
        self._line = (self._line + first)[:_MAX_FENCE_CHARS]
        for line in others:
            self.is_fenced ^= self._line.lstrip(" ").startswith(_FENCE)
            self._line = line[:_MAX_FENCE_CHARS]


class QwenParser:
    """The parser of one answer; see `junto.chat.dialogue.Parser`."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        marks: Mapping[int, str],
        stop_ids: frozenset[int],
        functions: Mapping[str, Mapping[str, Any]],
        *,
        reasoning: bool,
        closing: Sequence[Sequence[int]],
    ) -> None:
        """Read an answer.

        marks      token id -> mark, of the markup tokens that the vocabulary has
        functions  name -> schema of its parameters, of the tools that may be called
        reasoning  whether the prompt opens reasoning
        closing    ids that end reasoning: before there is any, and in the midst of it
        """
        self.n_repair = 0
        self._tokenizer = tokenizer
        self._marks = marks
        self._stop_ids = stop_ids
        self._functions = functions
        self._closing = closing
        self._decoder = StreamDecoder(tokenizer)
        self._source = Source()
        self._answer = Answer()
        self._ahead = Ahead(self._source, functions)
        self._lines = _Lines()
        self._section: Section = "reasoning" if reasoning else "content"
        self._in_prose = True
        self._follows_call = False
        self._is_over = False
        self._is_finished = False
        self._run = self._read()

    def feed(self, token_id: int) -> list[Event]:
        """What this token makes certain; nothing after the end of the answer."""
        if self._is_over or token_id in self._stop_ids:
            self._is_over = True
            return []
        return self._advance(self._text(token_id))

    def finish(self, reason: Literal["stop", "length"] = "stop") -> list[Event]:
        """What was held back, and the `finish` event.

        Its reason is "length" for an answer that was cut, calls or not; else "tool_calls" where it
        calls any. A second time: nothing.
        """
        if self._is_finished:
            return []
        self._is_over = self._is_finished = True
        events = self._advance(self._decoder.finish() + END)
        called = self._answer.n_call > 0
        if reason == "length":
            return [*events, Event("finish", reason="length")]
        self.n_repair += self._section == "reasoning" and not called  # </think> never came
        return [*events, Event("finish", reason="tool_calls" if called else "stop")]

    def close_reasoning(self) -> list[int]:
        """Token ids that end open reasoning; none where none is open, or a call is being written.

        In the midst of reasoning they begin with the sentence that Qwen's documentation gives for a
        spent budget, which the parser then reads as reasoning.
        """
        if self._section != "reasoning" or not self._in_prose or self._is_over:
            return []
        return list(self._closing[self._answer.has("reasoning")])

    def _text(self, token_id: int) -> str:
        """Text and marks of one token."""
        if mark := self._marks.get(token_id):
            return self._decoder.finish() + mark
        if not 0 <= token_id < self._tokenizer.n_vocab or self._tokenizer.is_control(token_id):
            self._answer.repair()
            return self._decoder.finish()
        return self._decoder.feed(token_id)

    def _advance(self, text: str) -> list[Event]:
        if text:
            self._source.push(text)
            next(self._run, None)
        self.n_repair = self._answer.n_repair
        return self._answer.take()

    def _read(self) -> Wait[None]:
        """Read everything up to the end."""
        source = self._source
        while True:
            n = source.find(_PROSE_STOP)
            self._write(source.take(len(source.text) if n is None else n))
            if n is None:
                yield
            elif source.text[0] == END:
                return
            else:
                yield from self._stop()

    def _stop(self) -> Wait[None]:
        """Read a mark, or a "<" that may begin a call."""
        match self._source.text[0]:
            case mark if mark == THINK:
                self._think()
            case mark if mark == END_THINK:
                self._answer.repair(self._section == "content")
                self._source.take(1)
                self._section = "content"
            case mark if mark == CALL:
                self._in_prose = False
                start = yield from self._ahead.beginning(1)
                if start is None or not (yield from self._calls(start, tagged=True)):
                    yield from self._no_call()
                self._in_prose = True
            case mark if mark == END_CALL:
                self._text_after_all(is_shown=not self._follows_call)
            case _:
                yield from self._untagged_call()

    def _think(self) -> None:
        """Read <think>; one in the midst of reasoning is text."""
        if self._section == "reasoning" and self._answer.has("reasoning"):
            self._text_after_all()
            return
        self._source.take(1)
        self._answer.repair(self._section == "reasoning" or self._answer.has("content"))
        self._answer.resume("reasoning")
        self._section = "reasoning"

    def _text_after_all(self, *, is_shown: bool = True) -> None:
        """Read a mark that marks nothing here."""
        self._answer.repair()
        self._write(self._source.take(1) * is_shown)

    def _no_call(self) -> Wait[None]:
        """Read <tool_call> without a call; where the answer ends in the opening, all of that."""
        source = self._source
        i = yield from source.blank_end(1)
        if source.is_over(i) or source.breaks_off(i, (FUNCTION,)):
            self._answer.repair()
            source.take(len(source.text) - 1)
        else:
            self._text_after_all()

    def _untagged_call(self) -> Wait[None]:
        """Read a call whose <tool_call> is missing or only spelled, or the letter that is none."""
        may_call = self._functions and self._section == "content"
        if may_call and self._lines.is_at_start and not self._lines.is_fenced:
            tag = yield from self._source.word_end(0, CALL_TAG)
            start = 0 if tag is None else (yield from self._ahead.beginning(tag))
            if start is not None and (yield from self._ahead.is_known_call(start)):
                self._answer.repair()
                if (yield from self._calls(start, tagged=tag is not None)):
                    return
        self._write(self._source.take(1))

    def _calls(self, start: int, *, tagged: bool) -> Wait[bool]:
        """Read one <tool_call>, which should hold one call; False, with nothing read, if none."""
        source = self._source
        form = source.text[start]
        opening = source.text[:start]
        source.take(start)
        if not (yield from self._call()):
            source.text = opening + source.text
            return False
        self._follows_call = True
        while True:
            i = yield from source.blank_end(0)
            end = yield from self._ahead.call_tag_end(i)
            if end is not None:
                source.take(end)
                return True
            self._answer.repair(tagged)
            again = yield from self._ahead.beginning(0)
            if again is None or source.text[again] != form:
                source.drop_stump((END_CALL_TAG,))
                return True
            self._write(source.take(again))
            if not (yield from self._call()):
                return True

    def _call(self) -> Wait[bool]:
        """Read one call in either form; False, with nothing read, where it is none."""
        if self._source.text[0] == "{":
            return (yield from read_json_call(self._source, self._answer, self._ahead))
        call = XmlCall(self._source, self._answer, self._ahead, self._section)
        return (yield from call.read(self._functions))

    def _write(self, text: str) -> None:
        """Add to the section."""
        self._answer.write(self._section, text)
        if self._section == "content":
            self._lines.add(text)
        if text.strip():
            self._follows_call = False
