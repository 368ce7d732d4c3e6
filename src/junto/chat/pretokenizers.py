"""How each family of vocabularies cuts text into words before byte-pair merging.

A near miss here gives no error, only more tokens and a worse model, so every family that a GGUF
file can name has its own entry, and a name without an entry is refused. Knows no vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tokenizers import Regex, normalizers, pre_tokenizers

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"

GPT2_WORDS = (
    r"'s|'t|'re|'ve|'m|'ll|'d"
    r"| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)
LLAMA3_WORDS = (
    _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _BLANKS
)
QWEN2_WORDS = (
    _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _BLANKS
)
# Marks join the letters they stand on; otherwise as Qwen2.
QWEN35_WORDS = (
    _CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + _BLANKS
)
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K_WORDS = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _BLANKS
)


@dataclass(frozen=True, slots=True)
class WordRule:
    """One family's way from text to words.

    patterns       regular expressions, applied one after the other; matches and gaps are words
    nfc            compose characters (Unicode NFC) first
    whole_words    a word that is itself a token is taken as it stands, whatever its merges give
    add_bos        prompts begin with the bos token unless the file says otherwise
    n_digit        the most digits of a word, where there is a limit

    The proof in `cuts` holds for the patterns above; whoever adds one must go through it again.
    """

    patterns: tuple[str, ...]
    nfc: bool = False
    whole_words: bool = False
    add_bos: bool = False
    n_digit: int | None = None

    def normalizer(self) -> normalizers.Normalizer | None:
        """The step before the cut, or none."""
        return normalizers.NFC() if self.nfc else None

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """The cut, followed by the step from bytes to printable letters."""
        cuts = [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in self.patterns
        ]
        letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([*cuts, letters])


_GPT2 = WordRule((GPT2_WORDS,))
_LLAMA3 = WordRule((LLAMA3_WORDS,), whole_words=True, add_bos=True, n_digit=3)
_QWEN2 = WordRule((QWEN2_WORDS,), nfc=True, n_digit=1)

# The value of `tokenizer.ggml.pre` -> rule. Source: the tokenizer.json files of these families.
WORD_RULES: Mapping[str, WordRule] = MappingProxyType(
    {
        "default": _GPT2,
        "gpt-2": _GPT2,
        "gpt-4o": WordRule((O200K_WORDS,), whole_words=True, n_digit=3),
        "llama-bpe": _LLAMA3,
        "llama-v3": _LLAMA3,
        "llama3": _LLAMA3,
        "qwen2": _QWEN2,
        "deepseek-r1-qwen": _QWEN2,
        "qwen35": WordRule((QWEN35_WORDS,), nfc=True, n_digit=1),
        "smollm": WordRule((r"\p{N}", GPT2_WORDS), n_digit=1),
    }
)


def known_rule(pre_tokenizer: Any, normalizer: Any) -> WordRule | None:
    """The rule above that cuts words as these steps of a tokenizer.json do; None where none does.

    `nfc`, `whole_words` and `add_bos` of the rule need not be those of the file. A step "Digits" is
    no "\\p{N}": the library takes both from different versions of Unicode.
    """
    if normalizer not in (None, {"type": "NFC"}):
        return None
    steps = pre_tokenizer.get("pretokenizers") or [pre_tokenizer]
    patterns = tuple(pattern for step in steps if (pattern := _pattern(step)) is not None)
    return next((rule for rule in WORD_RULES.values() if rule.patterns == patterns), None)


def gguf_name(pre_tokenizer: Any, normalizer: Any, *, whole_words: bool) -> str | None:
    """What `tokenizer.ggml.pre` calls the steps of a tokenizer.json; None if it has no name here.

    GGUF takes a step "Digits" for "\\p{N}". Of rules with the same patterns the one that agrees in
    the rest is taken; "default" is for files that do not know.
    """
    steps = pre_tokenizer.get("pretokenizers") or [pre_tokenizer]
    digits = {"type": "Digits", "individual_digits": True}
    found = (r"\p{N}" if step == digits else _pattern(step) for step in steps)
    patterns = tuple(pattern for pattern in found if pattern is not None)
    nfc = normalizer is not None
    names = [n for n, r in WORD_RULES.items() if r.patterns == patterns and n != "default"]
    if normalizer not in (None, {"type": "NFC"}) or not names:
        return None

    def differences(name: str) -> int:
        rule = WORD_RULES[name]
        return (rule.nfc != nfc) + (rule.whole_words != whole_words)

    return min(names, key=differences)


def _pattern(step: Mapping[str, Any]) -> str | None:
    """The pattern that a step cuts by, "" for one that is not known, None for one without cuts."""
    match step:
        case {"type": "Split", "pattern": {"Regex": str(pattern)}, "behavior": "Isolated"}:
            return "" if step.get("invert") else pattern
        case {"type": "ByteLevel", "add_prefix_space": False, "use_regex": bool(use_regex)}:
            return GPT2_WORDS if use_regex else None
        case _:
            return ""
