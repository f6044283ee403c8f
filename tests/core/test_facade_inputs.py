"""What the Python interface takes: network objects, and samples of any kind; and the class of what it raises."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import tpuc
import tpuc.errors
from tpuc.files import CannotWrite
from tpuc.warned import LeftOut
from tpuc_driver.facade.wording import for_python

from tests.families import each
from tests.frontends.tflite.files import Node, Tensor, tflite_file

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
FILE = DIGITS / "digits.onnx"
CHIP = "bm1684x"
IMAGES = np.load(DIGITS / "digits_calib.npz")["x"]
FEW = IMAGES[:21]


@pytest.fixture(scope="module")
def network() -> tpuc.Network:
    return tpuc.load(FILE)


class TorchTensor:
    """As tensors of torch: no numpy array until detached and on the host."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)
        self.shape = self.array.shape

    def __array__(self, *_: object) -> Any:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def detach(self) -> TorchTensor:
        return self

    def cpu(self) -> Any:
        return self.array


class Loader:
    """As a DataLoader: batches of images and labels; counts how often it is read."""

    def __init__(self, size: int = 10, images: Any = IMAGES) -> None:
        self.size, self.images, self.read = size, images, 0

    def __iter__(self) -> Iterator[list[TorchTensor]]:
        self.read += 1
        for start in range(0, len(self.images), self.size):
            part = self.images[start : start + self.size]
            yield [TorchTensor(part), TorchTensor(np.zeros(len(part), np.int64))]


FORMS: list[tuple[str, Callable[[], Any]]] = [
    ("array", lambda: FEW),
    ("tensor", lambda: TorchTensor(FEW)),
    ("halves", lambda: FEW.astype(np.float16)),
    ("bfloat16", lambda: FEW.astype(ml_dtypes.bfloat16)),
    ("by name", lambda: {"image": FEW}),
    ("lists of numbers", FEW.tolist),
    ("list of arrays", lambda: list(FEW)),
    ("generator of arrays", lambda: (image for image in FEW)),
    ("generator of batches", lambda: (FEW[start : start + 7] for start in range(0, len(FEW), 7))),
    ("iterator of dictionaries", lambda: ({"image": image, "label": 3} for image in FEW)),
    ("pairs", lambda: [(image, 3) for image in FEW]),
    ("loader", lambda: Loader(images=FEW)),
]


@each(("name", "form"), FORMS, ids=[name for name, _ in FORMS])
def test_samples_of_any_form_give_the_same(name: str, form: Callable[[], Any], network: tpuc.Network) -> None:
    images = FEW.astype(ml_dtypes.bfloat16) if name == "bfloat16" else FEW
    wanted = network.run(images.astype(np.float16 if name == "halves" else np.float32))["probabilities"]
    np.testing.assert_array_equal(network.run(form())["probabilities"], wanted)


def test_calibration_reads_an_iterable_once(network: tpuc.Network, tmp_path: Path) -> None:
    loader = Loader()
    quick = {"tune_num": 1, "bias_num": 1}
    tables = [network.quantize(given, **quick).save_table(tmp_path / "t").read_text() for given in (IMAGES, loader)]
    assert tables[0] == tables[1]
    assert loader.read == 1


def test_an_endless_generator_is_read_as_far_as_needed(network: tpuc.Network) -> None:
    taken: list[int] = []

    def endless() -> Iterator[Any]:
        while True:
            taken.append(len(taken))
            yield IMAGES[len(taken) % 100]

    network.quantize(endless(), input_num=24, tune_num=1, bias_num=1)
    assert len(taken) == 24


def test_networks_in_memory_are_those_of_files(network: tpuc.Network) -> None:
    wanted = network.run(IMAGES[:4])["probabilities"]
    model = onnx.load(FILE)
    for given in (model, FILE.read_bytes(), memoryview(FILE.read_bytes())):
        found = tpuc.load(given, model_name="mine")
        np.testing.assert_array_equal(found.run(IMAGES[:4])["probabilities"], wanted)
        assert found.name == "mine"
    assert tpuc.load(model).name == model.graph.name


def test_a_tflite_network_in_memory() -> None:
    tensors = [Tensor("x", (1, 4)), Tensor("y", (1, 4))]
    data = tflite_file(tensors, [Node("NEG", ["x"], ["y"])], ["x"], ["y"])
    network = tpuc.load(data)
    assert network.name == "network"
    np.testing.assert_array_equal(network.run(np.arange(4, dtype=np.float32))["y"], [[0, -1, -2, -3]])


