"""Makes every value of a network visible, so that compiled files can be compared tensor by tensor."""

from __future__ import annotations

from typing import Any

from tpuc.ir import Module, TensorType
from tpuc.ir.traits import Constant
from tpuc_driver.session import Boundary, Session


def expose_values(module: Module) -> None:
    """Return every computed tensor from `main`; nothing is freed or reused then."""
    function = module.main
    values = [
        result
        for operation in function.operations[:-1]
        if not isinstance(operation.op, Constant)
        for result in operation.results
        if isinstance(result.type, TensorType)
    ]
    function.terminator.set_operands(values)
    function.update_type()


def build_exposed(
    session: Session, module: Module, calibration_table: Any = None, *, boundary: Boundary | None = None
) -> tuple[Module, bytes]:
    """A module and its file, as `Session.build` makes them, with every value of the lowered module as an output."""
    built = session.build(module, calibration_table, boundary=boundary, after_lowering=expose_values)
    return built.module, built.data
