"""Text that the vendor's compiler writes of networks of many ops loads here, and evaluates to its own values."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.session.compare import meanings
from tpuc_driver.session.session import Session

pytestmark = [pytest.mark.interop, pytest.mark.slow]

Array = NDArray[Any]
SHAPE = (1, 4, 8, 8)
OUTPUTS = ("pr", "pad", "slice", "perm", "sm", "up", "wh", "rm", "rx", "cat", "mp", "ap", "lr", "sb", "mx", "d2", "ab")
OF_TOP = ("am", "cs", "gs")
"""Of ops that have no equal in our TPU dialect."""


def numbers(*shape: int) -> Array:
    return np.random.default_rng([*shape]).normal(0, 0.5, shape).astype(np.float32)


def network(path: Path) -> None:
    """A convolution, and ops of many kinds behind it; in `many.onnx` those of TOP alone, too."""
    weights: dict[str, Any] = {
        "cw": numbers(8, 4, 3, 3),
        "cb": numbers(8),
        "sl": abs(numbers(8, 1, 1)),
        "mw": numbers(32, 5),
        "p": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "s0": np.array([1, 0]),
        "s1": np.array([7, 8]),
        "ax": np.array([2, 3]),
        "st": np.array([2, 1]),
        "sh": np.array([1, 16, 32]),
        "k": np.array(1),
        "rs": np.array([1, 1, 2, 2], np.float32),
        "half": np.float32(0.5),
        "z": np.float32(0.1),
        "m3": np.float32(-3),
        "grid": np.clip(numbers(1, 5, 6, 2), -0.9, 0.9),
    }
    node = helper.make_node
    nearest: dict[str, Any] = {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    sampling: dict[str, Any] = {"mode": "bilinear", "padding_mode": "zeros", "align_corners": 0}
    half: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        node("Conv", ["x", "cw", "cb"], ["c"], kernel_shape=[3, 3], pads=[1] * 4),
        *(node("PRelu", ["c", "sl"], ["pr"]), node("Pad", ["c", "p"], ["pad"])),
        *(
            node("Slice", ["c", "s0", "s1", "ax", "st"], ["slice"]),
            node("Transpose", ["c"], ["perm"], perm=[0, 2, 3, 1]),
        ),
        *(node("Reshape", ["c", "sh"], ["resh"]), node("MatMul", ["resh", "mw"], ["mm"])),
        *(node("Softmax", ["mm"], ["sm"], axis=2), node("Resize", ["c", "", "rs"], ["up"], **nearest)),
        *(node("Greater", ["c", "z"], ["g"]), node("Where", ["g", "c", "m3"], ["wh"])),
        *(node("ReduceMean", ["c"], ["rm"], axes=[1]), node("ReduceMax", ["c"], ["rx"], axes=[1])),
        *(node("Sigmoid", ["c"], ["sg"]), node("Mul", ["c", "sg"], ["ml"]), node("Add", ["c", "ml"], ["ad"])),
        *(node("Concat", ["c", "ad"], ["cat"], axis=1), node("MaxPool", ["c"], ["mp"], **half)),
        *(node("AveragePool", ["c"], ["ap"], **half), node("LeakyRelu", ["c"], ["lr"], alpha=0.1)),
        *(node("Sub", ["c", "ml"], ["sb"]), node("Max", ["c", "ml"], ["mx"]), node("Abs", ["c"], ["ab"])),
        *(node("DepthToSpace", ["c"], ["d2"], blocksize=2), node("Mul", ["c", "half"], ["mc"])),
    ]
    if is_whole := path.stem == "many":
        nodes += [
            *(node("ArgMax", ["c"], ["ai"], axis=1), node("Cast", ["ai"], ["am"], to=TensorProto.FLOAT)),
            *(node("CumSum", ["c", "k"], ["cs"]), node("GridSample", ["c", "grid"], ["gs"], **sampling)),
        ]
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (*OUTPUTS, *OF_TOP * is_whole)]
    graph = helper.make_graph(nodes, "many", [source], ends, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    path.write_bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())


@pytest.fixture(scope="module")
def written(oracle_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the vendor's compiler wrote of the network."""
    tools = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer") / "bin"
    if not tools.exists():
        pytest.skip(f"no {tools / 'tpuc-opt'}: run {oracle_dir.name}/setup.sh")
    folder = tmp_path_factory.mktemp("many")
    for name in ("many", "few"):
        network(folder / f"{name}.onnx")
    np.savez(folder / "in.npz", x=numbers(*SHAPE))
    transform = "model_transform --model_name {0} --model_def {0}.onnx --mlir {0}.mlir"
    lowered = "--chip bm1684x --quantize F16 --test_input in.npz --tolerance 0.0,0.0 --model m.out"
    deploy = f"model_deploy --mlir few.mlir {lowered}"
    for command in (transform.format("many"), transform.format("few"), deploy):
        name, *words = command.split()
        subprocess.run([str(tools / name), *words], cwd=folder, capture_output=True, check=False, timeout=300)
    return folder


def evaluated(path: Path, inputs: Path) -> dict[str, Array]:
    """Every value of a module."""
    module = Session(Registry()).load(path)
    assert [operation.op.name for operation in module.walk() if not operation.is_registered] == []
    interpreter = Interpreter(module)
    with np.load(inputs) as arrays:
        x: Array = arrays["x"]
    fed = {name: x.reshape(type.dims) for name, type in interpreter.inputs.items()}
    return meanings(module, interpreter.run(fed, "all"))


@pytest.mark.parametrize(
    ("module", "theirs", "limit"),
    [("few", "few_top_outputs", 1e-5), ("few_bm1684x_f16_tpu", "few_bm1684x_f16_tpu_outputs", 1e-3)],
)
def test_it_evaluates_to_their_values(written: Path, module: str, theirs: str, limit: float) -> None:
    """Of TOP in f32, and of TPU in f16, in which sums may be rounded once more or less."""
    found = evaluated(written / f"{module}.mlir", written / "in.npz")
    with np.load(written / f"{theirs}.npz") as wanted:
        compared = {name: wanted[name] for name in wanted.files if name in found}
    errors = {name: np.abs(found[name].reshape(-1) - array.reshape(-1)).max() for name, array in compared.items()}
    far = {name for name, array in compared.items() if errors[name] > limit * max(1.0, float(np.abs(array).max()))}
    assert far == set()
    assert len(compared) > 20


def test_their_import_evaluates_as_the_network(written: Path) -> None:
    """By ONNX Runtime."""
    runtime = pytest.importorskip("onnxruntime")
    found = evaluated(written / "many.mlir", written / "in.npz")
    session = runtime.InferenceSession(str(written / "many.onnx"))
    wanted = session.run([*OUTPUTS, *OF_TOP], {"x": numbers(*SHAPE)})
    values = list(found.values())
    for name, array in zip((*OUTPUTS, *OF_TOP), wanted, strict=True):
        same_size = [value for value in values if value.size == array.size]
        assert any(np.allclose(value.reshape(-1), array.reshape(-1), atol=1e-5) for value in same_size), name
