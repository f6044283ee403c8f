"""Calibrators: from the statistics of one tensor to the threshold of its symmetric quantisation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TensorStatistics(Protocol):
    """What was seen of one tensor over all samples.

    `counts[i]` is the number of values with ``i < abs(x) * len(counts) / absmax <= i + 1``; exact zeros are in `zeros`
    only, because they survive any quantisation and would otherwise hide the rest of a sparse tensor. Values are counted
    in finer bins before `absmax` is known; what lies around a border, within half of a bin, is shared out evenly
    between its sides. `depth` is where the tensor lies in the network, from 0 (inputs) to 1 (last).
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

    With `needs_histogram` False nothing is counted, and `counts` are all zero.
    """

    api_version: ClassVar[int] = 1
    name: ClassVar[str]
    needs_histogram: ClassVar[bool] = True

    @abstractmethod
    def threshold(self, statistics: TensorStatistics) -> float:
        """The absolute value that becomes the end of the integer range; what is above `absmax` is cut by the caller."""
