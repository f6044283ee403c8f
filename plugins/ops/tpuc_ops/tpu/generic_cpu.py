"""A function of the host runtime."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Op, Raw, Str


@dataclass(frozen=True)
class GenericCpu(Op):
    """Call the function `cpu_op_name` of the chip's runtime with the dictionary `param`."""

    name = "tpu.GenericCpu"
    cpu_op_name: Str
    param: Raw = None
