"""`junto doctor`: what junto finds on this machine, what it chose and why, and what to mend.

Facts first, warnings with what to do last. Nothing that a system lacks makes it fail.
"""

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from junto.cli.default_model import chosen_model

if TYPE_CHECKING:
    from junto.measure.diagnosis import Finding


def doctor(
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object, to go with a report.")
    ] = False,
) -> None:
    """Tell what this machine has, which kernels and threads are chosen and why, and what to mend.

    Examples:

        junto doctor

        JUNTO_ISA=avx2 junto doctor

        junto doctor --json > report.json
    """
    findings = _findings()
    if as_json:
        print(json.dumps(_as_json(findings), indent=1))
        return
    for section, members in groupby(findings, key=lambda finding: finding.section):
        print(section)
        _print_section(list(members))
    warnings = [finding for finding in findings if finding.advice]
    print(f"{len(warnings)} warnings" if warnings else "all is well")
    for finding in warnings:
        print(f"  ! {finding.name}: {finding.value}")
        print(f"    {finding.advice}")


def _findings() -> "list[Finding]":
    from junto.measure import diagnosis, models_found
    from junto.measure.machine import memory, processor
    from junto.measure.software import versions

    found: list[Finding] = []
    found += diagnosis.of_kernels()
    found += diagnosis.of_processor(processor())
    found += diagnosis.of_memory(memory())
    found += diagnosis.of_environment()
    found += diagnosis.of_software(versions())
    found += models_found.of_packed_files()
    found.append(diagnosis.Finding("models", "without a name", str(chosen_model(None))))
    found += models_found.of_models(_models())
    return found


def _models() -> list[tuple[str, int]]:
    """GGUF files of this folder, then what `junto list` shows: how each is called, its bytes."""
    from junto.library.find import all_models

    files = [path for path in sorted(Path.cwd().glob("*.gguf")) if path.is_file()]
    here = [(str(path), path.stat().st_size) for path in files]
    return here + [(model.name, model.n_bytes) for model in all_models()]


def _print_section(findings: "Sequence[Finding]") -> None:
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print(f"  {finding.name:<{min(width, 24)}}  {finding.value}")
    print()


def _as_json(findings: "Sequence[Finding]") -> dict[str, object]:
    facts: dict[str, dict[str, str]] = {}
    for finding in findings:
        facts.setdefault(finding.section, {})[finding.name] = finding.value
    warnings = [
        {"section": f.section, "name": f.name, "value": f.value, "advice": f.advice}
        for f in findings
        if f.advice
    ]
    return {"facts": facts, "warnings": warnings}
