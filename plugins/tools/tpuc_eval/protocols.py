"""Base classes of evaluation plugins: labeled data sets, post-processing, and metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tpuc.api import Registry, UsageError
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import SampleInput
from tpuc_images.placing import Placement

if TYPE_CHECKING:
    from tpuc_eval.tail import Tail

Outputs: TypeAlias = Mapping[str, Array]


@dataclass(frozen=True)
class Mask:
    """The pixels of an object: those set in a part of the image whose corner is at `left`, `top`."""

    left: int
    top: int
    pixels: NDArray[np.bool_]

    def whole(self, width: int, height: int) -> NDArray[np.bool_]:
        """Return the mask of a whole image of the given size."""
        found = np.zeros((height, width), np.bool_)
        rows, columns = self.pixels.shape
        found[self.top : self.top + rows, self.left : self.left + columns] = self.pixels
        return found


@dataclass(frozen=True)
class Detections:
    """Objects found in one image: boxes `[n, 4]` as x1, y1, x2, y2 in pixels of the image, scores, class indices.

    Some tasks add values: `masks`; `points` `[n, k, 3]` of x, y, and visibility; `corners` `[n, 4, 2]` of rotated
    boxes, whose bounding boxes are `boxes`. `size` is that of the image.
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
    """Objects in one image: boxes as in `Detections`, class indices, areas in pixels, crowd flags.

    If present, `outlines` are polygons or run lengths as in COCO, and `points` `[n, k, 3]` have x, y, and 0 for
    unlabeled, 1 for hidden, 2 for visible. `size` is that of the image.
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
    """One labeled sample as network input: `rows` are run one after another; usually there is one.

    `placement`: where the image lies in the input, None without an image. `given`: the rows in the data's form, before
    any quantization; empty for images.
    """

    rows: tuple[Mapping[str, Array], ...]
    placement: Placement | None = None
    given: tuple[Array, ...] = ()


@dataclass(frozen=True)
class DataRequest:
    """Where labeled data are. `count` limits the samples; 0 means all."""

    path: Path
    label_file: Path | None = None
    annotation: Path | None = None
    count: int = 0
    label_offset: int = 0


def plain_shape(dims: Sequence[int]) -> tuple[int, ...]:
    """Return the extents of an output without a fourth extent of 1, which some runtimes append to three dimensions."""
    return tuple(dims[:-1] if len(dims) == 4 and dims[-1] == 1 else dims)


class LabeledSamples(ABC):
    """An opened data set: plain data that are pickled to worker processes, which read samples one by one.

    `classes`: the class names in index order, if the data state them.
    """

    classes: Sequence[str] = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def name(self, index: int) -> str:
        """Return a sample's display name, usually its file."""

    @abstractmethod
    def read(self, index: int, inputs: Sequence[SampleInput]) -> Sample:
        """Return one sample for a network with these inputs; raises CalibrationError if it cannot be read."""

    def fingerprint(self, index: int) -> str:
        """Return the key by which a network knows that it was calibrated on a sample; empty if unknown."""
        return ""

    @abstractmethod
    def truth(self, index: int) -> Any:
        """Return the class index of a sample, or its `Objects`."""

    def refuse(self, classes: int) -> str:
        """Return why its class indices cannot be those of a network with that many classes, as a sentence; empty if
        they can.
        """
        return ""

    def doubt(self, classes: int) -> str:
        """Return what a user should check if nothing confirms them, as a sentence; empty if nothing."""
        return ""


@dataclass(frozen=True)
class Chosen(LabeledSamples):
    """A subset of a data set's samples."""

    source: LabeledSamples
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
    """A format of labeled data, registered by name in `tpuc.datasets`; the fields of a subclass are its options."""

    api_version: ClassVar[int] = 1
    name: ClassVar[str]
    metric: ClassVar[str]
    """The default metric."""

    @abstractmethod
    def open(self, request: DataRequest, remark: Callable[[str], None]) -> LabeledSamples:
        """Return the samples in a fixed order; raises UsageError or CalibrationError."""


