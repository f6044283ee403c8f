"""Run and measure a quantized network: each method runs the command of the same name and returns a rich result."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
from tpuc.errors import UsageError
from tpuc.files import file_stem
from tpuc.ir import Module
from tpuc.npz import write_npz

from tpuc_driver.data import inputs_of
from tpuc_driver.facade.arrays import Array, Given, as_array, as_path, is_iterable_of_samples, is_path
from tpuc_driver.facade.compiled import CompiledNetwork
from tpuc_driver.facade.remarks import make_session, warn
from tpuc_driver.facade.samples import Samples
from tpuc_driver.facade.sentences import in_sentences
from tpuc_driver.facade.tables import Page, Table, flat


class Measured(Protocol):
    """The float network beside the quantized one."""

    module: Module

    @property
    def name(self) -> str:
        """The module's name."""
        ...

    def save(self, path: Path) -> Path:
        """Write the module."""
        ...


@dataclass(frozen=True, eq=False)
class Kept:
    """A compilation for a chip, with a folder for its files that is deleted with this object."""

    folder: Path
    compiled: CompiledNetwork
    exact: Path
    lowered: Path
    model: Path


class Measuring(ABC):
    """Methods of calibrated networks that need a chip; the network is compiled once per chip."""

    mode: str

    def __init__(self) -> None:
        self.chip: str | None = None
        self._kept: dict[str, Kept] = {}

    @property
    @abstractmethod
    def _measured(self) -> Measured:
        """The float network."""

    @abstractmethod
    def _compiled_into(self, folder: Path, chip: str) -> CompiledNetwork:
        """Compile for a chip, and keep the modules in a folder."""

    @in_sentences
    def run(self, inputs: Given, *, chip: str | None = None) -> dict[str, Array]:
        """Run on the chip's simulator, bit for bit; returns the outputs by name. `inputs` as for `Network.run`."""
        return self._for(chip).compiled.run(inputs)

    @in_sentences
    def compare(self, samples: Given, *, chip: str | None = None, input_num: int = 8) -> Table:
        """The error of every layer on at most `input_num` samples, its causes, and remedies."""
        kept, held = self._for(chip), self._samples(samples, input_num)
        paths = ",".join(map(str, _files(held)))
        called = call("compare", kept.exact, kept.lowered, "--input", paths, "--input-num", input_num, "--json")
        rows = tuple(flat(row) for row in called[0])
        return Table(
            f"{len(rows)} layers of {self._measured.name} on {kept.compiled.chip} in {self.mode}", rows, called[0]
        )

    @in_sentences
    def evaluate(
        self,
        samples: Given,
        labels: npt.ArrayLike | None = None,
        *,
        chip: str | None = None,
        metric: str | None = None,
        postprocess: str | None = None,
    ) -> Table:
        """Accuracy of the float and of the quantized network on labeled data: a file or folder with labels, arrays with
        `labels`, or an iterable of pairs of a sample and its label (a `torch` `DataLoader`).
        """
        kept = self._for(chip)
        options = [] if metric is None else ["--metric", metric]
        options += [] if postprocess is None else ["--postprocess", postprocess]
        with tempfile.TemporaryDirectory(prefix="tpuc-") as place:
            dataset = _labeled(samples, labels, Path(place))
            (found,) = call("eval", kept.exact, kept.model, dataset, *options, "--json")
        names = ("float", f"{self.mode} on {kept.compiled.chip}")
        models = zip(names, cast("list[dict[str, Any]]", found["models"]), strict=True)
        rows = tuple(flat({**one, "model": name}) for name, one in models)
        return Table(f"{found['metric']} on {found['samples']} samples", rows, found)

    @in_sentences
    def report(self, samples: Given | None = None, *, chip: str | None = None, input_num: int = 100) -> Page:
        """A page about the compiled network: latency, memory, quantization choices, and its accuracy on samples."""
        kept = self._for(chip)
        held = None if samples is None else self._samples(samples, input_num)
        options = [] if held is None else ["--dataset", held.path, "--input-num", input_num]
        return self._page("report", kept.model, "--work-dir", kept.folder, *options)

    @in_sentences
    def check(self, *, chip: str | None = None) -> Table:
        """Every unsupported op and limit, with remedies; no rows if there are none."""
        name = self._chip(chip)
        with tempfile.TemporaryDirectory(prefix="tpuc-") as place:
            path = Path(place) / f"{file_stem(self._measured.name)}.mlir"
            self._measured.save(path)
            (found,) = call("check", path, "--chip", name, "--quantize", self.mode, "--json")
        rows = tuple(flat(row) for row in cast("list[Mapping[str, Any]]", found["findings"]))
        where = f"{self._measured.name} on {name} in {found['mode']}"
        told = f"{len(rows)} problem(s)" if rows else f"all {found['ops']} ops can be computed"
        return Table(f"{where}: {told}", rows, found)

    @in_sentences
    def visual(self, sample: Given, *, chip: str | None = None) -> Page:
        """A page with the float and the quantized network side by side on one sample."""
        kept, held = self._for(chip), self._samples(sample, 1)
        paths = ",".join(map(str, _files(held)[:1]))
        return self._page("visual", "--f32-mlir", kept.exact, "--quant-mlir", kept.lowered, "--input", paths)

    def _page(self, command: str, *words: object) -> Page:
        with tempfile.TemporaryDirectory(prefix="tpuc-") as place:
            path = Path(place) / "page.html"
            call(command, *words, "-o", path, tell=_without(str(path)))
            return Page(f"{self._measured.name}_{command}", path.read_text(encoding="utf-8"))

    def _samples(self, given: Given, most: int) -> Samples:
        return Samples.of(inputs_of(self._measured.module), given, most)

    def _chip(self, chip: str | None) -> str:
        """The named chip, or the last one; raises UsageError without either."""
        found = chip or self.chip
        if found is None:
            names = ", ".join(make_session().registry.names("tpuc.chips"))
            raise UsageError(f"no chip is chosen; give chip='NAME', or compile for one first. Chips: {names}.")
        return found

    def _for(self, chip: str | None) -> Kept:
        """The network compiled for a chip, on first use."""
        name = self._chip(chip)
        name = make_session(chip=name).chip.description.name
        if name not in self._kept:
            self._kept[name] = self._made(name)
        self.chip = name
        return self._kept[name]

    def _made(self, chip: str) -> Kept:
        folder = Path(tempfile.mkdtemp(prefix="tpuc-"))
        stem = file_stem(self._measured.name)
        try:
            compiled = self._compiled_into(folder, chip)
            model = compiled.save(folder / compiled.name)
            compiled.keep_report(folder / f"{compiled.name}.json")
            lowered = next(folder.glob(f"{stem}_{chip}_*_tpu.mlir"))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        kept = Kept(folder, compiled, folder / f"{stem}.mlir", lowered, model)
        weakref.finalize(kept, shutil.rmtree, folder, ignore_errors=True)
        return kept


