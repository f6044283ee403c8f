"""Operations that keep their tensors in local memory."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import I64, Bool, I64Array, Op, RunsInPlace


@dataclass(frozen=True)
class Group(Op, RunsInPlace):
    """A layer group: its region runs in slices, `nsecs`, `csecs`, `dsecs`, `hsecs`, `wsecs` along n, c, d, h, w.

    `flow` is the schedule: -i begins time step i, followed by the ids of its operations. The remaining attributes are a
    chip's annotations.
    """

    name = "tpu.Group"
    nsecs: I64 = 1
    hsecs: I64 = 1
    dsecs: I64 = 1
    wsecs: I64 = 1
    csecs: I64 = 1
    swpipl_stage_num: I64 = 3
    group_type: I64 = 0
    flow: I64Array = ()
    core_slice_ncdhw: I64Array = ()
    other_down_overlap_op: I64Array = ()
    other_up_overlap_op: I64Array = ()
    run_core_id: I64Array = ()
    self_down_overlap_op: I64Array = ()
    self_up_overlap_op: I64Array = ()
    support_compress: Bool = False
