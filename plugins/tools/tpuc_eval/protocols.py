"""What evaluation plugins are written with: data sets with labels, post-processing and metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tpuc.api import UsageError
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import SampleInput
from tpuc_images.placing import Placement

if TYPE_CHECKING:
    from tpuc_eval.tail import Tail

Outputs: TypeAlias = Mapping[str, Array]


@dataclass(frozen=True)
class Mask:
    """Which pixels of an image belong to an object: those that are set of a part whose corner is at `left`, `top`."""

    left: int
    top: int
    pixels: NDArray[np.bool_]

    def whole(self, width: int, height: int) -> NDArray[np.bool_]:
        """The mask of an image of that size."""
        found = np.zeros((height, width), np.bool_)
        rows, columns = self.pixels.shape
        found[self.top : self.top + rows, self.left : self.left + columns] = self.pixels
        return found


@dataclass(frozen=True)
class Detections:
    """Objects found in one image: boxes `[n, 4]` as x1, y1, x2, y2 in pixels of the image, scores, class indices.

    Networks of some tasks give more of each: `masks`; `points` `[n, k, 3]` of x, y and how sure it is to be seen;
    `corners` `[n, 4, 2]` of boxes that are rotated, around which `boxes` lie. `size` is that of the image.
    """

    boxes: NDArray[np.float64]
    scores: NDArray[np.float64]
    classes: NDArray[np.int64]
    masks: tuple[Mask, ...] | None = None
    points: NDArray[np.float64] | None = None
    corners: NDArray[np.float64] | None = None
    size: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Objects:
    """Objects that are in one image: boxes as those of `Detections`, class indices, areas in pixels, crowds.

    Where the data say so, `outlines` are polygons or run lengths as COCO writes them, and `points` `[n, k, 3]` have x,
    y and 0 for what is not labelled, 1 for what is hidden and 2 for what is seen. `size` is that of the image.
    """

    boxes: NDArray[np.float64]
    classes: NDArray[np.int64]
    areas: NDArray[np.float64]
    crowd: NDArray[np.bool_]
    outlines: tuple[Any, ...] | None = None
    points: NDArray[np.float64] | None = None
    size: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Sample:
    """One labelled thing as a network takes it: `rows` are run one after another, mostly there is one.

    `placement` says where the image lies in the input, None where there is no image. `given` are the rows as the data
    have them, before anything is quantised; empty for images.
    """

    rows: tuple[Mapping[str, Array], ...]
    placement: Placement | None = None
    given: tuple[Array, ...] = ()


@dataclass(frozen=True)
class DataRequest:
    """Where labelled data lie. `count` limits the samples, 0 is all."""

    path: Path
    label_file: Path | None = None
    annotation: Path | None = None
    count: int = 0
    label_offset: int = 0


def plain_shape(dims: Sequence[int]) -> tuple[int, ...]:
    """The extents of an output without a last one that runtimes put behind three dimensions."""
    return tuple(dims[:-1] if len(dims) == 4 and dims[-1] == 1 else dims)


class LabelledSamples(ABC):
    """An opened data set: plain data that are pickled to worker processes; samples are read there, one by one.

    `classes` are the names of the classes as far as the data say them, in the order of their indices.
    """

    classes: Sequence[str] = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def name(self, index: int) -> str:
        """What people call a sample: its file, mostly."""

    @abstractmethod
    def read(self, index: int, inputs: Sequence[SampleInput]) -> Sample:
        """One sample for a network with these inputs; raises CalibrationError when it cannot be read."""

    def fingerprint(self, index: int) -> str:
        """By which a network knows that it was calibrated on a sample; empty where nobody can tell."""
        return ""

    @abstractmethod
    def truth(self, index: int) -> Any:
        """The class index of a sample, or its `Objects`."""

    def refuse(self, classes: int) -> str:
        """Why its class indices cannot be those of a network with so many classes, as a sentence; empty if they can."""
        return ""

    def doubt(self, classes: int) -> str:
        """What a user should look at where nothing tells whether they are, as a sentence; empty if nothing."""
        return ""


@dataclass(frozen=True)
class Chosen(LabelledSamples):
    """Some samples of a data set."""

    source: LabelledSamples
    places: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", self.source.classes)

    def __len__(self) -> int:
        return len(self.places)

    def name(self, index: int) -> str:
        return self.source.name(self.places[index])

    def read(self, index: int, inputs: Sequence[SampleInput]) -> Sample:
        return self.source.read(self.places[index], inputs)

    def fingerprint(self, index: int) -> str:
        return self.source.fingerprint(self.places[index])

    def truth(self, index: int) -> Any:
        return self.source.truth(self.places[index])

    def refuse(self, classes: int) -> str:
        return self.source.refuse(classes)

    def doubt(self, classes: int) -> str:
        return self.source.doubt(classes)


class DatasetType(ABC):
    """A form of labelled data, registered by name in `tpuc.datasets`; the fields of a subclass are its options."""

    api_version: ClassVar[int] = 1
    name: ClassVar[str]
    metric: ClassVar[str]
    """The metric of users who name none."""

    @abstractmethod
    def open(self, request: DataRequest, remark: Callable[[str], None]) -> LabelledSamples:
        """The samples in a fixed order; raises UsageError or CalibrationError."""


class Postprocess(ABC):
    """What becomes of a network's outputs, registered by name in `tpuc.postprocess`; fields are options.

    Detectors give `Detections`, others an array of scores or a number.
    """

    api_version: ClassVar[int] = 1
    name: ClassVar[str]
    finds_objects: ClassVar[bool] = False

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        """May outputs of these shapes be of this kind? Asked when a detector is wanted and none was named."""
        return False

    def reads(self, outputs: Outputs, sample: Sample) -> bool:
        """May it be these very values, of shapes that fit? Asked where shapes alone do not tell."""
        return True

    def ends(self, tail: Tail) -> bool:
        """The same of a network, by the shapes of its outputs and the ops at its end."""
        return self.fits(tail.shapes, tail.sample)

    @abstractmethod
    def __call__(self, outputs: Outputs, sample: Sample) -> Any:
        """The prediction for one sample from real values, each output with the rows of the sample in front."""

    def recognised(self, tail: Tail) -> Postprocess:
        """Itself, with the options that the end of a network tells by its ops."""
        return self

    def append(self, tail: Tail) -> Postprocess:
        """Put it behind a network as ops of TOP, and return what reads the outputs from then on.

        Raises UsageError where the outputs are not of this kind, or it cannot be expressed so.
        """
        raise UsageError(
            f"--post {self.name}: this post-processing cannot be appended to a network; leave it out, and pass it to "
            "`tpuc eval` and `tpuc run` with --postprocess."
        )


class Metric(ABC):
    """A figure of merit, registered by name in `tpuc.metrics`; fields are options.

    `digest` runs where the network runs and keeps of a prediction what `evaluate` needs, which sees all of them in the
    order of the samples.
    """

    api_version: ClassVar[int] = 1
    name: ClassVar[str]
    postprocess: ClassVar[str]
    """The post-processing of users who name none; empty: that detector which fits the outputs."""

    def refuse(self, truth: Any) -> str:
        """Why it cannot judge predictions of samples with such a truth, as a sentence; empty when it can.

        Asked before anything runs; what is not installed is a reason too.
        """
        return ""

    @abstractmethod
    def digest(self, prediction: Any, source: str) -> Any:
        """The part of a prediction that counts; `source` is the network, for sentences."""

    @abstractmethod
    def evaluate(self, digests: Sequence[Any], truths: Sequence[Any], classes: Sequence[str]) -> Mapping[str, float]:
        """The figures by name, in the order in which to show them."""

    def is_right(self, digest: Any, truth: Any) -> bool | None:
        """Is a prediction right? None where that is no question of yes or no."""
        return None

    def classes_of(self, digest: Any) -> int | None:
        """How many classes the network has whose prediction was digested; None where that plays no part."""
        return None

    def agreement(self, digests: Sequence[Any], others: Sequence[Any]) -> Mapping[str, float]:
        """How alike the predictions of two networks are, whatever is true; empty where that has no meaning."""
        return {}
