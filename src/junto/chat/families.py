"""Which family writes a file's conversations, told by the markup in its vocabulary.

Names of models and architectures say nothing here: a fine-tune may bear any name, but it can only
write the tokens that it has.
"""

from junto.chat.dialogue import Dialogue
from junto.chat.plain import PlainTemplate
from junto.chat.tokenizer import Tokenizer


def dialogue_of(tokenizer: Tokenizer) -> Dialogue:
    """The dialogue of a vocabulary's family; the file's template where it is of none known here."""
    return PlainTemplate(tokenizer)
