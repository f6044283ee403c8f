"""Every operator that users of the formats meet is imported, folded, written out, or refused by name with a reason."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

import onnx
import tflite
from tpuc.api import ForeignNode, ImporterTable
from tpuc_caffe.importers import TABLE as CAFFE
from tpuc_caffe.translation import INPUT_TYPES
from tpuc_importing.finding import functions_of
from tpuc_onnx.control import is_control_flow
from tpuc_onnx.folding import SHAPE_QUESTIONS
from tpuc_onnx.importers import TABLE as ONNX
from tpuc_onnx.importers import refused as onnx_refused
from tpuc_onnx.rewrites import REWRITES
from tpuc_onnx.translation import GLUE
from tpuc_ops import top
from tpuc_tensorflow.evaluation.kernels import KERNELS
from tpuc_tensorflow.importers import TABLE as TENSORFLOW
from tpuc_tensorflow.importers import refused as tensorflow_refused
from tpuc_tensorflow.walking import WRITTEN_OUT
from tpuc_tflite.control import is_control_flow as is_tflite_control_flow
from tpuc_tflite.folding import QUESTIONS, foldable
from tpuc_tflite.importers import TABLE as TFLITE
from tpuc_tflite.importers import refused as tflite_refused

from tests.families import each

LISTS = configparser.ConfigParser(allow_no_value=True, delimiters=("=",))
LISTS.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]  # names keep their case
LISTS.read(Path(__file__).with_name("operators.txt"), encoding="utf-8")


def listed(section: str) -> list[str]:
    """The names of a section, several in a line."""
    return [name for line in LISTS[section] for name in line.split()]


def imported(table: ImporterTable) -> set[str]:
    """The operators of a format that have importers of their own or are functions of one number."""
    return {*table.cells, *functions_of(top.DIALECT, table.owner)}


def node(op_type: str) -> ForeignNode:
    return ForeignNode(op_type, "n", ("x",), ("y",), {})


@each("name", listed("onnx"))
def test_onnx_operators(name: str) -> None:
    known = name in imported(ONNX) or name in REWRITES or name in GLUE | SHAPE_QUESTIONS or is_control_flow(node(name))
    schema = onnx.defs.get_schema(name)
    assert known or schema.has_function or schema.has_context_dependent_function or name in CONSTANTS


@each(
    ("section", "domain"),
    [
        ("onnxruntime", "com.microsoft"),
        ("scikit-learn", "ai.onnx.ml"),
        ("qonnx", "qonnx.custom_op.general"),
        ("qonnx", "onnx.brevitas"),
        ("qonnx", "finn.custom_op.general"),
        ("mqbench", "MQBench_custom"),
        ("mqbench", "Sophgo_custom"),
    ],
)
def test_onnx_operators_of_others(section: str, domain: str) -> None:
    names = {f"{domain}::{name}" for name in listed(section)}
    assert names <= imported(ONNX) | REWRITES.keys()
    assert all(name in imported(ONNX) for name in listed("mqbench"))


CONSTANTS = frozenset({"Constant", "EyeLike"})
"""Operators whose result does not depend on what networks compute."""


@each("name", listed("tflite"))
def test_tflite_operators(name: str) -> None:
    assert name not in tflite_refused.REASONS
    assert name in imported(TFLITE) or name in QUESTIONS or is_tflite_control_flow(node(name))


def test_every_builtin_operator_of_tflite() -> None:
    """What the schema has and networks cannot hold is refused by name, not as something unknown."""
    numbers = {name for name, value in vars(tflite.BuiltinOperator).items() if isinstance(value, int)}
    numbers -= {"CUSTOM", "PLACEHOLDER_FOR_GREATER_OP_CODES"}
    told = {*imported(TFLITE), *QUESTIONS, "IF", "WHILE"}
    assert sorted(numbers - told) == []
    assert sorted(name for name in foldable() if name not in numbers) == []


@each("name", listed("caffe"))
def test_caffe_layers(name: str) -> None:
    assert name in imported(CAFFE) or name in INPUT_TYPES or name == "Silence"


@each("name", listed("tensorflow"))
def test_tensorflow_operators(name: str) -> None:
    assert name not in tensorflow_refused.REASONS
    assert name in imported(TENSORFLOW) or name in WRITTEN_OUT


@each("name", listed("tensorflow constants"))
def test_tensorflow_operators_on_constants(name: str) -> None:
    assert name in KERNELS


@each("reasons", [onnx_refused.REASONS, tensorflow_refused.REASONS, tflite_refused.REASONS])
def test_refusals_have_reasons(reasons: Mapping[str, str]) -> None:
    assert all(len(reason.split()) > 4 for reason in reasons.values())
