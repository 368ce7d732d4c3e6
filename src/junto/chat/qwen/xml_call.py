"""Tool calls in XML, as Qwen3.5 and Qwen3-Coder write them, with what they tend to get wrong.

    <tool_call>
    <function=NAME>
    <parameter=KEY>
    VALUE
    </parameter>
    </function>
    </tool_call>

A value may hold any text, closing tags too, so what follows a tag decides what it is:
  </parameter>     ends the value before another parameter, </function> at the end of a line or of
                   the call, the end of the call or of the answer
  </function>      ends it too (</parameter> is missing) before the end of the call or the answer
  <parameter=KEY>  ends it too at the beginning of a line, if KEY is another parameter of the
                   function, or its parameters are not known
  </tool_call>     ends it too before another call or the end of the answer
  <tool_call>      ends it too before the call of a known function; the call of another one is an
                   example, and part of the value up to its own </tool_call>
Every missing tag counts as a repair. Text where no text belongs goes to the section around the
call, so none is lost.
"""

import re
from collections.abc import Mapping
from typing import Any

from junto.chat.qwen import json_text
from junto.chat.qwen.ahead import (
    END_FUNCTION,
    END_PARAMETER,
    FUNCTION,
    INNER_TAGS,
    PARAMETER,
    Ahead,
)
from junto.chat.qwen.answer import Answer, Arguments, Section
from junto.chat.qwen.json_call import json_end
from junto.chat.qwen.marks import CALL, END_CALL, MARKS, Source, Wait

_TAG_START = re.compile(f"[<{MARKS}]")
_VALUE_STOP = re.compile(f"[<\n{MARKS}]")


class XmlCall:
    """Reads one function off a source into an answer."""

    def __init__(self, source: Source, answer: Answer, ahead: Ahead, section: Section) -> None:
        self._source = source
        self._answer = answer
        self._ahead = ahead
        self._section = section

    def read(self, functions: Mapping[str, Mapping[str, Any]]) -> Wait[bool]:
        """Read from <function= to </function>; False, with nothing read, where it has no name."""
        name = yield from self._source.name_at(len(FUNCTION))
        if name is None:
            return False
        self._source.take(name.end)
        self._answer.repair(not name.closed)
        arguments = Arguments(self._answer, name.text, functions.get(name.text, {}))
        yield from self._body(arguments)
        arguments.close()
        return True

    def _body(self, arguments: Arguments) -> Wait[None]:
        source = self._source
        while True:
            while (yield from source.at(0)).isspace():
                source.take(1)
            end = yield from source.word_end(0, END_FUNCTION)
            if end is not None:
                source.take(end)
                return
            if (yield from self._parameter(arguments)):
                continue
            if (yield from self._ahead.leaves_call(0)):
                self._answer.repair()
                source.drop_stump(INNER_TAGS)
                return
            self._answer.repair()
            yield from self._stray(arguments)

    def _parameter(self, arguments: Arguments) -> Wait[bool]:
        """Read a parameter; False where none begins."""
        end = yield from self._source.word_end(0, PARAMETER)
        name = (yield from self._source.name_at(end)) if end is not None else None
        if name is None:
            return False
        self._source.take(name.end)
        self._answer.repair(not name.closed)
        arguments.begin(name.text)
        yield from self._value(arguments)
        arguments.end()
        return True

    def _stray(self, arguments: Arguments) -> Wait[None]:
        """Read what stands between parameters and is none."""
        source = self._source
        end = yield from source.word_end(0, END_PARAMETER)
        if end is not None:
            source.take(end)
            return
        if source.text[0] == "{" and not arguments.keys and (yield from self._object(arguments)):
            return
        self._answer.write(self._section, source.take(1))
        while (n := source.find(_TAG_START)) is None:
            self._answer.write(self._section, source.take(len(source.text)))
            yield
        self._answer.write(self._section, source.take(n))

    def _object(self, arguments: Arguments) -> Wait[bool]:
        """Read all arguments at once, written as a JSON object; False where it is none."""
        n = yield from json_end(self._source, self._ahead)
        try:
            members = json_text.items(json_text.mended(self._source.text[:n]))
        except ValueError:
            return False
        self._source.take(n)
        for key, (_, value) in members.items():
            arguments.whole(key, value)
        return True

    def _value(self, arguments: Arguments) -> Wait[None]:
        """Read a value and its end."""
        source = self._source
        if (yield from source.at(0)) == "\n":
            source.take(1)
        n_example = 0
        starts_line = True
        while True:
            n = source.find(_VALUE_STOP)
            if n != 0:
                arguments.text(source.take(len(source.text) if n is None else n))
                starts_line = False
            if n is None:
                yield
                continue
            newline = int(source.text[0] == "\n")  # the last one belongs to the markup
            known = arguments if starts_line or newline else None
            end = yield from self._value_end(newline, known, in_example=n_example > 0)
            if end is not None:
                source.take(end)
                source.drop_stump(INNER_TAGS)
                return
            n_example += yield from self._example_step(n_example)
            arguments.text(source.take(1))
            starts_line = newline > 0

    def _example_step(self, n_example: int) -> Wait[int]:
        """1 where a call in a value begins as an example, -1 where one ends, else 0."""
        match self._source.text[0]:
            case mark if mark == CALL:
                return int((yield from self._ahead.beginning(1)) is not None)
            case mark if mark == END_CALL and n_example:
                return -1
        return 0

    def _value_end(self, i: int, line: Arguments | None, *, in_example: bool) -> Wait[int | None]:
        """How much to read at the end of a value, if it ends at i; None if it goes on.

        line   the arguments so far where a line begins at i, else None
        """
        source = self._source
        if (yield from source.at(i)) not in MARKS + "<":
            return None
        if in_example and not source.is_over(i):
            return None
        end = yield from source.word_end(i, END_PARAMETER)
        if end is not None:
            return end if (yield from self._follows_value(end)) else None
        if (
            (yield from self._ahead.leaves_value(i))
            or (yield from self._ends_function(i))
            or (line is not None and (yield from self._is_next(i, line)))
            or source.breaks_off(i, INNER_TAGS)
        ):
            self._answer.repair()
            return i
        return None

    def _follows_value(self, i: int) -> Wait[bool]:
        """Whether what may come behind </parameter> stands at i, or behind blanks there."""
        i = yield from self._source.blank_end(i)
        if (yield from self._source.word_end(i, PARAMETER)):
            return True
        end = yield from self._source.word_end(i, END_FUNCTION)
        if end is not None:
            line_ends = (yield from self._source.at(end)) == "\n"
            return line_ends or (yield from self._leaves_function(end))
        return (yield from self._ahead.leaves_call(i))

    def _ends_function(self, i: int) -> Wait[bool]:
        end = yield from self._source.word_end(i, END_FUNCTION)
        if end is None:
            return False
        return (yield from self._leaves_function(end))

    def _leaves_function(self, i: int) -> Wait[bool]:
        """Whether what may come behind </function> stands at i, or behind blanks there."""
        i = yield from self._source.blank_end(i)
        if (yield from self._source.word_end(i, FUNCTION)):
            return True
        return (yield from self._ahead.leaves_call(i))

    def _is_next(self, i: int, arguments: Arguments) -> Wait[bool]:
        """Whether another parameter begins at i, so that </parameter> is missing."""
        end = yield from self._source.word_end(i, PARAMETER)
        name = (yield from self._source.name_at(end)) if end is not None else None
        return name is not None and arguments.may_take(name.text)
