"""What the tests of kernels are run over: every level of this machine, several pools."""

from collections.abc import Iterator

import pytest

from junto import _kernels


@pytest.fixture(params=_kernels.levels())
def level(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def pools_of_threads() -> Iterator[dict[int, _kernels.ThreadPool]]:
    """Pools of 1, 2 and 3 threads."""
    pools = {n: _kernels.ThreadPool(n) for n in (1, 2, 3)}
    yield pools
    pools.clear()
