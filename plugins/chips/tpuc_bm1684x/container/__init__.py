"""Read and write the `.bmodel` container as dataclasses."""

from __future__ import annotations

from tpuc_bm1684x.container.model import (
    BModel,
    Coefficients,
    CommandGroup,
    CpuLayer,
    Location,
    Net,
    Stage,
    SubNet,
    Tensor,
    TensorType,
)

__all__ = [
    "BModel",
    "Coefficients",
    "CommandGroup",
    "CpuLayer",
    "Location",
    "Net",
    "Stage",
    "SubNet",
    "Tensor",
    "TensorType",
]