class Postprocess(ABC):
    """Post-processing of a network's outputs, registered by name in `tpuc.postprocess`; fields are options.

    Detectors return `Detections`, others an array of scores or a number.
    """

    api_version: ClassVar[int] = 1
    name: ClassVar[str]
    finds_objects: ClassVar[bool] = False

    def fits(self, shapes: Sequence[tuple[int, ...]], sample: Sample) -> bool:
        """True if outputs of these shapes may be of this kind; called if no detector was named."""
        return False

    def reads(self, outputs: Outputs, sample: Sample) -> bool:
        """True if these values, of fitting shapes, may be of this kind; called if shapes alone do not decide."""
        return True

    def ends(self, tail: Tail) -> bool:
        """As `fits`, for a network, by the shapes of its outputs and its last ops."""
        return self.fits(tail.shapes, tail.sample)

    @abstractmethod
    def __call__(self, outputs: Outputs, sample: Sample) -> Any:
        """Return the prediction for one sample from real values; the first axis of each output is the sample's rows."""

    def recognized(self, tail: Tail) -> Postprocess:
        """Return itself with the options that the network's last ops determine."""
        return self

    def append(self, tail: Tail) -> Postprocess:
        """Append it to a network as TOP ops, and return the reader of the new outputs.

        Raises UsageError if the outputs are not of this kind, or if it cannot be expressed in ops.
        """
        raise UsageError(
            f"--post {self.name}: this post-processing cannot be appended to a network; leave it out, and pass it to "
            "`tpuc eval` and `tpuc run` with --postprocess."
        )


class Metric(ABC):
    """A metric, registered by name in `tpuc.metrics`; fields are options.

    `digest` runs where the network runs and reduces a prediction to what `evaluate` needs, which gets all digests in
    sample order.
    """

    api_version: ClassVar[int] = 1
    name: ClassVar[str]
    postprocess: ClassVar[str]
    """The default post-processing; empty: the detector that fits the outputs."""

    def refuse(self, truth: Any) -> str:
        """Return why it cannot evaluate predictions of samples with such a truth, as a sentence; empty if it can.

        Called before anything runs; a missing package is a reason too.
        """
        return ""

    @abstractmethod
    def digest(self, prediction: Any, source: str) -> Any:
        """Return the relevant part of a prediction; `source` names the network in messages."""

    @abstractmethod
    def evaluate(self, digests: Sequence[Any], truths: Sequence[Any], classes: Sequence[str]) -> Mapping[str, float]:
        """Return the figures by name, in display order."""

    def is_right(self, digest: Any, truth: Any) -> bool | None:
        """Return whether a prediction is right; None if that is not a yes-or-no question."""
        return None

    def fit(self, prediction: Any, truth: Any) -> float | None:
        """Return the logarithm of the probability that a prediction gives to the truth; None if it gives none."""
        return None

    def classes_of(self, digest: Any) -> int | None:
        """Return the number of classes of the network behind a digest; None if irrelevant."""
        return None

    def agreement(self, digests: Sequence[Any], others: Sequence[Any]) -> Mapping[str, float]:
        """Return how similar the predictions of two networks are, regardless of the truth; empty if undefined."""
        return {}


@dataclass(frozen=True)
class ModelRequest:
    """Models to measure on the same data. `count` limits the samples; 0 means all."""

    models: Sequence[Path]
    data: Path
    count: int
    registry: Registry
    progress: Callable[[Iterable[Any], str, int | None], Iterable[Any]]


@dataclass(frozen=True)
class ModelFigures:
    """The figures of each model by name, in display order; `samples` says what was measured on."""

    samples: str
    figures: Sequence[Mapping[str, float]]


class ModelMetric(Metric):
    """A metric that opens and runs the models itself, because they take other data than labeled samples."""

    postprocess = ""

    @abstractmethod
    def measure(self, request: ModelRequest) -> ModelFigures:
        """Return the figures of every model; raises UsageError for models or data of another kind."""

    def refuse(self, truth: Any) -> str:
        return f"metric '{self.name}' is not for labeled samples; choose another metric."

    def digest(self, prediction: Any, source: str) -> Any:
        return prediction

    def evaluate(self, digests: Sequence[Any], truths: Sequence[Any], classes: Sequence[str]) -> Mapping[str, float]:
        return {}
