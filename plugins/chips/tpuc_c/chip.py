"""The host C chip definition."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from pathlib import Path

from tpuc.api import ChipDescription, FunctionChip, FunctionProgram, LoadedModel, TensorType
from tpuc_driver.api.host import remember_written
from tpuc_ops.quant.elements import byte_element

DESCRIPTION = ChipDescription(
    name="c",
    modes=("f32", "int8", "int8-asym"),
    suffix=".tar",
    lanes=1,
    lmem_bytes=0,
    ddr_base=0,
    ddr_alignment=16,
    quantized_element=byte_element,
    lowering_families=("bm1684x",),  # a function computes whatever integers a lowering asks for
    support=Path(__file__).with_name("support.json"),
    keeps_state=True,
)


class HostC(FunctionChip):
    """C99 functions on tensors in memory, with channels-last images."""

    description = DESCRIPTION
    keeps_integers = True
    layouts = ("arduino", "esp-idf", "zephyr")
    layout = ""
    """The framework that the folder is for; empty: a project of make and CMake."""

    def for_layout(self, layout: str) -> HostC:
        """See FunctionChip."""
        other = copy.copy(self)
        other.layout = layout
        return other

    def strides(self, type: TensorType, at_border: bool) -> tuple[int, ...]:
        """Dense row-major strides at the network's border; batch, row, column, channel order for images inside it."""
        dims = type.dims
        if len(dims) == 4 and not at_border:
            _, c, h, w = dims
            return (c * h * w, 1, w * c, c)
        return tuple(math.prod(dims[axis + 1 :]) for axis in range(len(dims)))

    def write_program(self, program: FunctionProgram) -> bytes:
        from tpuc_c.project import project_files
        from tpuc_c.storage import packed

        data = packed(project_files(program, self.layout))
        remember_written(data)
        return data

    def files(self, data: bytes) -> Mapping[str, bytes]:
        from tpuc_c.storage import unpacked

        return unpacked(data, "the archive")

    def archive(self, folder: Path) -> bytes:
        from tpuc_c.storage import archived

        return archived(folder)

    def load(self, data: bytes, source: str = "<bytes>") -> LoadedModel:
        from tpuc_c.model import CompiledProgram

        return CompiledProgram.of(data, source)


CHIP = HostC()
