"""Text: tokens, chat templates and streams of characters.

Everything between what people write and the token ids that a model reads. Knows no model, no engine
and no server; a control token enters a prompt only where a chat template writes it.
"""
