"""Wide instructions outside the levels are found in what objdump writes."""

from tools.baseline import faults, wide_functions

LEVELS = """
0000000000001000 <_ZN5junto4avx23addEv>:
    1000:\tc5 fc 58 c9          \tvaddps %ymm1,%ymm0,%ymm0
    1004:\tc3                   \tret
0000000000001005 <_ZN5junto7avxvnni4dot4Ev>:
    1005:\tc4 e2 7d 50 c1       \t{vex} vpdpbusd %ymm1,%ymm0,%ymm0
0000000000001010 <_ZZN5junto4BodyC4IZNS_6avx5123addEvEUllE_EERKT_ENUlPKvllE_4_FUNES5_ll>:
    1010:\t62 f1 7c 48 28 07    \tvmovaps (%rdi),%zmm0
    1016:\tc5 f8 92 c8          \tkmovw  %eax,%k1
    101a:\tc3                   \tret
"""
NARROW = """
0000000000001020 <_ZN5junto8portable3addEv>:
    1020:\t0f 58 c1             \taddps  %xmm1,%xmm0
    1023:\t66 0f 00 e0          \tverr   %ax
    1026:\tc3                   \tret
"""
MISPLACED = """
0000000000001030 <_ZNSt6vectorIfSaIfEED1Ev>:
    1030:\tc5 f8 77             \tvzeroupper
    1033:\tc3                   \tret
"""
TOO_WIDE = """
0000000000001040 <_ZN5junto7avxvnni5firstEv>:
    1040:\t62 f2 7d 28 50 c1    \tvpdpbusd %ymm1,%ymm0,%ymm0
0000000000001046 <_ZN5junto7avxvnni6secondEv>:
    1046:\t67 62 f1 7c 28 28 07 \tvmovaps (%edi),%ymm16
    104d:\tc5 f8 92 c8          \tkmovw  %eax,%k1
"""


def test_levels_may_be_wide_and_the_rest_is_narrow() -> None:
    found = wide_functions((LEVELS + NARROW).splitlines())
    assert list(found.wide.values()) == [1, 1, 2]
    assert list(found.avx512.values()) == [2]
    assert not faults(found)


def test_an_inline_function_of_the_library_must_not_be_wide() -> None:
    (fault,) = faults(wide_functions((LEVELS + MISPLACED).splitlines()))
    assert fault.startswith("_ZNSt6vectorIfSaIfEED1Ev: 1 wide instructions")


def test_levels_below_avx512_have_none_of_its_encodings() -> None:
    lines = faults(wide_functions((LEVELS + TOO_WIDE).splitlines()))
    assert [line.split(" instr")[0] for line in lines] == [
        "_ZN5junto7avxvnni5firstEv: 1",
        "_ZN5junto7avxvnni6secondEv: 2",
    ]


def test_a_stripped_extension_is_no_proof() -> None:
    lines = faults(wide_functions(NARROW.splitlines()))
    assert [line.split(": ")[0] for line in lines] == [
        "no function of avx2 uses its instructions",
        "no function of avxvnni uses its instructions",
        "no function of avx512 uses its instructions",
    ]
