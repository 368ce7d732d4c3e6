"""Harmony, the dialogue format of gpt-oss: rendering of conversations and parsing of answers.

A message is a header (author, recipient, channel, type of content) between `<|start|>` and
`<|message|>`, then a text. Reasoning goes to the channel `analysis`, calls to `commentary`, answers
to `final`. docs/harmony.md says what is mended and where this differs from the model's template.

Source: the harmony format as openai-harmony 0.0.8 renders and parses it.
"""

from junto.chat.harmony.dialogue import Harmony

__all__ = ["Harmony"]
