"""What stands ahead in an answer: where calls begin and where they end.

Only looks; reads nothing and changes nothing.
"""

from collections.abc import Collection

from junto.chat.qwen.marks import CALL, END, END_CALL, Source, Wait

FUNCTION, END_FUNCTION = "<function=", "</function>"
PARAMETER, END_PARAMETER = "<parameter=", "</parameter>"
CALL_TAG, END_CALL_TAG = "<tool_call>", "</tool_call>"
INNER_TAGS = (PARAMETER, END_PARAMETER, END_FUNCTION, END_CALL_TAG)


class Ahead:
    """Looks ahead on a source, in an answer that may call the named functions."""

    def __init__(self, source: Source, names: Collection[str]) -> None:
        """`names` is empty where the functions are not known."""
        self._source = source
        self._names = names

    def beginning(self, i: int) -> Wait[int | None]:
        """Offset of what a call begins with, behind a <tool_call> that ends at i; None if none."""
        i = yield from self._source.blank_end(i)
        if (yield from self._source.at(i)) == "{":
            return i
        return i if (yield from self._source.word_end(i, FUNCTION)) else None

    def is_known_call(self, i: int) -> Wait[bool]:
        """Whether the call of a known function begins at i (of any, if none are known)."""
        end = yield from self._source.word_end(i, FUNCTION)
        if end is None:
            return (yield from self._is_known_json_call(i))
        name = yield from self._source.name_at(end)
        return name is not None and (not self._names or name.text in self._names)

    def _is_known_json_call(self, i: int) -> Wait[bool]:
        for word in ("{", '"name"', ":", '"'):
            i = yield from self._source.blank_end(i)
            end = yield from self._source.word_end(i, word)
            if end is None:
                return False
            i = end
        for name in self._names:
            if (yield from self._source.word_end(i, f'{name}"')):
                return True
        return not self._names

    def call_tag_end(self, i: int) -> Wait[int | None]:
        """Offset behind </tool_call>, a token or spelled, that stands at i; None if none does."""
        if (yield from self._source.at(i)) == END_CALL:
            return i + 1
        return (yield from self._source.word_end(i, END_CALL_TAG))

    def leaves_call(self, i: int) -> Wait[bool]:
        """Whether the call ends, another begins or the answer ends at i."""
        if (yield from self._source.at(i)) in (END, CALL):
            return True
        return (yield from self.call_tag_end(i)) is not None or self._source.breaks_off(
            i, INNER_TAGS
        )

    def leaves_value(self, i: int) -> Wait[bool]:
        """Whether what stands at i, within a value, ends the call all the same."""
        if self._source.text[i] == END:
            return True
        if self._source.text[i] == CALL:
            start = yield from self.beginning(i + 1)
            return start is not None and (yield from self.is_known_call(start))
        end = yield from self.call_tag_end(i)
        if end is None:
            return False
        i = yield from self._source.blank_end(end)
        return (yield from self._source.at(i)) in (END, CALL)
