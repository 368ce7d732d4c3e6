"""A GGUF's tokenizer as the files that transformers reads beside a checkpoint.

Source: the serialised form of the `tokenizers` library; tokenizer_config.json and
generation_config.json of Hugging Face model folders.
"""

import json

import tokenizers
from tokenizers import decoders, models

from junto.chat.pretokenizers import WORD_RULES
from junto.chat.tokenizer import Tokenizer
from junto.chat.vocabulary import PREFIX, TokenKind, read_vocabulary
from junto.formats.gguf import GGUFFile


def tokenizer_files(file: GGUFFile) -> dict[str, str]:
    """Give file name -> text; nothing where the GGUF has no vocabulary.

    TextError where the vocabulary is broken, or of a kind that is not read here.
    """
    if PREFIX + "tokens" not in file.metadata:
        return {}
    read = Tokenizer.from_gguf(file.metadata, file.path.name)
    named = {
        "bos_token": file.metadata.get(PREFIX + "bos_token_id"),
        "eos_token": file.metadata.get(PREFIX + "eos_token_id"),
        "pad_token": file.metadata.get(PREFIX + "padding_token_id"),
    }
    ids = {name: int(i) for name, i in named.items() if isinstance(i, int)}
    config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": read.add_bos,
        "model_max_length": 10**9,
        **{name: read.token_text(i) for name, i in ids.items()},
    }
    texts = {
        "tokenizer.json": _tokenizer(file).to_str(),
        "tokenizer_config.json": _json(config),
        "generation_config.json": _json(
            {
                **{f"{name}_id": i for name, i in ids.items() if name != "eos_token"},
                "eos_token_id": sorted(read.eos_ids),
            }
        ),
    }
    if read.chat_template is not None:
        texts["chat_template.jinja"] = read.chat_template
    return texts


def _json(value: object) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _tokenizer(file: GGUFFile) -> tokenizers.Tokenizer:
    """The library's form; added tokens stand among the others too, which gives them their ids."""
    vocabulary = read_vocabulary(file.metadata, file.path.name)
    rule = WORD_RULES[str(file.metadata.get(PREFIX + "pre", "default"))]
    added = (TokenKind.CONTROL, TokenKind.USER_DEFINED)
    ids = {token: i for i, token in enumerate(vocabulary.tokens)}
    merges = [(a, b) for a, b in vocabulary.merges if {a, b, a + b} <= ids.keys()]
    made = tokenizers.Tokenizer(models.BPE(ids, merges, ignore_merges=rule.whole_words))
    made.pre_tokenizer = rule.pre_tokenizer()
    if normalizer := rule.normalizer():
        made.normalizer = normalizer
    made.decoder = decoders.ByteLevel()
    for i, kind in sorted(vocabulary.kinds.items()):
        if kind in added:
            _add(made, vocabulary.tokens[i], is_control=kind is TokenKind.CONTROL)
    return made


def _add(made: tokenizers.Tokenizer, token: str, *, is_control: bool) -> None:
    entry = tokenizers.AddedToken(token, special=is_control, normalized=False)
    (made.add_special_tokens if is_control else made.add_tokens)([entry])