def call(name: str, *words: object, tell: Callable[[str], None] = warn) -> list[Any]:
    """The values returned by a command."""
    from tpuc_driver.facade.calls import call

    return call(name, words, tell).values


def _without(path: str) -> Callable[[str], None]:
    """Forward warnings, except those about temporary files."""

    def tell(text: str) -> None:
        if path not in text:
            warn(text)

    return tell


def _files(samples: Samples) -> list[Path]:
    return sorted(samples.path.glob("*.npz")) if samples.folder is not None else [samples.path]


def _labeled(samples: Given, labels: npt.ArrayLike | None, folder: Path) -> Path:
    """A data set for `eval`."""
    if is_path(samples):
        if labels is not None:
            raise UsageError("a file or folder of samples already has labels; leave out labels.")
        return as_path(samples)
    if is_iterable_of_samples(samples):
        if labels is not None:
            raise UsageError("an iterable already gives a label with each sample; leave out labels.")
        return _of_pairs(cast("Iterable[Any]", samples), folder)
    if labels is None:
        raise UsageError("no labels; give the class index of every sample as labels=ARRAY.")
    return _written(as_array(samples, "the samples"), as_array(labels, "the labels"), folder)


def _of_pairs(pairs: Iterable[Any], folder: Path) -> Path:
    x: list[Array] = []
    y: list[Array] = []
    for number, pair in enumerate(pairs, 1):
        if not isinstance(pair, tuple | list) or len(cast("list[Any]", pair)) < 2:
            raise UsageError(f"item {number} is not a pair (sample, label); give pairs, or labels=ARRAY.")
        sample, label = (as_array(part, f"item {number}") for part in cast("list[Any]", pair)[:2])
        batched = label.ndim > 0 and label.shape[0] == sample.shape[0]
        x.append(sample if batched else sample[None])
        y.append(np.atleast_1d(label))
    if not x:
        raise UsageError("the iterable of samples is empty; a generator can be used once only.")
    return _written(np.concatenate(x), np.concatenate(y), folder)


def _written(samples: Array, labels: Array, folder: Path) -> Path:
    path = folder / "labeled.npz"
    write_npz(path, {"x": samples, "y": labels.reshape(-1)})
    return path
