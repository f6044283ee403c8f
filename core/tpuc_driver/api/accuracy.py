"""Measures of accuracy: how good a compiled network is, by which `tpuc compile --min-accuracy` chooses it."""

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
    """What a measure is opened for: the float network, a TOP module, and the samples of its calibration.

    `held_out` are those of the `samples` that calibration has not seen, by their places. `paths` are the data sets.
    """

    module: Module
    samples: SampleSource
    held_out: Sequence[int]
    paths: Sequence[Path]
    registry: Registry
    remark: Callable[[str], None]


class OpenedMeasure(ABC):
    """A measure with its samples. `name` says in a sentence what it counts."""

    name: str
    exact: float
    """The float network's figure."""
    samples: int
    """How many networks are compared on while one is searched for."""
    exact_held_out: float
    held_out: int
    """The same of those that a network which is good enough is checked on."""

    def interval(self, figure: float, confidence: float, *, paired: bool) -> tuple[float, float]:
        """Where the figure that `of` has just found on the held-out samples lies with this confidence. `paired`: beside
        the float network's figure on the same samples, so that only what the two networks differ in is uncertain.

        Wilson's interval of a proportion; a figure that is no proportion of samples has its own.
        """
        del paired
        return share_interval(figure, self.held_out, confidence)

    @abstractmethod
    def of(self, tpu: Module, *, held_out: bool = False) -> float:
        """The figure of a TPU module, the higher the better: on the samples of the search, or on those held out."""


class AccuracyMeasure(ABC):
    """A measure, registered by name in `tpuc.measures`; the fields of a subclass are its options."""

    api_version: ClassVar[int] = 1
    name: ClassVar[str]
    uses_calibration_samples: ClassVar[bool] = False
    """Are its held-out samples those that calibration holds out?"""

    @abstractmethod
    def open(self, measured: Measured) -> OpenedMeasure:
        """The measure for one network; raises UsageError or CalibrationError where the data do not fit."""
