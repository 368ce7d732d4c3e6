"""Looks for wide instructions outside the levels: `python tools/baseline.py EXTENSION`.

Kernels are compiled several times, with and without AVX. An inline function that is no member of
its level's namespace exists once for each, under one name, and the linker keeps any: a processor
without AVX may then be given the wrong one. So the linked extension is disassembled, and whatever
uses AVX must be named after a level. Needs objdump, and an extension that is not stripped.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable

FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>.+)>:$")
INSTRUCTION = re.compile(r"^ +[0-9a-f]+:\t(?P<name>\w+)")
# Mangled: the length of the name, then the name.
LEVELS = {"avx2": "4avx2", "avx512": "6avx512"}
# Names begin with v where instructions are encoded for AVX, and with k where they take masks.
WIDE = re.compile(
    r"v(?!err|erw|m)|vm(?!call|func|launch|load|mcall|resume|run|save)|k[a-z]+[bdqw]$"
)


def wide_functions(disassembly: Iterable[str]) -> Counter[str]:
    """How many wide instructions each function has, from the lines of `objdump -d`."""
    found: Counter[str] = Counter()
    function = ""
    for line in disassembly:
        if match := FUNCTION.match(line):
            function = match["name"]
        elif (match := INSTRUCTION.match(line)) and WIDE.match(match["name"]):
            found[function] += 1
    return found


def faults(found: Counter[str]) -> list[str]:
    """A line for each function that must not be wide, and for each level that has none."""
    blind = [
        f"no function of {level} uses its instructions: is the extension stripped?"
        for level, mangled in LEVELS.items()
        if not any(mangled in name for name in found)
    ]
    return blind + [
        f"{name}: {count} wide instructions, and not named after a level"
        for name, count in found.items()
        if not any(mangled in name for mangled in LEVELS.values())
    ]


def main(extension: str) -> int:
    """Print what is wrong; 1 if anything is."""
    command = ["objdump", "-d", "--no-show-raw-insn", extension]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "asked for above"
        found = wide_functions(process.stdout)
    lines = faults(found)
    if process.returncode != 0:
        lines.append(f"objdump exits with {process.returncode}")
    print("\n".join(lines) or f"{len(found)} functions use AVX, each in the namespace of its level")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
