"""Looks at an exported folder with plain transformers: does it load, agree and tell stories?

`python -m tools.train_demo.sample DIR --text DIR` prints transformers' bits per byte beside our own
forward pass's on the same held-out text, then answers a few requests, seed 1, uncut.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import torch
import transformers

from tools.train_demo.corpus import read_corpus

REQUESTS = (
    "Tell me a story about a fox.",
    "Tell me a story about a girl and a cake.",
    "Tell me about Alice.",
    "What is the weather in Paris?",
)
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
N_CTX, N_WINDOW = 512, 24


def load(folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer as any user of transformers would load them, in float32."""
    model_class = getattr(
        transformers, json.loads((folder / "config.json").read_text())["architectures"][0]
    )
    model = model_class.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


def bits_per_byte(model: Any, tokenizer: Any, texts: list[str]) -> float:
    """Over the beginnings of the texts, each window predicted from its own first token."""
    nats, n_bytes = 0.0, 0
    for text in texts:
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids[0]
        for row in ids.split(N_CTX)[: N_WINDOW // len(texts)]:
            with torch.no_grad():
                scores = model(row[None]).logits[0, :-1].float()
            nats += float(torch.nn.functional.cross_entropy(scores, row[1:], reduction="sum"))
            n_bytes += len(tokenizer.decode(row[1:]).encode())
    return nats / math.log(2) / n_bytes


def answer(model: Any, tokenizer: Any, request: str, n_tok: int) -> str:
    """One sampled answer, template and all, special tokens shown."""
    tools = [TOOL] if "weather" in request else None
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": request}],
        tools=tools,
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    torch.manual_seed(1)
    made = model.generate(**inputs, max_new_tokens=n_tok)
    return str(tokenizer.decode(made[0, inputs.input_ids.shape[1] :]))


def main() -> None:
    """Print the measure and the answers."""
    options = argparse.ArgumentParser(prog="python -m tools.train_demo.sample")
    options.add_argument("folder", type=Path, help="what export wrote")
    options.add_argument("--text", type=Path, required=True, help="folder with text/")
    options.add_argument("-n", type=int, default=200, help="tokens of an answer, at most")
    given = options.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load(given.folder)
    measure = bits_per_byte(model, tokenizer, read_corpus(given.text / "text").held_out)
    print(f"held-out bits per byte, first windows: {measure:.4f}")
    for request in REQUESTS:
        print(f"\n=== {request}\n{answer(model, tokenizer, request, given.n)}")


if __name__ == "__main__":
    main()
