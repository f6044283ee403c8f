"""Options and fixtures that every test may use."""

from __future__ import annotations

import fcntl
import gc
import os
import re
import shutil
import socket
import sys
import tempfile
import tomllib
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from hypothesis import settings
from numpy.typing import NDArray
from tpuc.api import Chip, LoadedModel, Module, PassContext
from tpuc.registry import Registry
from tpuc_plan.generate_code import GenerateCode

from tests import nightly
from tests.models import resnet8
from tests.models.networks import network  # a fixture
from tests.name_index import NameIndex
from tests.vendor_runs import VendorRunError, VendorRuns

__all__ = ["network"]

ROOT = Path(__file__).resolve().parents[1]
ALLOWED_SKIPS = ROOT / "tests" / "allowed_skips.toml"

ASKED_CASES: list[str] = []
"""Parts of names of the cases that families run; all run where nothing is asked for."""

for _profile, _examples in (("quick", 25), ("slow", 100)):
    settings.register_profile(_profile, derandomize=True, deadline=None, database=None, max_examples=_examples)
settings.load_profile("quick")


Generate = Callable[[GenerateCode, Chip, Module, PassContext], bytes]


class RunVendor(Protocol):
    """Run a compiled file on the vendor's runtime: raw arrays in, raw arrays out, both by tensor name."""

    def __call__(
        self, path: Path, inputs: Mapping[str, NDArray[Any]], *, all_tensors: bool = False, timeout: float = 300.0
    ) -> dict[str, NDArray[Any]]: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tpuc")
    group.addoption("--model-data", metavar="DIR", type=Path, help="folder with trained networks and labeled data")
    group.addoption("--oracle", metavar="DIR", type=Path, help="folder with the tools that run the vendor's models")
    group.addoption("--case", metavar="NAME", action="append", default=[], help="of families only such cases")
    group.addoption(
        "--strict-skips",
        nargs="?",
        const=ALLOWED_SKIPS,
        metavar="FILE",
        type=Path,
        help="a skip whose reason is not in the file (tests/allowed_skips.toml) is a failure",
    )
    group.addoption(
        "--interop-third",
        type=int,
        choices=range(3),
        help="one in three of the tests with --oracle, of those of --model-data, and of those that take turns",
    )
    group.addoption("--pictures", metavar="DIR", type=Path, help="keep pictures of the pages that tests look at there")
    group.addoption("--slow", action="store_true", help="also the tests marked slow, some of which take minutes")
    group.addoption("--update-golden", action="store_true", help="rewrite expected texts instead of comparing them")


def pytest_configure(config: pytest.Config) -> None:
    for option, needed in (("--model-data", "data"), ("--oracle", "run_file.py")):
        folder: Path | None = config.getoption(option)
        if folder is not None and not (folder / needed).exists():
            raise pytest.UsageError(f"{option} {folder}: no {needed!r} there")
    settings.load_profile("slow" if config.getoption("--slow") else "quick")
    asked: list[str] | None = config.getoption("--case")
    ASKED_CASES[:] = asked or ()
    allowed: Path | None = config.getoption("--strict-skips")
    if allowed is not None and not hasattr(config, "workerinput"):  # workers of xdist report to this process
        config.pluginmanager.register(StrictSkips(allowed), "strict-skips")
    state, patch = tempfile.mkdtemp(prefix="tpuc-tests-state-"), pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    config.add_cleanup(partial(shutil.rmtree, state, ignore_errors=True))
    patch.setenv("XDG_STATE_HOME", state)  # what tests compile is not remembered as the user's own
    if sys.dont_write_bytecode and not hasattr(config, "workerinput"):
        _keep_bytecode_elsewhere(config)
    if not hasattr(config, "workerinput") and not config.getoption("numprocesses", None) and hasattr(config, "cache"):
        config.pluginmanager.register(NameIndex(config), "name-index")


def _keep_bytecode_elsewhere(config: pytest.Config) -> None:
    """The packages stay free of bytecode, and yet neither this process nor those that it starts compile them anew.

    It lies in pytest's cache, so that the next run has it too, without that of modules that a test has written.
    """
    cache: pytest.Cache | None = getattr(config, "cache", None)
    if cache is not None:
        folder = cache.mkdir("bytecode")
        passing = folder.joinpath(*Path(tempfile.gettempdir()).parts[1:])
    else:
        folder = passing = Path(tempfile.mkdtemp(prefix="tpuc-bytecode-"))
    config.add_cleanup(partial(shutil.rmtree, passing, ignore_errors=True))
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setenv("PYTHONPYCACHEPREFIX", str(folder))
    patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    patch.setattr(sys, "pycache_prefix", str(folder))
    patch.setattr(sys, "dont_write_bytecode", False)


