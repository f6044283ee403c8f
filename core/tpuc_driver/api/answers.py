"""What plugins say of a network's outputs where these tell what it is for: subclasses of `Answer` in `tpuc.answers`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tpuc.interpreter.interpreter import Array
from tpuc.ir.fused_postprocess import FusedPostprocess
from tpuc.registry import Registry

from tpuc_driver.data import Labels, SampleInput

__all__ = ["Answer", "Asked", "RunSample"]


@dataclass(frozen=True)
class RunSample:
    """What a network gave of one sample. `outputs` are stored values, `values` what they mean; `files` are those that
    the sample came from, `picture` the only one where that is a picture. `postprocess` is in the network already,
    `labels` are the names of classes that the file has itself. `stored` are the inputs as the network takes them.
    """

    name: str
    files: tuple[Path, ...]
    picture: Path | None
    inputs: Sequence[SampleInput]
    outputs: Mapping[str, Array]
    values: Mapping[str, Array]
    postprocess: FusedPostprocess | None = None
    labels: Sequence[str] = ()
    stored: Mapping[str, Array] = field(default_factory=dict[str, Array])


@dataclass(frozen=True)
class Asked:
    """What the user wants to see: names of classes, another reading of the outputs, a picture to draw in."""

    registry: Registry
    labels: Labels | None = None
    postprocess: str = ""
    draw: Path | None = None

    def names(self, ran: RunSample) -> Labels:
        """Those that were asked for, else those that the file has."""
        return self.labels or Labels("the file", ran.labels)


class Answer(ABC):
    """One kind of task; made without arguments."""

    api_version: ClassVar[int] = 1

    @abstractmethod
    def lines(self, ran: RunSample, asked: Asked) -> Sequence[str] | None:
        """The answer for people; None where the outputs are of another kind. Draws it where a picture is asked for."""
