"""Files of our own making: what they compute is told by hand, and what is wrong with them in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from numpy.typing import NDArray
from tpuc.api import ImportOptions, InvalidModel, Module, TpucError, Unsupported, UsageError
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.cli import main
from tpuc_tensorflow.frontend import FRONTEND
from tpuc_tensorflow.loading.schema import new_message

from tests.families import each
from tests.frontends.tensorflow.writing import GraphWriter, branch, power_loop, small_network

FILES = Path(__file__).with_name("files")
OWN = {"small": small_network(), "loop": power_loop(5), "branch": branch()}


def read(path: Path, registry: Registry, **options: Any) -> Module:
    module = FRONTEND.read(path, ImportOptions("n", **options), registry)
    module.verify()
    return module


def run(module: Module, x: NDArray[np.float32]) -> NDArray[Any]:
    (result,) = Interpreter(module).run({"x": x}).values()
    return result


def written(folder: Path, content: bytes, name: str = "n.pb") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def as_text(content: bytes) -> str:
    message = new_message("Graph")
    message.ParseFromString(content)
    return text_format.MessageToString(message)


@each("name", OWN)
def test_the_files_are_what_is_written(name: str) -> None:
    """`python -m tests.frontends.tensorflow.test_files` writes them anew."""
    assert (FILES / f"{name}.pb").read_bytes() == OWN[name]
    assert (FILES / f"{name}.pbtxt").read_text(encoding="utf-8") == as_text(OWN[name])


def expected_small(x: NDArray[np.float32]) -> NDArray[Any]:
    """In plain loops: SAME with stride 2 over 8 pads one row and column at the end."""
    w = np.linspace(-1, 1, 54, dtype=np.float32)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 1), (0, 1), (0, 0)))
    conv = np.zeros((1, 4, 4, 2))
    for i in range(4):
        for j in range(4):
            window = padded[0, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
            conv[0, i, j] = np.tensordot(window, w.reshape(3, 3, 3, 2), 3)
    normal = (conv - [0.1, 0]) / np.sqrt(np.array([1, 2]) + 1e-3) * [1, 0.5] + [0, 1]
    pooled = np.maximum(normal, 0).reshape(2, 2, 2, 2, 2).max((1, 3)).reshape(1, 8)
    logits = pooled @ w[:24].reshape(8, 3) + [0, 1, 2]
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


@each("suffix", ["pb", "pbtxt"])
def test_a_small_network(suffix: str, registry: Registry) -> None:
    x = np.random.default_rng(1).standard_normal((1, 8, 8, 3)).astype(np.float32)
    module = read(FILES / f"small.{suffix}", registry)
    np.testing.assert_allclose(run(module, x.transpose(0, 3, 1, 2)), expected_small(x), atol=1e-6)


def test_a_batch_that_the_file_leaves_open(registry: Registry) -> None:
    x = np.random.default_rng(1).standard_normal((3, 8, 8, 3)).astype(np.float32)
    module = read(FILES / "small.pb", registry, batch=3)
    expected = np.concatenate([expected_small(one[None]) for one in x])
    np.testing.assert_allclose(run(module, x.transpose(0, 3, 1, 2)), expected, atol=1e-6)


@each("steps", [0, 1, 5])
def test_loops_of_version_1(steps: int, registry: Registry, tmp_path: Path) -> None:
    x = np.array([1.5, -2], np.float32)
    np.testing.assert_array_equal(run(read(written(tmp_path, power_loop(steps)), registry), x), x * 2**steps)


@each("x", [[1, 2, 3], [-1, -2, 1]])
def test_branches_of_version_1(x: list[float], registry: Registry) -> None:
    array = np.array(x, np.float32)
    expected = array * 2 if sum(x) > 0 else 1 - array
    np.testing.assert_array_equal(run(read(FILES / "branch.pb", registry), array), expected)


@each("x", [[1.5, 2], [60, 30], [200, 1], [-1, 3]])
def test_a_loop_whose_end_depends_on_the_data(x: list[float], registry: Registry, tmp_path: Path) -> None:
    """It is a loop in TOP too, which is evaluated."""
    module = read(written(tmp_path, power_loop(None)), registry)
    expected = np.array(x, np.float32)
    while expected.sum() < 100:
        expected = expected * 2
    np.testing.assert_array_equal(run(module, np.array(x, np.float32)), expected)


@pytest.mark.chip("bm1684x")
def test_check_names_a_loop_whose_end_depends_on_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, power_loop(None))
    assert main(("check", str(path), "--chip", "bm1684x")) == 1
    assert "top.While" in capsys.readouterr().out


def grouped() -> GraphWriter:
    g = GraphWriter()
    g.placeholder("x", (1, 4, 4, 4))
    return g


F32 = np.dtype(np.float32)


@each("form", ["NHWC", "NCHW"])
def test_images_in_both_orders(form: str, registry: Registry, tmp_path: Path) -> None:
    """A grouped convolution of 1x1: two groups of two channels each."""
    g = grouped()
    filters = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    g.add("y", "Conv2D", "x", g.constant("w", filters), T=F32, strides=[1, 1, 1, 1], padding="VALID", data_format=form)
    x = np.random.default_rng(1).standard_normal((1, 4, 4, 4)).astype(np.float32)
    module = read(written(tmp_path, g.content()), registry)
    w = filters[0, 0]
    expected = np.concatenate(
        [np.einsum("nchw,co->nohw", x[:, 2 * k : 2 * k + 2], w[:, 2 * k : 2 * k + 2]) for k in (0, 1)], 1
    )
    np.testing.assert_allclose(run(module, x), expected, rtol=1e-5, atol=1e-5)  # terms of up to 20 cancel


@each(
    ("content", "error", "sentence"),
    [
        (b"", InvalidModel, r"not a GraphDef or SavedModel, or a damaged one \(0 bytes\)"),
        (b"\xff" * 9, InvalidModel, "not a GraphDef or SavedModel"),
        (GraphWriter().content(), InvalidModel, "not a GraphDef or SavedModel"),
    ],
)
def test_bytes_that_are_no_graph(
    content: bytes, error: type[TpucError], sentence: str, registry: Registry, tmp_path: Path
) -> None:
    with pytest.raises(error, match=sentence):
        read(written(tmp_path, content), registry)


def test_text_that_is_no_graph(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match="is not a graph in text"):
        read(written(tmp_path, b"node {", "n.pbtxt"), registry)


def test_a_shape_that_does_not_fit(registry: Registry) -> None:
    with pytest.raises(UsageError, match="input 'x' has shape -1x3x8x8, and 1x3x9x9 does not fit it"):
        read(FILES / "small.pb", registry, input_shapes=((1, 3, 9, 9),))


def test_unknown_operators_are_told_at_once(registry: Registry, tmp_path: Path) -> None:
    g = grouped()
    g.add("y", "Bar", g.add("f", "Foo", "x", T=F32), T=F32)
    with pytest.raises(Unsupported, match=r"2 operators are not known: Foo \(node 'f'\), Bar \(node 'y'\)"):
        read(written(tmp_path, g.content()), registry)


def test_a_node_that_depends_on_itself(registry: Registry, tmp_path: Path) -> None:
    g = grouped()
    g.add("a", "Relu", "b", T=F32)
    g.add("b", "Relu", "a", T=F32)
    g.add("y", "Add", "b", "x", T=F32)
    with pytest.raises(InvalidModel, match="depends on itself"):
        read(written(tmp_path, g.content()), registry)


def test_a_back_edge_without_a_value(registry: Registry, tmp_path: Path) -> None:
    message = new_message("Graph")
    message.ParseFromString(power_loop(5))
    next(node for node in message.node if node.name == "s_next").ClearField("input")
    with pytest.raises(InvalidModel, match=r"node 's_next' \(NextIteration\) has 0 operands, and needs 1"):
        read(written(tmp_path, message.SerializeToString()), registry)


def test_nodes_whose_operands_do_not_fit(registry: Registry, tmp_path: Path) -> None:
    """A Switch of three operands, an If of none, and parts of a constant that are not as many as it says."""
    three = GraphWriter()
    three.placeholder("x", (2,))
    three.add("y", "Switch", "x", "x", "x", T=F32)
    none = grouped()
    none.add("y", "Add", "x", none.add("i", "If", T=F32), T=F32)
    parts = grouped()
    parts.add("u", "Unpack", parts.constant("c", [1, 2]), T=F32, num=3, axis=0)
    parts.add("y", "Add", "x", "u:1", T=F32)
    for writer, sentence in (
        (three, "has 3 operands, and needs 2"),
        (none, "contradict"),
        (parts, "cannot be computed"),
    ):
        with pytest.raises(TpucError, match=sentence):
            read(written(tmp_path, writer.content()), registry)


if __name__ == "__main__":
    for own, graph in OWN.items():
        (FILES / f"{own}.pb").write_bytes(graph)
        (FILES / f"{own}.pbtxt").write_text(as_text(graph), encoding="utf-8")
