"""`python -m tools.train_demo FAMILY --text DIR --out DIR`: train, or go on where it stopped."""

import argparse
from pathlib import Path

import torch
from tokenizers import Tokenizer

from tools.train_demo.bpe import rendered_samples, train_tokenizer
from tools.train_demo.build import DEFAULT_STEPS, N_VOCAB, make_network
from tools.train_demo.corpus import Corpus, read_corpus
from tools.train_demo.family import FAMILIES, NAMES, Family
from tools.train_demo.render import Renderer
from tools.train_demo.training import Plan, Training


def main() -> None:
    """Parse the options and train."""
    options = parser().parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    family = FAMILIES[options.family]
    corpus = read_corpus(options.text / "text")
    template = (options.text / "templates" / family.template).read_text(encoding="utf-8")
    (options.out / "chat_template.jinja").write_text(template, encoding="utf-8")
    tokenizer = _tokenizer(family, corpus, template, options.out / "tokenizer.json", options.seed)
    network = make_network(family.name)
    if options.start:
        network.load_state_dict(torch.load(options.start, weights_only=True)["network"])
    plan = Plan(
        options.seed,
        options.steps or DEFAULT_STEPS[family.name],
        options.rows,
        options.ctx,
        options.rate,
    )
    renderer = Renderer(family, template, tokenizer)
    try:
        training = Training(network, corpus, renderer, plan, options.out)
    except ValueError as fault:
        raise SystemExit(f"{options.out}: {fault}") from fault
    done = training.run(options.minutes, log_every=options.log_every)
    print("done" if done else f"at step {training.step} of {plan.n_step}: run again to go on")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="python -m tools.train_demo", description=__doc__)
    made.add_argument("family", choices=NAMES)
    made.add_argument("--text", type=Path, required=True, help="folder with text/ and templates/")
    made.add_argument("--out", type=Path, required=True, help="folder for checkpoint and log")
    made.add_argument("--start", type=Path, help="a checkpoint.pt whose weights to begin with")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--steps", type=int, help="length of the whole run (default: the family's)")
    made.add_argument("--minutes", type=float, default=120, help="CPU minutes of the run, at most")
    made.add_argument("--rows", type=int, default=8, help="rows of a step")
    made.add_argument("--ctx", type=int, default=512, help="tokens of a row")
    made.add_argument("--rate", type=float, default=5e-3, help="highest learning rate")
    made.add_argument("--log-every", type=int, default=100, help="steps between lines of the log")
    return made


def _tokenizer(family: Family, corpus: Corpus, template: str, path: Path, seed: int) -> Tokenizer:
    if not path.exists():
        texts = [*corpus.books, *corpus.stories, *rendered_samples(family, corpus, template, seed)]
        train_tokenizer(family, texts, N_VOCAB[family.name]).save(str(path))
    return Tokenizer.from_file(str(path))


if __name__ == "__main__":
    main()
