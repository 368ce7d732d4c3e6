"""The training loop: deterministic by seed, paused and resumed at any step.

The schedule counts steps, so that a run is the same however often it is interrupted; the clock is
the process's own CPU time, so that neither other work nor SIGSTOP counts, and only says when to
save and when to stop for today. Knows nothing of files but the checkpoint and the log it is given.
"""

import json
import os
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tools.train_demo.batches import Epoch, Rows, make_epoch
from tools.train_demo.corpus import Corpus
from tools.train_demo.experts import usage
from tools.train_demo.held_out import bits_per_byte, windows
from tools.train_demo.muon import Optimizer
from tools.train_demo.network import Loss, Network
from tools.train_demo.render import Renderer
from tools.train_demo.topics import find_topics

N_WINDOW_QUICK = 24

SAVE_EVERY_S = 300

COOLING = 0.4
"""The last part of a run, in which the learning rate falls to nothing."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What decides the numbers of a run; saved with it and compared on resuming."""

    seed: int
    n_step: int
    n_row: int
    n_ctx: int
    rate: float
    decay: float = 0.1
    warmup: int = 100
    balance: float = 0.01
    clip: float = 1.0

    @property
    def n_step_level(self) -> int:
        """Steps before the rate starts to fall; until then a run does not know its length."""
        return self.n_step - int(COOLING * self.n_step)

    def is_cooling(self, step: int) -> bool:
        """Whether the rate is falling at this step."""
        return step >= self.n_step_level

    def rate_at(self, step: int) -> float:
        """Up in a line, level, and down in a line to nothing at the last step."""
        rising = (step + 1) / self.warmup
        falling = (self.n_step - step) / (self.n_step - self.n_step_level + 1)
        return self.rate * min(1.0, rising, falling)

    def check_continues(self, saved: dict[str, Any], step: int) -> None:
        """Raise ValueError if a run of the saved plan, at this step, cannot go on by this one.

        Only the length may change, and only while neither plan has left the level part.
        """
        earlier = Plan(**saved)
        if replace(earlier, n_step=self.n_step) != self:
            raise ValueError(f"the run has other options: {saved}, asked for {asdict(self)}")
        n_level = min(earlier.n_step_level, self.n_step_level)
        if earlier.n_step != self.n_step and step > n_level:
            raise ValueError(
                f"the run of {earlier.n_step} steps is at step {step}; its length can be changed "
                f"to {self.n_step} only up to step {n_level}"
            )


