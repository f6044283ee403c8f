"""Every instruction comes back from its fields, whatever they hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tpuc_bm1684x.isa.stream import decode_fields
from tpuc_bm1684x.isa.system import RawCommand
from tpuc_bm1684x.isa.tables import CommandTable, load_tables

from tests.chips.round_trips import check_round_trips
from tests.families import each

CASES = [
    pytest.param(table, code, id=f"{table.name}-{text}")
    for table in load_tables().values()
    if table.opcode is not None
    for code, text in table.suboperations.items()
    if not isinstance(decode_fields(table, {table.sub: code}), RawCommand)
    or table.name in ("DMA_gather", "DMA_scatter")
]


@each(("table", "code"), CASES)
def test_commands_come_back_from_random_fields(table: CommandTable, code: int) -> None:
    fixed = {table.main: table.opcode or 0, table.sub: code, "cmd_short": table.short or 0, "cmd_id_en": 1}
    if table.name in ("DMA_gather", "DMA_scatter"):
        all_lanes = (1 << 32) - 1
        fixed |= {"stride_enable": 1, "localmem_mask_l32": all_lanes, "localmem_mask_h32": all_lanes}
    if "tsk_lane_num" in table.fields:
        fixed["tsk_lane_num"] = (1 << 64) - 1

    def decode(fields: Mapping[str, int]) -> Any:
        return decode_fields(table, {name: value for name, value in fields.items() if value})

    check_round_trips(table, fixed, decode, seed=code)
