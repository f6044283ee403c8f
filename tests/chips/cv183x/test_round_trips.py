"""Every instruction comes back from its fields, whatever they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpuc.api import Engine, IllegalCommand
from tpuc_cv18.isa.stream import decode
from tpuc_cv18.isa.tables import ENABLE, NUMBER
from tpuc_cv183x.chip import CV183X

from tests.chips.round_trips import check_round_trips
from tests.families import each

CASES: dict[str, tuple[Engine, dict[str, int]]] = {
    "Conv": (Engine.COMPUTE, {"tsk_typ": 0}),
    "MaxPool": (Engine.COMPUTE, {"tsk_typ": 1, "tsk_eu_typ": 0}),
    "AveragePool": (Engine.COMPUTE, {"tsk_typ": 1, "tsk_eu_typ": 1}),
    "Depthwise": (Engine.COMPUTE, {"tsk_typ": 1, "tsk_eu_typ": 2, "opt_opd2_sign": 1}),  # no other sign is legal
    "MatMul": (Engine.COMPUTE, {"tsk_typ": 2}),
    "Lookup": (Engine.COMPUTE, {"tsk_typ": 3, "tens_lookup": 1}),
    "ChannelSum": (Engine.COMPUTE, {"tsk_typ": 3, "tens_lookup": 0, "tens_mdsum": 1, "opd_typ": 0}),
    "Arithmetic": (Engine.COMPUTE, {"tsk_typ": 3, "tens_lookup": 0, "tens_mdsum": 0}),
    "LinearCopy": (Engine.DMA, {"trans_fmt": 1}),
    "TensorCopy": (Engine.DMA, {"trans_fmt": 0, "spec_func": 0, "sys_dtype": 0}),
    "MatrixCopy": (Engine.DMA, {"trans_fmt": 0, "spec_func": 0, "sys_dtype": 1}),
    "Fill": (Engine.DMA, {"trans_fmt": 0, "spec_func": 4}),
    "TransposeNC": (Engine.DMA, {"trans_fmt": 0, "spec_func": 1, "sys_dtype": 0, "transpose_md": 0}),
    "TransposeCW": (Engine.DMA, {"trans_fmt": 0, "spec_func": 1, "sys_dtype": 0, "transpose_md": 3}),
    "RotateChannels": (Engine.DMA, {"trans_fmt": 0, "spec_func": 1, "sys_dtype": 0, "transpose_md": 1, "src_c": 3}),
}


@each("name", CASES)
def test_descriptors_come_back_from_random_fields(name: str) -> None:
    engine, fixed = CASES[name]
    layout = CV183X.layouts(engine)

    def read(fields: Mapping[str, int]) -> Any:
        try:
            return decode(engine, layout.pack(fields), CV183X).instruction
        except IllegalCommand:
            return None

    found = check_round_trips(layout, {**ENABLE[engine], **fixed, NUMBER[engine]: 1}, read, seed=len(name))
    assert [cls.__name__ for cls in found] == [name]
