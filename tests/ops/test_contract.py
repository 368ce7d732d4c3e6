"""Backends cannot drift from the contract: same ops, same parameters, same defaults."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from junto.ops.contract import Ops
from junto.ops.cpu import Cpu
from junto.ops.reference import Reference

OPS = sorted(
    name for name, member in vars(Ops).items() if inspect.isfunction(member) and name[0] != "_"
)
FACTS = sorted(name for name, member in vars(Ops).items() if isinstance(member, property))
BACKENDS = (Reference(), Cpu(n_threads=1))


def parameters(function: Callable[..., Any]) -> list[tuple[str, object, object]]:
    """Name, kind and default of each parameter, without self."""
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in found if p.name != "self"]


def test_contract_holds_the_ops_that_models_are_written_in() -> None:
    assert {"embed", "linear", "attention", "gated_delta_rule", "experts", "sample"} <= set(OPS)
    assert len(OPS) >= 15


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
@pytest.mark.parametrize("op", OPS)
def test_backend_offers_each_op_with_the_contracts_parameters(backend: Ops, op: str) -> None:
    assert parameters(getattr(backend, op)) == parameters(getattr(Ops, op))


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_backend_offers_nothing_beside_the_contract(backend: Ops) -> None:
    """A model that called an extra op would run on this backend alone."""
    extra = {"level", "n_threads"} if isinstance(backend, Cpu) else set()
    assert {name for name in dir(backend) if name[0] != "_"} == {*FACTS, *OPS, *extra}


def test_backend_says_its_name() -> None:
    assert [backend.name for backend in BACKENDS] == ["reference", "cpu"]
