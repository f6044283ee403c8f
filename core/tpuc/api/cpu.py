"""Functions of a chip's runtime that compute ops on the host processor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from tpuc import old_name
from tpuc.api.kernel import CpuRoutine, HostArgument, OpT

if TYPE_CHECKING:
    from numpy.typing import NDArray

CPU_FUNCTIONS = "tpuc.cpu_functions"
ALL_OPS = "all"
"""Selects every op for which the runtime has a function."""


class CpuFunction(CpuRoutine[OpT], ABC):
    """A function of a runtime that computes a TOP op on float32 numbers.

    `tpuc.cpu_functions` registers it by chip or chip family and op, such as `cv18.TopK`. A network uses it when the
    chip does not compute the op and `--cpu-ops` names the op.
    """

    api_version: ClassVar[int] = 1
    is_usual: ClassVar[bool] = False
    """The function is used without `--cpu-ops` for forms that the chip does not compute."""
    results: ClassVar[int] = 1
    """Number of leading results that the function computes; networks that use other results do not get it."""

    @abstractmethod
    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[Any]]:
        """Compute the op as the runtime does, on inputs with the extents that the file states: float32 numbers, or
        integers where the file stores integers. Raises ValueError for invalid arguments.
        """

    def operations(self, inputs: Sequence[int], arguments: Mapping[str, HostArgument], outputs: Sequence[int]) -> int:
        """About how many operations it takes for inputs and outputs of these sizes, to estimate its time. Default: one
        for each value read or written.
        """
        return sum(inputs) + sum(outputs)


if not TYPE_CHECKING:
    __getattr__ = partial(old_name, __name__)
