"""Answers: interpretations of a network's outputs by task, subclasses of `Answer` in `tpuc.answers`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tpuc.api.chip import LoadedModel
from tpuc.interpreter.interpreter import Array
from tpuc.ir.fused_postprocess import FusedPostprocess
from tpuc.registry import Registry

from tpuc_driver.data import Labels, SampleInput

__all__ = ["Answer", "Asked", "RunSample"]


@dataclass(frozen=True)
class RunSample:
    """The results of one sample. `outputs` are stored values, `values` real ones; `files` are the sample's files,
    `picture` the only one if it is a picture. `postprocess` is part of the network, `labels` are the class names
    stored in the file, `stored` the inputs as stored.
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
    """The user's display options: class names, another interpretation of the outputs, a picture to draw into."""

    registry: Registry
    labels: Labels | None = None
    postprocess: str = ""
    draw: Path | None = None

    def names(self, ran: RunSample) -> Labels:
        """The requested class names, else those in the file."""
        return self.labels or Labels("the file", ran.labels)


class Answer(ABC):
    """One kind of task; constructed without arguments."""

    api_version: ClassVar[int] = 1

    @abstractmethod
    def lines(self, ran: RunSample, asked: Asked) -> Sequence[str] | None:
        """The answer as text; None where the outputs are of another kind. Draws it where a picture is requested."""

    def programs(self, network: LoadedModel, fused: FusedPostprocess, registry: Registry) -> Mapping[str, str]:
        """`objects.hpp` and `objects.py` of a deployment folder, which print what `fused` leaves to the host; none by
        default, and for outputs of another kind.
        """
        return {}
