"""Accuracy measures, by which `tpuc compile --min-accuracy` selects a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tpuc_driver.confidence import share_interval

if TYPE_CHECKING:
    from tpuc.ir import Module
    from tpuc.registry import Registry

    from tpuc_driver.data import SampleSource


@dataclass(frozen=True)
class Measured:
    """The subject of a measure: the float network, a TOP module, and its calibration samples.

    `held_out` are the samples among `samples` that calibration has not seen, by index. `paths` are the data sets.
    """

    module: Module
    samples: SampleSource
    held_out: Sequence[int]
    paths: Sequence[Path]
    registry: Registry
    remark: Callable[[str], None]


class OpenedMeasure(ABC):
    """A measure with its samples. `name` is what it counts, for messages."""

    name: str
    exact: float
    """The float network's figure."""
    samples: int
    """Number of samples on which networks are compared during a search."""
    exact_held_out: float
    held_out: int
    """Number of samples on which a network that is good enough is checked."""

    def interval(self, figure: float, confidence: float, *, paired: bool) -> tuple[float, float]:
        """The confidence interval of the figure that `of` has just found on the held-out samples. `paired`: relative to
        the float network's figure on the same samples, so that only their differences are uncertain.

        Wilson's interval of a proportion; a figure that is not a proportion of samples overrides it.
        """
        del paired
        return share_interval(figure, self.held_out, confidence)

    @abstractmethod
    def of(self, tpu: Module, *, held_out: bool = False) -> float:
        """The figure of a TPU module, higher is better, on the samples of the search or on the held-out ones."""


class AccuracyMeasure(ABC):
    """A measure, registered by name in `tpuc.measures`; the fields of a subclass are its options."""

    api_version: ClassVar[int] = 1
    name: ClassVar[str]
    uses_calibration_samples: ClassVar[bool] = False
    """Its held-out samples are those that calibration holds out."""

    @abstractmethod
    def open(self, measured: Measured) -> OpenedMeasure:
        """The measure for one network; raises UsageError or CalibrationError where the data do not fit."""
