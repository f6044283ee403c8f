"""Pack constants for host functions in their DDR layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import F32, ScalarType

from tpuc_plan.planners.alignment import align
from tpuc_plan.tasks.task import HostTask

INTEGER = ScalarType("si32")
_ALIGNMENT = 16


def constant_element(task: HostTask, index: int) -> ScalarType:
    """Return the element type in which a constant operand is stored."""
    return INTEGER if index in task.routine.integers else task.routine.storage


def constant_offsets(task: HostTask) -> Iterator[tuple[int, int]]:
    """Yield the index of each constant operand and its byte offset in the operation's packed constants."""
    offset = 0
    for index, operand in enumerate(task.operation.operands):
        if operand.is_constant:
            yield index, offset
            offset += align(operand.tensor.size * constant_element(task, index).bits // 8, _ALIGNMENT)


def pack_host(task: HostTask, arrays: Sequence[NDArray[Any] | None]) -> NDArray[np.uint8]:
    """Return the packed bytes of all constant operands."""
    packed = bytearray()
    for index, offset in constant_offsets(task):
        array = arrays[index]
        assert array is not None
        if constant_element(task, index) is INTEGER:
            array = array.astype(np.int32)
        elif task.routine.storage == F32:
            array = array.astype(np.float32)
        packed += bytes(offset - len(packed)) + np.ascontiguousarray(array).tobytes()
    return np.frombuffer(packed, np.uint8)
