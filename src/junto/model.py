"""The facade of a loaded model: ask for logits, generate text, chat.

It passes requests to the parts (runner, text) and holds none of their rules.
"""

import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from junto.chat.answer import Answer
from junto.chat.detokenizer import StreamDecoder
from junto.chat.dialogue import Effort, Tool, Turn
from junto.chat.template import Message
from junto.chat.tokenizer import Tokenizer
from junto.engine.conversation import Conversation
from junto.engine.generation import PREFILL_STEP, Request, check, generate
from junto.engine.runner import Runner
from junto.errors import RequestError, TextError
from junto.ops.contract import Sampling
from junto.ops.views import F32
from junto.reply import ContentDecoder, Decoder, NoDecoder, Piece, Reply, Tokens, pieces
from junto.text import Text, turn


class Model:
    """A model that is loaded and can run.

    name        file or folder name
    config      the architecture's config
    n_ctx       most tokens of one sequence
    notes       what was left unused, one line each
    runner      steps of token ids, for those who batch by themselves
    is_demo     whether the file calls itself a demo (`junto.demo`), too small to be of use
    """

    def __init__(
        self,
        name: str,
        config: Any,
        text: Text | None,
        runner: Runner,
        notes: tuple[str, ...],
        is_demo: bool = False,
    ) -> None:
        self.name = name
        self.config = config
        self.runner = runner
        self.notes = notes
        self.is_demo = is_demo
        self._text = text

    @property
    def text(self) -> Text:
        """Encodes, renders and parses for this model; TextError when the file has no tokenizer."""
        if self._text is None:
            raise TextError(
                f"{self.name}: no tokenizer in the file; only token ids can be continued"
            )
        return self._text

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The text's tokenizer; None when the file has none."""
        return self._text.tokenizer if self._text else None

    @property
    def n_ctx(self) -> int:
        """Most tokens of one sequence."""
        return self.runner.cache.n_ctx

    @property
    def is_keeping(self) -> bool:
        """Whether a file of packed weights is being made for the next start."""
        return self.runner.ops.is_keeping

    def settle(self, tell: Callable[[int, int], None] | None = None) -> None:
        """Pack the experts that no token has needed yet, and wait until all weights are kept.

        tell   hears of (bytes packed and written, bytes of all)

        Nobody has to: a model packs them while it is idle. Whoever measures speed settles first. A
        program that ends while a file is made for the next start waits for it all the same, unless
        an interrupt ends that.
        """
        self.runner.ops.settle(tell)

    def logits(self, token_ids: Sequence[int] | np.ndarray) -> F32:
        """Logits after each token of one fresh sequence: float32 [n_tok, n_vocab].

        RequestError if there is no token, one outside the vocabulary, or more than `n_ctx`.
        """
        ids = _whole_numbers(token_ids)
        if not ids:
            raise RequestError("logits: no token ids given, expected at least one")
        cache = self.runner.cache
        slot = cache.open()
        try:
            return np.concatenate(
                [
                    self.runner.step([(slot, ids[start : start + PREFILL_STEP])], all_logits=True)
                    for start in range(0, len(ids), PREFILL_STEP)
                ]
            )
        finally:
            cache.close(slot)

    @property
    def drafts(self) -> bool:
        """Whether a draft head is loaded (`load` with draft=True, a file that has one)."""
        return self.runner.weights.draft is not None

    def draft_logits(self, token_ids: Sequence[int] | np.ndarray) -> F32:
        """The draft head's logits over one fresh sequence: float32 [n_tok - 1, n_vocab].

        Row i scores token i + 2: the model has read tokens 0 to i, and token i + 1 is given.
        RequestError where no draft head is loaded, below two tokens, and as `logits` does.
        """
        if not self.drafts:
            raise RequestError(
                f"{self.name}: no draft head is loaded; junto.load takes one with draft=True, "
                "where the file has it"
            )
        ids = _whole_numbers(token_ids)
        if len(ids) < 2:
            raise RequestError(f"draft_logits: {len(ids)} token ids given, expected at least two")
        read, following = ids[:-1], ids[1:]
        cache = self.runner.cache
        slot = cache.open()
        try:
            parts = (slice(i, i + PREFILL_STEP) for i in range(0, len(read), PREFILL_STEP))
            return np.concatenate(
                [self.runner.draft(slot, read[part], following[part]) for part in parts]
            )
        finally:
            cache.close(slot)

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        n_predict: int = 128,
        temperature: float = 0.8,
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.05,
        seed: int | None = None,
        stop: str | Sequence[str] = (),
        chat: bool = False,
        system: str | None = None,
    ) -> Iterator[Piece]:
        """Continue a prompt, one piece a token.

        prompt        text, or token ids (which need no tokenizer)
        n_predict     most tokens to generate
        temperature, top_k, top_p, min_p    see `junto.ops.contract.Sampling`
        seed          the same seed gives the same tokens; None takes a new one
        stop          strings that end the text; they are not part of it
        chat          the prompt is a user's message: its text goes into the family's markup, and
                      the pieces hold the content of the answer alone (`chat` tells the rest)
        system        a system message before it (with `chat`)

        TextError where text is asked for and the file has no tokenizer (or no chat template);
        RequestError where an argument is out of range. Both before the first piece.
        """
        if system is not None and not chat:
            raise RequestError("a system message needs the chat template (chat=True)")
        if isinstance(prompt, str) and chat:
            ids, answer = self._begin(_messages(prompt, system), Turn(), stop)
            decoder: Decoder = ContentDecoder(answer)
        else:
            ids = self.text.prompt(prompt) if isinstance(prompt, str) else _whole_numbers(prompt)
            decoder = self._decoder(stop)
        sampling = Sampling(temperature, top_k, top_p, min_p)
        return pieces(self._tokens(ids, n_predict, sampling, seed), decoder)

    def chat(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool] | None = None,
        *,
        effort: Effort | None = None,
        enable_thinking: bool | None = None,
        thinking_budget: int | None = None,
        preserve_reasoning: bool = False,
        n_predict: int | None = None,
        temperature: float = 0.8,
        top_k: int = 40,
        top_p: float = 0.95,
        min_p: float = 0.05,
        seed: int | None = None,
        stop: str | Sequence[str] = (),
        conversation: Conversation | None = None,
    ) -> Reply:
        """Answer a conversation: an iterator of events (`junto.chat.events`), the last `finish`.

        messages, tools     as `Text.render` takes them, and effort, enable_thinking and
                            preserve_reasoning too
        thinking_budget     most tokens of reasoning; then it is closed in the family's way and the
                            answer goes on. 0: none at all. None: as many as the model likes
        n_predict           most tokens to generate, reasoning included; None: up to a full context
        stop                strings that end the content; they are not part of it, and mean nothing
                            in reasoning and arguments of tools
        conversation        one of `Model.conversation`: what it holds of these messages is not read
                            again. The tokens are the same with and without
        The others are those of `generate`.

        TextError where the file has no tokenizer, or a message is not as it must be; RequestError
        where an argument is out of range. Both before the first event.
        """
        asked = turn(
            tools,
            enable_thinking=enable_thinking,
            effort=effort,
            preserve_reasoning=preserve_reasoning,
        )
        ids, answer = self._begin(messages, asked, stop, thinking_budget)
        sampling = Sampling(temperature, top_k, top_p, min_p)
        n_most = self.n_ctx if n_predict is None else n_predict
        tokens = self._tokens(ids, n_most, sampling, seed, answer.forced, conversation)
        return Reply(ids, tokens, answer)

    def conversation(self) -> Conversation:
        """A seat in the cache that is kept between the answers of `chat`, until its `close`."""
        return Conversation(self.runner)

    def _begin(
        self,
        messages: Sequence[Message],
        asked: Turn,
        stop: str | Sequence[str],
        thinking_budget: int | None = None,
    ) -> tuple[list[int], Answer]:
        """A conversation's token ids, and the answer that is to follow them."""
        dialogue = self.text.dialogue
        ids = dialogue.render(messages, asked)
        return ids, Answer(dialogue.parser(messages, asked), stop, thinking_budget)

    def _decoder(self, stop: str | Sequence[str]) -> Decoder:
        if self.tokenizer is not None:
            return StreamDecoder(self.tokenizer, stop)
        if stop:
            raise TextError(f"{self.name}: no tokenizer in the file, so no stop strings")
        return NoDecoder()

    def _tokens(
        self,
        ids: Sequence[int],
        n_predict: int,
        sampling: Sampling,
        seed: int | None,
        forced: deque[int] | None = None,
        conversation: Conversation | None = None,
    ) -> Tokens:
        request = Request(
            prompt=ids,
            n_predict=n_predict,
            sampling=sampling,
            seed=secrets.randbits(64) if seed is None else seed,
            stop_ids=self._text.stop_ids if self._text else frozenset(),
        )
        check(request, self.n_ctx)
        if conversation is not None:
            return conversation.generate(request, forced)
        return generate(self.runner, request, forced)


def _messages(prompt: str, system: str | None) -> list[Message]:
    user = {"role": "user", "content": prompt}
    return [user] if system is None else [{"role": "system", "content": system}, user]


def _whole_numbers(ids: Sequence[int] | np.ndarray) -> list[int]:
    array = np.asarray(ids)
    if array.size == 0:
        return []
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise RequestError(
            f"token ids are {array.dtype} of shape {array.shape}, expected a list of whole numbers"
        )
    return [int(i) for i in array]
