"""`junto bench`: how fast a model runs here, beside the limits of the machine.

What is timed is checked first, against the reference: a wrong kernel can't be fast. The table goes
to standard output and so does its last line, one JSON object; progress goes to standard error.
"""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from junto.cli.default_model import chosen_model
from junto.cli.exit_code import ExitCode
from junto.cli.measured import cpu_of, load_measured
from junto.cli.options import Debug, KVChosen, KVType, ModelPath, NoCache, Threads
from junto.cli.progress import progress
from junto.cli.table import table
from junto.cli.whole_numbers import whole_numbers

if TYPE_CHECKING:
    from junto.measure.limits import Limits
    from junto.measure.lockstep import Row
    from junto.measure.speed import Result, Workload
    from junto.model import Model

N_CHECKED_LAYER = 4
N_CHECKED_TOKEN = 8


def bench(
    context: typer.Context,
    model: ModelPath = None,
    n_prompt: Annotated[
        int, typer.Option("-p", "--n-prompt", min=0, help="Tokens of the prompt; 0: no prefill.")
    ] = 512,
    n_decode: Annotated[
        int, typer.Option("-n", "--n-decode", min=0, help="Steps of decoding; 0: no decode.")
    ] = 128,
    depth: Annotated[
        str, typer.Option(metavar="LIST", help="Tokens each sequence holds before, as in 0,8192.")
    ] = "0",
    streams: Annotated[
        str, typer.Option(metavar="LIST", help="Sequences that decode at once, as in 1,4,16.")
    ] = "1",
    threads: Threads = None,
    kv: KVChosen = KVType.AUTO,
    reps: Annotated[int, typer.Option(min=1, help="Runs of each test.")] = 5,
    limits: Annotated[
        bool, typer.Option("--limits", help="Measure the machine too, and tell the share reached.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write the JSON line alone, without the table.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the random tokens.")] = 0,
    no_cache: NoCache = False,
    debug: Debug = False,
) -> None:
    """Measure a model's speed on this machine, after a check that it computes rightly.

    Tokens/s: median and quartiles over the runs, of all sequences together. Gop/s: multiplications
    and additions of products with weights. GB/s: weights, keys, values and states that a run reads.
    With --limits, prefill is held against 8-bit (or float32) arithmetic and decode against memory.

    Examples:

        junto bench model.gguf

        junto bench model.gguf --limits --streams 1,4,16 --reps 9

        junto bench model.gguf -p 0 -n 64 --depth 0,8192 --json | jq .results
    """
    if context.obj is not None:
        context.obj.debug = debug
    depths = whole_numbers(depth, "--depth", least=0)
    n_streams = whole_numbers(streams, "--streams", least=1)
    tests = _tests(n_prompt, n_decode, depths, n_streams)
    path = chosen_model(model)
    loaded = load_measured(path, kv, threads, max(n_streams), keep_packed=not no_cache)
    _check(loaded, path)
    measured = _limits(loaded) if limits else None
    results = _measure(loaded, tests, reps, seed)
    report = _report(loaded, kv, measured, results)
    if not as_json:
        print(_heading(report))
        print()
        print(_table(results, measured))
        print()
        if measured is not None:
            print(_machine_line(measured))
            print()
    print(json.dumps(report), flush=True)


def _tests(
    n_prompt: int, n_decode: int, depths: list[int], n_streams: list[int]
) -> "list[Workload]":
    from junto.measure.speed import Workload

    prefills = [Workload("prefill", n_prompt, 1, depth) for depth in depths] if n_prompt else []
    decodes = [Workload("decode", n_decode, n, d) for d in depths for n in n_streams]
    tests = prefills + (decodes if n_decode else [])
    if not tests:
        raise typer.BadParameter("nothing to measure: -p and -n are both 0")
    return tests


