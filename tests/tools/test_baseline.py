"""Wide instructions outside the levels are found in what objdump writes."""

from tools.baseline import faults, wide_functions

LEVELS = """
0000000000001000 <_ZN5junto4avx23addEv>:
    1000:\tvaddps %ymm1,%ymm0,%ymm0
    1004:\tret
0000000000001010 <_ZZN5junto4BodyC4IZNS_6avx5123addEvEUllE_EERKT_ENUlPKvllE_4_FUNES5_ll>:
    1010:\tvmovaps (%rdi),%zmm0
    1016:\tkmovw  %eax,%k1
    101a:\tret
"""
NARROW = """
0000000000001020 <_ZN5junto8portable3addEv>:
    1020:\taddps  %xmm1,%xmm0
    1023:\tverr   %ax
    1026:\tret
"""
MISPLACED = """
0000000000001030 <_ZNSt6vectorIfSaIfEED1Ev>:
    1030:\tvzeroupper
    1033:\tret
"""


def test_levels_may_be_wide_and_the_rest_is_narrow() -> None:
    found = wide_functions((LEVELS + NARROW).splitlines())
    assert list(found.values()) == [1, 2]
    assert not faults(found)


def test_an_inline_function_of_the_library_must_not_be_wide() -> None:
    (fault,) = faults(wide_functions((LEVELS + MISPLACED).splitlines()))
    assert fault.startswith("_ZNSt6vectorIfSaIfEED1Ev: 1 wide instructions")


def test_a_stripped_extension_is_no_proof() -> None:
    lines = faults(wide_functions(NARROW.splitlines()))
    assert [line.split(": ")[0] for line in lines] == [
        "no function of avx2 uses its instructions",
        "no function of avx512 uses its instructions",
    ]
