"""Read and write the `.cvimodel` container as dataclasses."""

from __future__ import annotations

from tpuc_cv18.container.model import (
    CpuRoutine,
    CviModel,
    Program,
    Routine,
    Section,
    SectionKind,
    Tensor,
    TensorType,
    TpuRoutine,
    Weight,
    read_arguments,
    write_arguments,
)

__all__ = [
    "CpuRoutine",
    "CviModel",
    "Program",
    "Routine",
    "Section",
    "SectionKind",
    "Tensor",
    "TensorType",
    "TpuRoutine",
    "Weight",
    "read_arguments",
    "write_arguments",
]
