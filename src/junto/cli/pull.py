"""`junto pull`: fetches a model from the hub into the hub's cache, from where it stopped before.

Its path goes to standard output, everything else to standard error.
"""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from junto.cli.loading_bar import loading_bar
from junto.cli.options import Debug

if TYPE_CHECKING:
    from junto.library.hub import Plan


def pull(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="ORG/REPO, ORG/REPO:TYPE or ORG/REPO/FILE, with @REVISION or without; or a short"
            " name such as gpt-oss:20b.",
            show_default=False,
        ),
    ],
    debug: Debug = False,
) -> None:
    """Fetch a model from the Hugging Face hub; its path is printed.

    Of several GGUF files one is taken: Q4_K_M if there is one, else MXFP4, else what is nearest.
    What was fetched before an interruption is kept: the same command goes on from there. Files lie
    in the hub's own cache (HF_HUB_CACHE), where other programs find them. HF_TOKEN opens gated
    repositories.

    Examples:

        junto pull gpt-oss:20b

        junto pull unsloth/Qwen3.5-35B-A3B-GGUF:Q8_0

        junto run gpt-oss:20b -p "Why is the sky blue?"
    """
    if context.obj is not None:
        context.obj.debug = debug
    from junto.library import demos, hub
    from junto.library.names import demand_name
    from junto.library.places import hub_folder

    if (demo := demos.called(name)) is not None:
        print(f"{demo.name} comes with junto, there is nothing to fetch", file=sys.stderr)
        print(demo.path)
        return
    plan = hub.plan(demand_name(name), hub_folder())
    print(_told(plan), file=sys.stderr)
    try:
        with loading_bar(plan.wanted.repo, "fetching") as bar:
            path = hub.fetch(plan, bar or (lambda done, total: None))
    except KeyboardInterrupt:
        print("stopped; what has come is kept, the same command goes on", file=sys.stderr)
        raise
    print(path)


def _told(plan: "Plan") -> str:
    files = plan.files[0].path if len(plan.files) == 1 else f"{len(plan.files)} files"
    what = f"{plan.wanted.repo} ({plan.commit[:12]}): {files}"
    if not plan.missing:
        return f"{what}, already here"
    kept = plan.n_bytes - plan.n_to_fetch
    goes_on = f", {kept / 1e9:.2f} GB of them from an earlier try" if kept else ""
    return f"{what}, {plan.n_bytes / 1e9:.2f} GB to fetch{goes_on}, into {plan.cache}"