def _check(model: "Model", path: Path) -> None:
    """End the program with 1 where the model's kernels do not compute what the reference does."""
    from junto.measure.check import Plan, compare
    from junto.models.loading import locate, open_file

    layers = tuple(range(min(N_CHECKED_LAYER, model.config.n_layer)))
    print(
        f"checking {N_CHECKED_TOKEN} tokens through {len(layers)} layers and the head, against the"
        " reference",
        file=sys.stderr,
    )
    plan = Plan(layers, N_CHECKED_TOKEN)
    with progress("checking", plan.n_part) as advance:
        rows = compare(
            model.runner, locate(open_file(path)), plan, lambda part: advance(f"layer {part}")
        )
    wrong = [row for row in rows if not row.is_ok]
    for row in wrong:
        print(f"wrong: {_told(row)}", file=sys.stderr)
    if wrong:
        print("not measured: a wrong kernel can't be fast (see junto verify)", file=sys.stderr)
        raise typer.Exit(ExitCode.ERROR)
    closest = max(rows, key=lambda row: row.difference.worst / row.bound)
    print(f"checked {len(rows)} results; closest to its bound: {_told(closest)}", file=sys.stderr)


def _told(row: "Row") -> str:
    where = f"layer {row.part}" if isinstance(row.part, int) else row.part
    return f"{where}, {row.what}: error {row.difference.worst:.1e}, bound {row.bound:.0e}"


def _limits(model: "Model") -> "Limits":
    from junto.measure.limits import measure_limits

    print("measuring the machine", file=sys.stderr)
    ops = cpu_of(model)
    return measure_limits(ops.level, ops.n_threads)


def _measure(model: "Model", tests: "Sequence[Workload]", reps: int, seed: int) -> "list[Result]":
    from junto.measure.speed import measure

    with progress("measuring", len(tests) * (reps + 1)) as advance:
        return [
            measure(model.runner, test, reps, seed, partial(advance, test.name)) for test in tests
        ]


def _report(
    model: "Model", kv: KVType, limits: "Limits | None", results: "Sequence[Result]"
) -> dict[str, Any]:
    from junto.measure.machine import processor
    from junto.measure.software import versions

    ops = cpu_of(model)
    here = versions()
    return {
        "model": model.name,
        "machine": processor().name,
        "threads": ops.n_threads,
        "level": ops.level,
        "kv": kv.value,
        "version": here["junto"],
        "commit": here["commit"],
        "kernels": here["kernels"],
        "limits": limits.as_json() if limits else None,
        "results": [result.as_json() | _shares(result, limits) for result in results],
    }


def _shares(result: "Result", limits: "Limits | None") -> dict[str, float]:
    """Which part of the time the machine at its limits would need."""
    if limits is None:
        return {}
    seconds = {
        "of_arithmetic": limits.seconds_of_arithmetic(result.work),
        "of_memory": limits.seconds_of_memory(result.work),
    }
    return {name: round(result.spread(s).median, 4) for name, s in seconds.items()}


def _heading(report: dict[str, Any]) -> str:
    return (
        f"{report['model']}, {report['machine']}, {report['threads']} threads, {report['level']}, "
        f"kv {report['kv']}, junto {report['version']} ({report['commit']})"
    )


def _table(results: "Sequence[Result]", limits: "Limits | None") -> str:
    head = ("test", "tokens/s", "quartiles", "Gop/s", "GB/s", *(_SHARES if limits else ()))
    return table(head, [_cells(result, limits) for result in results])


_SHARES = ("of arithmetic", "of memory")


def _cells(result: "Result", limits: "Limits | None") -> list[str]:
    speed = result.tokens_per_s
    cells = [
        result.test.name,
        f"{speed.median:.2f}",
        f"{speed.low:.2f}-{speed.high:.2f}",
        f"{result.gop_per_s:.1f}",
        f"{result.gb_per_s:.2f}",
    ]
    cells += [f"{share:.0%}" for share in _shares(result, limits).values()]
    return cells


def _machine_line(limits: "Limits") -> str:
    return (
        f"machine: reads {limits.read_gb_per_s.median:.1f} GB/s, 8-bit products "
        f"{limits.dot_gop_per_s.median:.0f} Gop/s, float32 {limits.fma_gflop_per_s.median:.0f} "
        "Gflop/s"
    )
