"""Damage for fuzzing: edits of bytes that know of lengths and counts, and of JSON by its tokens.

Everything is drawn from the generator that is given, so a seed repeats a run.
"""

import random
import re
import struct
from collections.abc import Callable, Sequence

MAX_BYTES = 1 << 15
"""Larger results are cut: growth makes nothing new, only slower."""

# Values at which sizes wrap, and small ones that pass for other counts, types and lengths.
NUMBERS = (0, 1, 7, 8, 9, 10, 13, 31, 32, 39, 40, 255, 256, 65535, 65536)
NUMBERS += tuple(2**bits + d for bits in (31, 32, 40, 61, 62, 63, 64) for d in (-1, 0, 1))

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|[\[\]{},:]|true|false|null|NaN')
_ODD_TOKENS = (
    *(b"%d" % n for n in (*NUMBERS, -1, 10**30)),
    *(b"NaN", b"Infinity", b"-0", b"1e400", b"1.5", b"null", b"true", b"[]", b"{}", b'""'),
    *(b'"\\u0000"', b'"\\ud800"', b'"../x.safetensors"', b'"/x.safetensors"', b'"F32"', b'"Q8_0"'),
    *(b'"__metadata__"', b'"\xff"', b"[" * 40, b'{"a":' * 20, b'"a":', b'"weight_map"'),
)

Mutate = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


def binary(rng: random.Random, content: bytes, corpus: Sequence[bytes]) -> bytes:
    """One to four edits of bytes; `corpus` is where other parts come from."""
    raw = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _edit(rng, raw, corpus)
    return bytes(raw[:MAX_BYTES])


def _edit(rng: random.Random, raw: bytearray, corpus: Sequence[bytes]) -> None:
    start = rng.randrange(len(raw) + 1)
    end = min(len(raw), start + rng.choice((1, 2, 4, 8, 16, rng.randrange(64))))
    match rng.randrange(8):
        case 0:
            width = rng.choice((1, 4, 8))
            raw[start : start + width] = (rng.choice(NUMBERS) % 256**width).to_bytes(
                width, "little"
            )
        case 1:
            width = rng.choice((1, 4, 8))
            n = int.from_bytes(raw[start : start + width], "little") + rng.randrange(-4, 5)
            raw[start : start + width] = (n % 256**width).to_bytes(width, "little")
        case 2 if start < len(raw):
            raw[start] ^= 1 << rng.randrange(8)
        case 3:
            del raw[start:end]
        case 4:
            raw[start:start] = raw[start:end]
        case 5:
            raw[start:start] = rng.randbytes(rng.randrange(1, 12))
        case 6:
            del raw[start:]
        case _:
            other = rng.choice(corpus)
            place = rng.randrange(len(other) + 1)
            raw[start:end] = other[place : place + rng.randrange(80)]


def json_text(rng: random.Random, content: bytes, corpus: Sequence[bytes]) -> bytes:
    """Values exchanged for others of their kind, tokens moved; now and then an edit of bytes."""
    if rng.random() < 0.1:
        return binary(rng, content, corpus)
    tokens = _TOKEN.findall(content)
    others = _TOKEN.findall(rng.choice(corpus))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _edit_tokens(rng, tokens, others)
    return b"".join(tokens)[:MAX_BYTES]


def _edit_tokens(rng: random.Random, tokens: list[bytes], others: Sequence[bytes]) -> None:
    place = rng.randrange(len(tokens) + 1)
    match rng.randrange(8):
        case 0 | 1 | 2 | 3 if place < len(tokens):
            tokens[place] = _another(rng, tokens[place], [*others, *tokens])
        case 4 if place < len(tokens):
            tokens[place] = rng.choice(_ODD_TOKENS)
        case 5:
            tokens[place:place] = tokens[place : place + rng.randrange(1, 12)]
        case 6 if others:
            start = rng.randrange(len(others))
            tokens[place:place] = others[start : start + rng.randrange(1, 12)]
        case _:
            del tokens[place : place + rng.choice((1, 2, 8))]


def _another(rng: random.Random, token: bytes, others: Sequence[bytes]) -> bytes:
    """A token of the same kind: a number near or far, a string or a bracket from elsewhere."""
    if token.isdigit() and rng.random() < 0.7:
        near = int(token[:30]) + rng.randrange(-2, 3)
        return b"%d" % rng.choice((near, near, rng.choice(NUMBERS)))
    alike = [other for other in others if other[:1] == token[:1]]
    return rng.choice(alike or [token])


def safetensors(rng: random.Random, content: bytes, corpus: Sequence[bytes]) -> bytes:
    """Edits of the header's JSON, mostly with a length that is true, or of any bytes."""
    if rng.random() < 0.2 or len(content) < 8:
        return binary(rng, content, corpus)
    n_header = min(struct.unpack_from("<Q", content)[0], len(content) - 8)
    headers = [other[8:] for other in corpus]
    header = json_text(rng, content[8 : 8 + n_header], headers)
    n_claimed = len(header) if rng.random() < 0.95 else rng.choice(NUMBERS) % 2**64
    return struct.pack("<Q", n_claimed) + header + content[8 + n_header :]
