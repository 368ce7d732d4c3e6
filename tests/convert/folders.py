"""Checkpoint folders of tiny models with the least tokenizer, the one that their GGUFs hold."""

import json
from pathlib import Path
from typing import Any

from tests.tiny.gguf_metadata import architecture, tokenizer
from tests.tiny.models import TinyModel

QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
N_BEYOND = 7
"""Rows of the embedding without a token, which a GGUF must pad."""


def steps(name: str) -> dict[str, Any]:
    """The steps before merging of the vocabularies that GGUF calls `name`."""
    letters = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": name in ("smollm", "gpt-2"),
    }
    if name == "gpt-2":
        return letters
    if name == "smollm":
        cut = {"type": "Digits", "individual_digits": True}
    else:
        pattern = {"qwen35": QWEN35, "qwen2": QWEN2, "gpt-4o": O200K}[name]
        cut = {
            "type": "Split",
            "pattern": {"Regex": pattern},
            "behavior": "Isolated",
            "invert": False,
        }
    return {"type": "Sequence", "pretokenizers": [cut, letters]}


def write_folder(tiny: TinyModel, folder: Path, shards: int = 1) -> Path:
    """Write a checkpoint with its tokenizer and return the folder."""
    tiny.write_safetensors(folder, shards)
    keys = tokenizer(architecture(tiny.config), tiny.n_vocab)
    pre = keys["tokenizer.ggml.pre"]
    texts = keys["tokenizer.ggml.tokens"][: tiny.n_vocab - N_BEYOND]
    added = [{"id": i, "content": texts[i], "special": True} for i in (3, 4)]
    model = {
        "type": "BPE",
        "ignore_merges": pre == "gpt-4o",
        "vocab": {text: i for i, text in enumerate(texts) if i not in (3, 4)},
        "merges": [["t", "o"]],
    }
    parsed = {
        "version": "1.0",
        "added_tokens": [{**a, **dict.fromkeys(_FLAGS, False)} for a in added],
        "normalizer": {"type": "NFC"} if pre in ("qwen35", "qwen2") else None,
        "pre_tokenizer": steps(pre),
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": model,
    }
    (folder / "tokenizer.json").write_text(json.dumps(parsed))
    config = {"bos_token": texts[3], "eos_token": texts[4], "pad_token": texts[4]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    (folder / "README.md").write_text("---\ntags: [x]\nlicense: apache-2.0\n---\nlicense: mit\n")
    return folder


_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")
