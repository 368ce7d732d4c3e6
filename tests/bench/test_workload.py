"""What both engines are given in turn: the same tokens at the same places, in fair order."""

from collections.abc import Sequence

from bench.workload import N_BATCH, N_WARM, Decode, Prefill, alternate

Step = list[tuple[int, int, list[int]]]


class Recorder:
    """An engine that notes what it is fed."""

    def __init__(self, name: str, diary: list[str]) -> None:
        self.name, self.diary = name, diary
        self.steps: list[Step] = []

    def clear(self) -> None:
        self.steps.append([])

    def step(self, work: Sequence[tuple[int, int, Sequence[int]]]) -> None:
        self.steps.append([(sequence, pos, list(ids)) for sequence, pos, ids in work])
        if self.diary[-1:] != [self.name]:
            self.diary.append(self.name)


def test_a_prompt_comes_in_steps_from_nothing() -> None:
    engine = Recorder("ours", [])
    speed = Prefill(list(range(N_BATCH + 3))).run(engine)
    last = [N_BATCH, N_BATCH + 1, N_BATCH + 2]
    assert engine.steps == [[], [(0, 0, list(range(N_BATCH)))], [(0, N_BATCH, last)]]
    assert speed > 0


def test_sequences_go_on_from_run_to_run() -> None:
    engine = Recorder("ours", [])
    decode = Decode([10, 11, 12, 13, 14, 15, 16], n_stream=2, depth=3, n_step=2)
    decode.begin(engine)
    assert engine.steps[:3] == [[], [(0, 0, [10, 11, 12])], [(1, 0, [11, 12, 13])]]
    decode.run(engine)
    decode.run(engine)
    steps = engine.steps[3:]
    assert [[pos for _, pos, _ in step] for step in steps] == [
        [3 + i] * 2 for i in range(N_WARM + 4)
    ]
    assert steps[0] == [(0, 3, [13]), (1, 3, [14])]
    assert steps[4] == [(0, 7, [10]), (1, 7, [11])]  # the tokens begin again


def test_who_goes_first_alternates_and_both_do_the_same() -> None:
    diary: list[str] = []
    ours, theirs = Recorder("ours", diary), Recorder("theirs", diary)
    pairs = alternate(ours, theirs, Decode([5, 6], n_stream=1, depth=1, n_step=1), 3)
    assert len(pairs) == 3
    assert ours.steps == theirs.steps
    warm = ["ours", "theirs"]
    assert diary == [*warm, "ours", "theirs", "ours", "theirs"]


def test_names_tell_the_work() -> None:
    assert Prefill([1] * 512).name == "prefill 512"
    assert Decode([1], 1, 32, 8).name == "decode, 1 stream, at 32"
    assert Decode([1], 16, 8192, 8).name == "decode, 16 streams, at 8192"
