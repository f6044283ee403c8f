"""`tpuc run` on modules of the dialects `tf` and `tf_executor`, whose arguments are the inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.registry import Registry
from tpuc_driver.cli import main
from tpuc_driver.session import Session

from tests.families import each
from tests.frontends.tensorflow.graphs import COUNT_UP, NESTED, graph, module_of
from tests.frontends.tensorflow.listings import CALLED, CORRECTIONS, SOME_FUNCTION

Array = NDArray[Any]
SWITCHED = graph(
    """
    %xt, %xf, %k1 = tf_executor.Switch %p, %x : f32
    %minus, %k3 = tf_executor.island wraps tf.Neg %xf : f32
    %m, %i, %k5 = tf_executor.Merge %xt, %minus : f32
    tf_executor.fetch %m : f32
    """,
    "%p: i1, %x: f32",
    "f32",
)
KINDS = {
    "i1": "bool",
    "ui8": "uint8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "f32": "float32",
}


def ran(path: Path, *arguments: Array | np.generic | float) -> list[Array]:
    """What the command writes, in the order of the results."""
    np.savez(path.with_suffix(".npz"), **{f"arg{index}": array for index, array in enumerate(arguments)})
    output = path.with_name("out.npz")
    assert main(["run", str(path), str(path.with_suffix(".npz")), "-o", str(output)]) == 0
    found = np.load(output)
    return [found[name] for name in found.files]


def saved(text: str, folder: Path, registry: Registry) -> Path:
    path = folder / "module.mlir"
    Session().save(module_of(text, registry), path)
    return path


def test_numbers_of_loops(tmp_path: Path, registry: Registry) -> None:
    path = saved(COUNT_UP, tmp_path, registry)
    assert ran(path, np.int32(3), np.int32(6), np.float32(1.5)) == [6, np.float32(1.5**8)]
    assert ran(path, 3, 6.0, np.float64(1.5)) == [6, np.float32(1.5**8)]  # other types that hold the same numbers
    assert ran(saved(NESTED, tmp_path, registry), np.int32(3)) == [0 + 1 + (1 + 2)]


@each("shape", [(), (3,), (1, 2, 3, 4, 5)])
def test_every_type_and_rank(shape: tuple[int, ...], tmp_path: Path, registry: Registry) -> None:
    for kind, dtype in KINDS.items():
        extents = "x".join([*map(str, shape), kind])
        text = f"func.func @main(%x: tensor<{extents}>) -> tensor<{extents}> {{\n"
        text += f"  %y = tf.Identity %x : tensor<{extents}>\n  return %y : tensor<{extents}>\n}}\n"
        x = np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
        (y,) = ran(saved(text, tmp_path, registry), x)
        assert (y.dtype, y.shape) == (x.dtype, shape)
        np.testing.assert_array_equal(y, x)


def test_open_extents_and_any_rank(tmp_path: Path, registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    text = "func.func @main(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {\n"
    path = saved(text + "  %y = tf.Neg %x : tensor<?x3xf32>\n  return %y : tensor<?x3xf32>\n}\n", tmp_path, registry)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(ran(path, x)[0], -x)
    np.savez(tmp_path / "turned.npz", arg0=x.T)
    assert main(["run", str(path), str(tmp_path / "turned.npz")]) == 1
    assert (
        "array 'arg0' of shape (3, 2) does not fit input 'arg0' ?x3; ? stands for any extent."
        in capsys.readouterr().err
    )
    listing = SOME_FUNCTION
    for wrong, right in CORRECTIONS.items():
        listing = listing.replace(wrong, right)
    path = saved(listing.replace("@some_function", "@main") + CALLED, tmp_path, registry)
    (y,) = ran(path, x)
    assert y.shape == x.shape
