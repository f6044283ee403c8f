"""Calibrators: compute the threshold of a symmetric quantization from the statistics of one tensor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TensorStatistics(Protocol):
    """Statistics of one tensor over all samples.

    `counts[i]` is the number of values with ``i < abs(x) * len(counts) / absmax <= i + 1``. Exact zeros are counted in
    `zeros` only: every quantization represents them exactly, and they would hide the rest of a sparse tensor. Values
    are counted in finer bins before `absmax` is known; values within half a bin of a border are split evenly between
    its sides. `depth` is the tensor's position in the network, from 0 (inputs) to 1 (last).
    """

    @property
    def counts(self) -> NDArray[np.int64]: ...
    @property
    def zeros(self) -> int: ...
    @property
    def absmax(self) -> float: ...
    @property
    def minimum(self) -> float: ...
    @property
    def maximum(self) -> float: ...
    @property
    def depth(self) -> float: ...


class Calibrator(ABC):
    """A threshold method, registered by name in `tpuc.calibrators`; the fields of a subclass are its options.

    With `needs_histogram` False no histogram is collected and all `counts` are zero.
    """

    api_version: ClassVar[int] = 1
    name: ClassVar[str]
    needs_histogram: ClassVar[bool] = True

    @abstractmethod
    def threshold(self, statistics: TensorStatistics) -> float:
        """The absolute value that maps to the end of the integer range; the caller limits it to `absmax`."""
