"""Ops that a chip leaves to the processor: functions of its runtime that compute them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tpuc.api.kernel import CpuRoutine, HostArgument, OpT

if TYPE_CHECKING:
    from numpy.typing import NDArray

CPU_FUNCTIONS = "tpuc.cpu_functions"
ALL_OPS = "all"
"""Stands for every op that the runtime has a function for."""


class CpuFunction(CpuRoutine[OpT], ABC):
    """A function of a runtime that computes an op of TOP on float32 numbers.

    `tpuc.cpu_functions` names it by a chip, or a family of chips, and the op: `cv18.TopK`. Networks get it where the
    chip does not compute the op and `--cpu-ops` names it.
    """

    api_version: ClassVar[int] = 1
    is_usual: ClassVar[bool] = False
    """Does it compute what the chip cannot without being named by `--cpu-ops`?"""
    results: ClassVar[int] = 1
    """How many of the op's results it gives, from the first on; networks that use others do not get it."""

    @abstractmethod
    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[Any]]:
        """What the runtime computes of inputs in the extents that the file states: float32 numbers, or integers where
        it gives these; raises ValueError for arguments that mean nothing.
        """
