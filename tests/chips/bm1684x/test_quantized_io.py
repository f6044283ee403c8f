"""Files that take and give values as they store them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tpuc.errors import Unsupported, UsageError
from tpuc.interpreter import Interpreter
from tpuc.ir import F32, Module, Node, TensorType, Uniform
from tpuc.ir.types import ScalarType
from tpuc_bm1684x.container import BModel
from tpuc_driver.data import quantize
from tpuc_driver.session import Boundary, Session
from tpuc_ops import tpu

from tests.chips.bm1684x.small_networks import write_two_headed
from tests.families import each
from tests.models.networks import Network

STORED = Boundary(quant_input=True, quant_output=True)


def prepared(tmp_path: Path) -> tuple[Session, Module, object]:
    """A network of one input and two outputs, with its calibration."""
    session = Session(chip="bm1684x", quantize="int8")
    module = session.transform(write_two_headed(tmp_path / "net.onnx", (1, 3, 8, 8)))
    np.save(tmp_path / "samples.npy", np.random.default_rng(0).normal(size=(8, 1, 3, 8, 8)).astype(np.float32))
    return session, module, session.calibrate(module, dataset=tmp_path / "samples.npy")


def test_stored_values_go_in_and_come_out(tmp_path: Path) -> None:
    session, module, table = prepared(tmp_path)
    x = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)
    plain = session.chip.load(session.build(module, table).data)
    final, data, *_ = session.build(module, table, boundary=STORED)
    assert not any(isinstance(operation.op, tpu.Cast) for operation in final.walk())
    stored = session.chip.load(data)
    (info,) = stored.inputs
    assert isinstance(info.element, Uniform)
    q = quantize(x, info.element)
    assert q.dtype == np.int8
    got = stored.run({"image": q})
    assert list(got) == ["map", "score"]
    floats = plain.run({"image": x})
    assert list(floats) == ["map", "score"]
    for name, array in got.items():
        (out,) = [one for one in stored.outputs if one.name == name]
        assert isinstance(out.element, Uniform)
        assert array.dtype == np.int8
        # Floats come from the same sums, without the rounding to bytes.
        steps = np.clip(floats[name] / out.element.scale, -128, 127)
        assert np.abs(steps - array).max() <= 0.5 + 1e-4
        assert np.abs(steps - array).max() > 0.2
    evaluated = Interpreter(final).run({"image": q})
    assert all(np.array_equal(got[name], evaluated[name]) for name in got)


def test_the_file_keeps_scales_as_the_vendor_does(tmp_path: Path) -> None:
    session, module, table = prepared(tmp_path)
    final, data, *_ = session.build(module, table, boundary=STORED)
    stage = BModel.from_bytes(data).nets[0].stages[0]
    scale = final.main.inputs[0].tensor.uniform.scale
    assert stage.inputs[0].scale == np.float32(1 / scale)
    assert stage.outputs[0].scale == np.float32(final.main.outputs[0].tensor.uniform.scale)
    # What a user reads from the file quantizes exactly as the Cast in the file without the option does.
    (info,) = session.chip.load(data).inputs
    assert isinstance(info.element, Uniform)
    assert np.float32(1 / info.element.scale) == np.float32(1 / scale)


def test_lists_choose_by_position(tmp_path: Path) -> None:
    session, module, table = prepared(tmp_path)
    boundary = Boundary(quant_output=True, quant_output_list=(2,))
    loaded = session.chip.load(session.build(module, table, boundary=boundary).data)
    assert [(info.name, isinstance(info.element, Uniform)) for info in loaded.outputs] == [
        ("map", False),
        ("score", True),
    ]
    assert loaded.inputs[0].element == ScalarType("f32")


def test_deploy_compares_and_reports_scales(tmp_path: Path) -> None:
    session, module, table = prepared(tmp_path)
    np.save(tmp_path / "x.npy", np.random.default_rng(2).normal(size=(1, 3, 8, 8)).astype(np.float32))
    report = session.deploy(
        module, tmp_path / "o.bmodel", calibration_table=table, test_input=(tmp_path / "x.npy",), boundary=STORED
    )
    assert len(report.comparisons) == 2
    (info,) = session.chip.load((tmp_path / "o.bmodel").read_bytes()).inputs
    assert isinstance(info.element, Uniform)
    assert f"\ninput 'image': i8 1x3x8x8, scale {info.element.scale:.9g}, zero point 0\n" in report.text()
    assert "\noutput 'score': i8 1x5, scale " in report.text()
    values = report.to_json()["inputs"]
    scale = info.element.scale
    assert values == [{"name": "image", "shape": [1, 3, 8, 8], "type": "i8", "scale": scale, "zero_point": 0}]


def test_run_quantizes_floats_with_a_remark_and_takes_integers_as_they_are(tmp_path: Path) -> None:
    session, module, table = prepared(tmp_path)
    remarks: list[str] = []
    session = session.having(remark=remarks.append)
    path = tmp_path / "o.bmodel"
    session.deploy(module, path, calibration_table=table, boundary=STORED)
    x = np.random.default_rng(2).normal(size=(2, 1, 3, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    of_floats = session.run(path, (tmp_path / "x.npy",))
    (info,) = session.chip.load(path.read_bytes()).inputs
    assert isinstance(info.element, Uniform)
    told = (
        f"input 'image' takes int8: float data is quantized with scale {info.element.scale:.9g} and zero point 0; "
        "integers are passed unchanged"
    )
    assert [remark for remark in remarks if remark.startswith("input")] == [told]
    assert any(remark.startswith("output 'map': i8 1x2x8x8, scale ") for remark in remarks)
    remarks.clear()
    np.save(tmp_path / "q.npy", quantize(x, info.element))
    of_integers = session.run(path, (tmp_path / "q.npy",))
    assert not [remark for remark in remarks if remark.startswith("input")]
    assert of_floats["score"].shape == (2, 1, 5)
    assert all(np.array_equal(of_floats[name], of_integers[name]) for name in of_floats)


@each(("storage", "scale", "zero_point"), [("i8", 0.0123, 0), ("u8", 1 / 255, 0), ("i8", 0.37, -5), ("u8", 2.0, 128)])
def test_quantizing_outside_is_the_cast_inside(storage: str, scale: float, zero_point: int) -> None:
    element = Uniform(ScalarType(storage), F32, scale, zero_point)
    random = np.random.default_rng(0)
    ties = (np.arange(-600, 600, dtype=np.float32) / 2) * np.float32(scale)
    x = np.concatenate([ties, random.normal(0, 40 * scale, 5000).astype(np.float32), np.float32([-1e30, 1e30, 0])])
    node = Node(tpu.Cast(), (TensorType(x.shape, F32),), (TensorType(x.shape, element),))
    assert np.array_equal(quantize(x, element), tpu.Cast().evaluate(node, [x])[0])


def test_floats_have_no_stored_form_to_take_away(tmp_path: Path) -> None:
    _, module, _ = prepared(tmp_path)
    told: list[str] = []
    session = Session(chip="bm1684x", log=told.append)
    data = session.build(module, boundary=STORED).data
    assert data == session.build(module).data
    assert "input 'image' is not quantized: --quant-input has no effect on it" in told
    assert "output 'map' is not quantized: --quant-output has no effect on it" in told


@pytest.mark.parametrize(
    ("boundary", "sentence"),
    [
        (
            Boundary(quant_input=True, quant_input_list=(2,)),
            "--quant-input-list names input 2, but the network has 1. Positions count from 1.",
        ),
        (
            Boundary(quant_output=True, quant_output_list=(1, 0)),
            "--quant-output-list names output 0, but the network has 2. Positions count from 1.",
        ),
    ],
)
def test_positions_that_are_not_there(boundary: Boundary, sentence: str, tmp_path: Path) -> None:
    session, module, table = prepared(tmp_path)
    with pytest.raises(UsageError) as error:
        session.build(module, table, boundary=boundary)
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"customization_format": "RGB_PACKED"}, "--customization-format has no effect without --fuse-preprocess; add"),
        ({"quant_input_list": (1,)}, "--quant-input-list has no effect without --quant-input; add --quant-input."),
        ({"quant_output_list": (1,)}, "--quant-output-list has no effect without --quant-output; add --quant-output."),
    ],
)
def test_options_that_belong_to_others(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        Boundary(**given)  # type: ignore[arg-type]  # parametrized
    assert str(error.value).startswith(sentence)


def test_an_input_that_is_also_needed_as_float(tmp_path: Path) -> None:
    session, _, _ = prepared(tmp_path)
    module = session.transform(tmp_path / "net.onnx", output_names=("map", "image"))
    table = session.calibrate(module, dataset=tmp_path / "samples.npy")
    with pytest.raises(
        Unsupported, match=r"input 'image' is stored as i8, but .* needs it in another form, .*--quant-input"
    ):
        session.build(module, table, boundary=Boundary(quant_input=True))


def test_digits_in_stored_integers_keep_their_labels(network: Callable[[str], Network]) -> None:
    net = network("digits")
    session = Session(chip="bm1684x", quantize="int8")
    plain = session.chip.load(session.build(net.module, net.table).data)
    stored = session.chip.load(session.build(net.module, net.table, boundary=Boundary(quant_input=True)).data)
    (info,) = stored.inputs
    for index in range(5):
        ((name, x),) = net.inputs(index).items()
        q = quantize(x, info.element) if isinstance(info.element, Uniform) else x.astype(np.uint8)
        for wanted, got in zip(plain.run({name: x}).values(), stored.run({name: q}).values(), strict=True):
            assert np.array_equal(got, wanted)