class Training:
    """One run: a network, its optimiser, and where it stands in the stream of rows."""

    def __init__(
        self, network: Network, corpus: Corpus, renderer: Renderer, plan: Plan, out: Path
    ) -> None:
        self.network = network
        self.corpus, self.renderer, self.plan, self.out = corpus, renderer, plan, out
        self.topics = find_topics([*corpus.books, *corpus.stories])
        self.optimizer = Optimizer(*split_parameters(network), decay=plan.decay)
        self.step, self.epoch, self.row, self.n_token = 0, 0, 0, 0
        self.seconds_before, self.started = 0.0, time.process_time()
        assert renderer.tokenizer is not None, "held-out text is counted in tokens"
        texts = [renderer.plain(text).ids for text in corpus.held_out]
        held_out, n_bytes = windows(texts, renderer.tokenizer.decode, plan.n_ctx)
        self.quick = held_out.first(N_WINDOW_QUICK, n_bytes)
        self.rows: Epoch | None = None
        if self.checkpoint.exists():
            self._load()

    @property
    def checkpoint(self) -> Path:
        """Where the whole state of the run is kept."""
        return self.out / "checkpoint.pt"

    @property
    def seconds(self) -> float:
        """CPU seconds spent on this run, earlier sittings included."""
        return self.seconds_before + time.process_time() - self.started

    def run(self, minutes: float, *, until: int | None = None, log_every: int = 100) -> bool:
        """Train until the plan is done (True), the CPU minutes are spent or a step is reached."""
        saved_at, last = self.seconds, self.plan.n_step if until is None else until
        while self.step < last and self.seconds < 60 * minutes:
            loss = self._step()
            if self.step % log_every == 0 or self.step == self.plan.n_step:
                self._log(loss)
            if self.seconds - saved_at > SAVE_EVERY_S:
                self.save()
                saved_at = self.seconds
        self.save()
        return self.step == self.plan.n_step

    def save(self) -> None:
        """Write the checkpoint; an interrupted write leaves the earlier one in place."""
        state = {
            "plan": asdict(self.plan),
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "position": (self.step, self.epoch, self.row, self.n_token, self.seconds),
        }
        partial = self.checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        os.replace(partial, self.checkpoint)

    def _load(self) -> None:
        state = torch.load(self.checkpoint, weights_only=True)
        self.plan.check_continues(state["plan"], state["position"][0])
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.epoch, self.row, self.n_token, self.seconds_before = state["position"]
        self._forget_log_after(self.step)

    @property
    def log(self) -> Path:
        """JSON lines, one every `log_every` steps."""
        return self.out / "log.jsonl"

    def _forget_log_after(self, step: int) -> None:
        lines = self.log.read_text().splitlines(keepends=True) if self.log.exists() else []
        self.log.write_text("".join(line for line in lines if json.loads(line)["step"] <= step))

    def _step(self) -> Loss:
        ids, weights = self._next_rows()
        self.network.is_cooling = self.plan.is_cooling(self.step)
        with torch.autocast("cpu", torch.bfloat16):
            loss = self.network.loss(ids, weights)
        (loss.total + self.plan.balance * loss.balance).backward()
        torch.nn.utils.clip_grad_norm_(self.optimizer.named.values(), self.plan.clip)
        self.optimizer.step(self.plan.rate_at(self.step))
        self.step += 1
        self.n_token += ids[:, 1:].numel()
        return loss

    def _next_rows(self) -> tuple[Any, Any]:
        if self.rows is not None and self.row + self.plan.n_row > len(self.rows.ids):
            self.rows, self.epoch, self.row = None, self.epoch + 1, 0
        if self.rows is None:
            plan = self.plan
            self.rows = make_epoch(
                self.corpus, self.topics, self.renderer, plan.n_ctx, plan.seed, self.epoch
            )
        some = slice(self.row, self.row + self.plan.n_row)
        self.row += self.plan.n_row
        ids, weights = self.rows.ids[some], self.rows.weights[some]
        return torch.from_numpy(ids).long(), torch.from_numpy(weights)

    def _token_nats(self, rows: Rows) -> Any:
        ids = torch.from_numpy(rows).long()
        with torch.no_grad():
            scores = self.network.logits(ids[:, :-1]).transpose(1, 2)
            return torch.nn.functional.cross_entropy(scores, ids[:, 1:], reduction="none").numpy()

    def _log(self, loss: Loss) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            held_out = bits_per_byte(self._token_nats, self.quick)
        line = {
            "step": self.step,
            "epoch": self.epoch,
            "tokens": self.n_token,
            "seconds": round(self.seconds, 1),
            "loss": round(float(loss.text.detach()), 4),
            "draft_loss": None if loss.draft is None else round(float(loss.draft.detach()), 4),
            "balance": round(float(loss.balance.detach()), 3),
            "held_out_bits_per_byte": round(held_out, 4),
            "expert_usage": [
                [round(share, 3) for share in usage(chosen, self.network.n_expert).tolist()]
                for chosen in loss.chosen
            ],
        }
        with self.log.open("a") as file:
            file.write(json.dumps(line) + "\n")
        brief = {key: value for key, value in line.items() if key != "expert_usage"}
        print(json.dumps(brief), flush=True)


def split_parameters(network: Network) -> tuple[dict[str, Any], set[str]]:
    """All parameters by name, and the names of those that are matrices for Muon."""
    named = dict(network.named_parameters())
    aside = ("embed_tokens", "lm_head", "conv1d", "mlp.gate.", "router", "_bias", "expert_gate")
    matrices = {
        name
        for name, value in named.items()
        if value.ndim >= 2 and min(value.shape[-2:]) >= 16 and not any(a in name for a in aside)
    }
    return named, matrices