YOUNG, MIDDLE, OLD = 20_000, 10, 10
"""So many new objects, and so many collections of younger ones, let the collector of reference cycles look for more."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests last until the end: the collector, which took a fifth of the time, never looks at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(YOUNG, MIDDLE, OLD)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Of several workers one compiles a file of tests, which takes most of the time of a first run; the others wait."""
    if not isinstance(collector, pytest.Module) or not hasattr(collector.config, "workerinput"):
        return (yield)
    with collector.path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    nightly.mark([item], item.config.getoption("--interop-third"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow tests are left out, unless `--slow` asks for them or nothing else is asked for."""
    third: int | None = config.getoption("--interop-third")
    if third is not None:
        _deselect(config, items, [item for item in items if not nightly.is_in_third(item, third)])
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow and len(slow) < len(items) and not config.getoption("--slow"):
        _deselect(config, items, slow)


def _deselect(config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]


class StrictSkips:
    """Fails a run in which a test was skipped for a reason that is not in a file."""

    def __init__(self, file: Path) -> None:
        entries = tomllib.loads(file.read_text("utf-8"))["skip"]
        self._allowed = [re.compile(entry["reason"]) for entry in entries if entry["why"]]
        self._unexpected: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            if not any(pattern.fullmatch(reason) for pattern in self._allowed):
                self._unexpected.append(f"{report.nodeid}: {reason}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._unexpected and session.exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._unexpected:
            terminalreporter.section("skips that are not allowed", red=True)
            for line in self._unexpected:
                terminalreporter.line(line)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked `chip` need that chip's package."""
    for mark in item.iter_markers("chip"):
        if mark.args[0] not in Registry().names("tpuc.chips"):
            pytest.skip(f"needs the chip {mark.args[0]}")


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """Tests never leave this machine."""
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test tried to reach {address[0]}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        yield


class Proofs:
    """Every file that a test compiles is loaded, and its waits must order all conflicts.

    Who loads a file proves it. What nobody loads is loaded at the end of the test. The same bytes are proved once.
    """

    generate: Generate
    """What makes a file and does not look at it."""

    def __init__(self) -> None:
        self.generate = GenerateCode._generate
        self._open: dict[bytes, tuple[Chip, bytes]] = {}
        self._proved: set[bytes] = set()
        self._chips: set[type[Chip]] = set()

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """From now on all files are proved."""

        def generate(self_: GenerateCode, chip: Chip, module: Module, context: PassContext) -> bytes:
            data = self.generate(self_, chip, module, context)
            self._watch_loads(type(chip), patch)
            if (digest := sha256(data).digest()) not in self._proved:
                self._open[digest] = chip, data
            return data

        patch.setattr(GenerateCode, "_generate", generate)

    def _watch_loads(self, definition: type[Chip], patch: pytest.MonkeyPatch) -> None:
        load = definition.load

        def proved(chip: Chip, data: bytes, source: str = "<bytes>") -> LoadedModel:
            loaded = load(chip, data, source)
            if self._open and (digest := sha256(data).digest()) in self._open:
                del self._open[digest]
                loaded.check()
                self._proved.add(digest)
            return loaded

        if definition not in self._chips:
            self._chips.add(definition)
            patch.setattr(definition, "load", proved)

    def finish(self) -> None:
        """Prove the files that nobody has loaded."""
        for chip, data in list(self._open.values()):
            chip.load(data, f"file compiled for {chip.description.name}")

    def forget(self) -> None:
        """The files of a test that has ended are of no account."""
        self._open.clear()


PROOFS = Proofs()


@pytest.fixture(scope="session", autouse=True)
def proofs() -> Iterator[Proofs]:
    """All files are proved."""
    with pytest.MonkeyPatch.context() as patch:
        PROOFS.watch(patch)
        yield PROOFS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """A test fails when a file that it made has a hazard."""
    try:
        yield
        PROOFS.finish()
    finally:
        PROOFS.forget()


@pytest.fixture(scope="session")
def thorough(request: pytest.FixtureRequest) -> bool:
    """All cases of a comparison with the vendor's tools, as at night; else those that `tests.turns` chooses."""
    return bool(request.config.getoption("--slow"))


@pytest.fixture(scope="session")
def model_data(request: pytest.FixtureRequest) -> Path:
    """The folder of trained networks (`onnx/`, `tflite/`), labeled data (`data/`) and reference outputs (`ref/`)."""
    folder: Path | None = request.config.getoption("--model-data")
    if folder is None:
        pytest.skip("needs --model-data DIR")
    return folder.resolve()


SAMPLE = "handmade_conv_int8"


@pytest.fixture(scope="session")
def sample_bmodel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The oracle's hand-made .bmodel, whose streams end where their last command does, with streams of whole units.

    The vendor's runtime rounds the last DMA command up to 128 bytes and writes behind its buffer else: 14 of 15 starts
    on one machine ended with "double free or corruption", none of 15 with the units.
    """
    from tpuc_bm1684x.container.model import BModel  # other tests run without the chip
    from tpuc_bm1684x.isa.stream import STREAM_UNIT

    def whole(stream: bytes) -> bytes:
        return stream + bytes(-len(stream) % STREAM_UNIT)

    folder: Path | None = request.config.getoption("--oracle")
    if folder is None:
        pytest.skip("needs --oracle DIR")
    model = BModel.from_bytes((folder / "samples" / f"{SAMPLE}.bmodel").read_bytes())
    (net,) = model.nets
    (stage,) = net.stages
    (subnet,) = stage.subnets
    groups = tuple(replace(group, tiu=whole(group.tiu), gdma=whole(group.gdma)) for group in subnet.groups)
    stages = (replace(stage, subnets=(replace(subnet, groups=groups),)),)
    path = tmp_path_factory.mktemp("sample") / f"{SAMPLE}.bmodel"
    path.write_bytes(replace(model, nets=(replace(net, stages=stages),)).to_bytes())
    return path


@pytest.fixture(scope="session")
def vendor_runs(request: pytest.FixtureRequest) -> Iterator[VendorRuns]:
    """The processes that run compiled files on the vendor's runtime."""
    folder: Path | None = request.config.getoption("--oracle")
    if folder is None:
        pytest.skip("needs --oracle DIR")
    runs = VendorRuns(folder)
    yield runs
    runs.close()


@pytest.fixture(scope="session")
def oracle_dir(request: pytest.FixtureRequest, vendor_runs: VendorRuns) -> Path:
    """The folder of oracle tools, after one real run of the vendor's runtime on a sample."""
    folder = vendor_runs.tools
    environment = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer")
    if not (environment / "bin" / "python").exists():
        pytest.skip(f"no vendor environment at {environment}: run {folder.name}/setup.sh or set PEER")
    with np.load(folder / "samples" / f"{SAMPLE}_bmodel.npz") as sample:
        x, y = sample["x"], sample["y"]
    path: Path = request.getfixturevalue("sample_bmodel")
    try:
        result = vendor_runs.run(path, {"x": x})
    except VendorRunError as error:
        pytest.skip(f"the vendor environment at {environment} does not work: {error}")
    if not np.array_equal(result["y"], y):
        pytest.skip(f"the vendor environment at {environment} computes its own sample wrongly")
    return folder


@pytest.fixture
def run_vendor(oracle_dir: Path, vendor_runs: VendorRuns) -> RunVendor:
    """The vendor's runtime; a refusal, an abort or a hang fails the test with the last words of the run."""

    def run(
        path: Path, inputs: Mapping[str, NDArray[Any]], *, all_tensors: bool = False, timeout: float = 300.0
    ) -> dict[str, NDArray[Any]]:
        try:
            return vendor_runs.run(path, inputs, all_tensors=all_tensors, timeout=timeout)
        except VendorRunError as error:
            pytest.fail(f"the vendor's runtime on {path.name}: {error}")

    return run


@pytest.fixture(scope="session")
def digits_onnx() -> Path:
    """The trained digits network of the example, input `image` 1x1x8x8, pixels 0..16."""
    return ROOT / "examples" / "digits" / "digits.onnx"


@pytest.fixture(scope="session")
def mnist_onnx(model_data: Path) -> Path:
    """MNIST, opset 8, input `Input3` 1x1x28x28, pixels 0..255."""
    return model_data / "onnx" / "mnist.onnx"


@pytest.fixture(scope="session")
def resnet8_onnx(model_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ResNet-8 of MLPerf Tiny, rewritten from TFLite: input `input_1` 1x3x32x32, pixels 0..255."""
    path = tmp_path_factory.mktemp("resnet8") / "resnet8.onnx"
    path.write_bytes(resnet8.from_tflite(model_data / resnet8.SOURCE).SerializeToString())
    return path