def test_compiled_networks_are_pickled(network: tpuc.Network, tmp_path: Path) -> None:
    quantized = network.quantize(IMAGES, tune_num=1, bias_num=1)
    wrong: list[str] = []
    for chip, runtime in ((CHIP, None), ("cv181x", None), ("c", None), ("cv183x", "1.4.0")):
        compiled = quantized.compile(chip, **({"runtime_version": runtime} if runtime else {}))
        again = pickle.loads(pickle.dumps(compiled))  # noqa: S301  # made in this test
        same = np.array_equal(again.run(IMAGES[:3])["probabilities"], compiled.run(IMAGES[:3])["probabilities"])
        paths = [one.save(tmp_path / f"{name}{Path(one.name).suffix}") for name, one in (("a", compiled), ("b", again))]
        if not (same and repr(again) == repr(compiled) and paths[0].read_bytes() == paths[1].read_bytes()):
            wrong.append(chip)
    assert wrong == []


def bad(value: Any) -> Any:
    """Of a wrong type, which type checkers are not to see."""
    return value


def kinds(network: tpuc.Network) -> list[tuple[type[tpuc.TpucError], str, Callable[[], object]]]:
    errors = tpuc.errors
    compiled = network.compile(CHIP)
    return [
        (errors.InvalidInput, "shape (3, 7) does not fit input 'image'", lambda: network.run(np.zeros((3, 7)))),
        (errors.InvalidInput, "shape (3, 7) does not fit input 'image'", lambda: compiled.run(np.zeros((3, 7)))),
        (errors.InvalidInput, "item 2 of the samples: shape (3,)", lambda: network.run(iter([IMAGES[0], np.zeros(3)]))),
        (errors.InvalidInput, "the input is not an array (", lambda: network.run([[1, 2], [3]])),
        (errors.InvalidInput, "array 'image' holds str, not numbers; give", lambda: network.run({"image": "x"})),
        (errors.InvalidInput, "there are no samples to run; give at least one.", lambda: network.run(iter(()))),
        (errors.InvalidInput, "nowhere.npz: no such file or folder of samples.", lambda: network.run("nowhere.npz")),
        (errors.CalibrationError, "the iterable of samples is empty; a generator", lambda: network.quantize(iter(()))),
        (
            errors.CalibrationError,
            "item 1 of the samples: shape (3, 7)",
            lambda: network.quantize(iter([np.zeros((3, 7))])),
        ),
        (errors.CalibrationError, "array 'image': shape (9, 3, 7)", lambda: network.quantize(np.zeros((9, 3, 7)))),
        (errors.UsageError, "tpuc.load does not read these bytes; give", lambda: tpuc.load(b"TFL3")),
        (errors.UsageError, "tpuc.load does not read these objects of type NoneType; give", lambda: tpuc.load(None)),
        (errors.UsageError, "leave out example_inputs.", lambda: tpuc.load(FILE, example_inputs=(1,))),
        (errors.InvalidModel, "network: not an ONNX file: there is no", lambda: tpuc.load(onnx.ModelProto())),
        (errors.UsageError, "chip has the type int; give a str.", lambda: network.compile(bad(3))),
        (errors.UsageError, "batch has the type str; give a int.", lambda: tpuc.load(FILE, batch=bad("2"))),
        (
            errors.UsageError,
            "files for chip 'bm1684x' end in .bmodel; name it x.bmodel.",
            lambda: compiled.save("x.onnx"),
        ),
        (errors.UsageError, "modules end in .mlir; name it x.mlir.", lambda: network.save("x.onnx")),
        (CannotWrite, "there is no folder '/nowhere'", lambda: compiled.save("/nowhere/x.bmodel")),
        (errors.FileError, "nowhere: no such file or directory. Check the path.", lambda: saved(network)),
    ]


def saved(network: tpuc.Network) -> object:
    return network.quantize(table="nowhere").save_table("x")


def test_every_error_is_of_a_fitting_class(network: tpuc.Network) -> None:
    wrong: list[str] = []
    for kind, sentence, attempt in kinds(network):
        try:
            attempt()
            wrong.append(f"not refused: {sentence}")
        except Exception as error:  # noqa: BLE001  # the wrong ones are shown
            if type(error) is not kind or sentence not in str(error):
                wrong.append(f"{type(error).__name__}: {error}, not {kind.__name__}: {sentence}")
    assert wrong == []


def test_sentences_name_arguments_not_options() -> None:
    said = "f16 needs no calibration; --quantize int8 uses --dataset x--y (`tpuc compile --quantize`)."
    assert for_python(said) == "f16 needs no calibration; mode int8 uses samples x--y (`tpuc compile --quantize`)."


def test_every_warning_has_one_base() -> None:
    assert issubclass(tpuc.Remark, tpuc.TpucWarning)
    assert issubclass(LeftOut, tpuc.TpucWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tpuc.TpucWarning)
        with pytest.raises(tpuc.TpucWarning):
            tpuc.load(FILE).quantize(np.zeros((2, 8, 8), np.float32), tune_num=0, bias_num=0, force=True)
