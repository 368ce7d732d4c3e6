"""Which family writes a file's conversations, told by the markup in its vocabulary.

Names of models and architectures say nothing here: a fine-tune may bear any name, but it can only
write the tokens that it has.
"""

from junto.chat.dialogue import Dialogue
from junto.chat.harmony import Harmony
from junto.chat.plain import PlainTemplate
from junto.chat.qwen import Qwen
from junto.chat.tokenizer import Tokenizer

HARMONY = ("<|start|>", "<|channel|>", "<|message|>", "<|return|>")
CHATML = ("<|im_start|>", "<|im_end|>")
QWEN = ("<think>", "<tool_call>")
"""Either of these besides ChatML's; many other families write ChatML too."""


def dialogue_of(tokenizer: Tokenizer) -> Dialogue:
    """The dialogue of a vocabulary's family; the file's template where it is of none known here."""
    added, template = set(tokenizer.added_texts), tokenizer.chat_template or ""
    if added.issuperset(HARMONY):
        return Harmony(tokenizer)
    if added.issuperset(CHATML) and any(tag in added or tag in template for tag in QWEN):
        return Qwen(tokenizer)
    return PlainTemplate(tokenizer)
