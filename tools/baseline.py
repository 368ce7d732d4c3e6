"""Looks for wide instructions outside the levels: `python tools/baseline.py EXTENSION`.

Kernels are compiled several times, with and without AVX. An inline function that is no member of
its level's namespace exists once for each, under one name, and the linker keeps any: a processor
without AVX may then be given the wrong one. So the linked extension is disassembled, and whatever
uses AVX must be named after a level, and whatever uses AVX-512 after a level that has it. Needs
objdump, and an extension that is not stripped.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>.+)>:$")
INSTRUCTION = re.compile(
    r"^ +[0-9a-f]+:\t(?P<code>(?:[0-9a-f]{2} )+) *\t(?:\{\w+\} )?(?P<name>\w+)"
)
# Mangled: the length of the name, then the name.
LEVELS = {"avx2": "4avx2", "avxvnni": "7avxvnni", "avx512": "6avx512"}
# Names begin with v where instructions are encoded for AVX, and with k where they take masks.
WIDE = re.compile(
    r"v(?!err|erw|m)|vm(?!call|func|launch|load|mcall|resume|run|save)|k[a-z]+[bdqw]$"
)
# What takes masks is of AVX-512, and what is encoded by EVEX, behind prefixes of addresses.
EVEX = re.compile(r"(?:(?:26|2e|36|3e|64|65|67) )*62 ")


@dataclass(slots=True)
class Found:
    """How many wide instructions each function has, and how many of those are of AVX-512."""

    wide: Counter[str] = field(default_factory=Counter)
    avx512: Counter[str] = field(default_factory=Counter)


def wide_functions(disassembly: Iterable[str]) -> Found:
    """The functions that have any, from the lines of `objdump -d --insn-width=16`."""
    found = Found()
    function = ""
    for line in disassembly:
        if match := FUNCTION.match(line):
            function = match["name"]
        elif (match := INSTRUCTION.match(line)) and WIDE.match(match["name"]):
            found.wide[function] += 1
            if match["name"].startswith("k") or EVEX.match(match["code"]):
                found.avx512[function] += 1
    return found


def faults(found: Found) -> list[str]:
    """A line for each function that is too wide, and for each level that has none."""
    blind = [
        f"no function of {level} uses its instructions: is the extension stripped?"
        for level, mangled in LEVELS.items()
        if not any(mangled in name for name in found.wide)
    ]
    outside = [
        f"{name}: {count} wide instructions, and not named after a level"
        for name, count in found.wide.items()
        if not any(mangled in name for mangled in LEVELS.values())
    ]
    too_wide = [
        f"{name}: {count} instructions of AVX-512, and not named after its level"
        for name, count in found.avx512.items()
        if LEVELS["avx512"] not in name
    ]
    return blind + outside + too_wide


def main(extension: str) -> int:
    """Print what is wrong; 1 if anything is."""
    command = ["objdump", "-d", "--insn-width=16", extension]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "asked for above"
        found = wide_functions(process.stdout)
    lines = faults(found)
    if process.returncode != 0:
        lines.append(f"objdump exits with {process.returncode}")
    print(
        "\n".join(lines)
        or f"{len(found.wide)} functions use AVX, each in the namespace of its level"
    )
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
