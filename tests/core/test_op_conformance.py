"""What the conformance tests of ops ask of who writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import F32, Node, Op, TensorType, Types
from tpuc_testing.families import FamilyError
from tpuc_testing.kernel_conformance import KernelConformance
from tpuc_testing.op_conformance import OpConformance, f32, onnx_node


def test_a_test_states_what_it_is_about() -> None:
    with pytest.raises(TypeError, match=r"^TestNothing must state op, reference, samples, flops$"):
        type("TestNothing", (OpConformance,), {})
    assert issubclass(type("Base", (OpConformance,), {}), OpConformance)


def test_without_samples_there_is_nothing_to_test() -> None:
    with pytest.raises(
        TypeError, match=r"^TestEmpty\.samples is empty, so nothing would be tested; state at least one$"
    ):
        type("TestEmpty", (OpConformance,), {"op": None, "reference": None, "samples": [], "flops": 0})
    with pytest.raises(TypeError, match=r"^TestKernels must state samples$"):
        type("TestKernels", (KernelConformance,), {"chip": "none"})


@dataclass(frozen=True)
class Negated(Op):
    """-x."""

    name = "top.Relu"

    def infer(self, operands: Types) -> Types:
        return (operands[0].shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        return [-operands[0]]

    def flops(self, node: Node) -> int:
        return 2 * node.result_type.size


class NegatedConformance(OpConformance):
    op = Negated()
    reference = np.negative
    samples = ((f32(1, 2, 3),),)
    flops = 1


def _too_wide(op: Op, operands: Types) -> Types:
    return (TensorType((4,), F32),)


def test_each_check_fails_on_what_it_is_about() -> None:
    case = NegatedConformance()
    case.test_evaluate_equals_the_reference()
    with pytest.raises(AssertionError, match=r"flops of Negated\(\): \[6\], the formula says \[3\]"):
        case.test_flops_are_those_of_the_formula()
    with pytest.raises(AssertionError, match=r"^top\.Relu is tpuc_ops\.top\.relu\.Relu"):
        case.test_the_dialect_has_it_under_its_name()
    unknown = type("Unknown", (Negated,), {"name": "nobody.Negated", "__doc__": "-x."})
    with pytest.raises(
        AssertionError, match=r"^no installed dialect has nobody\.Negated; add it to the package's `Dia"
    ):
        type("Other", (NegatedConformance,), {"op": unknown()})().test_the_dialect_has_it_under_its_name()
    wide = type("Wide", (Negated,), {"infer": _too_wide, "__doc__": "-x."})
    with pytest.raises(AssertionError, match="sample 0 of Wide"):
        type("Other", (NegatedConformance,), {"op": wide()})().test_infer_agrees_with_evaluate()
    other = type("Other", (NegatedConformance,), {"reference": np.abs})
    with pytest.raises(AssertionError, match="sample 0 of Negated"):
        other().test_evaluate_equals_the_reference()


def test_one_test_runs_all_checks_and_names_those_that_fail() -> None:
    with pytest.raises(
        FamilyError, match=r"^2 of 7 checks failed: test_flops_are_.*, test_the_dialect_has_it"
    ) as raised:
        NegatedConformance().test_op()
    assert [str(error).split(" ")[0] for error in raised.value.exceptions] == ["flops", "top.Relu"]


class TestOverridden(NegatedConformance):
    """A check that a subclass overrides is a test of its own."""

    def test_op(self) -> None:
        with pytest.raises(FamilyError, match=r"^1 of 6 checks failed: test_the_dialect_has_it_under_its_name( \(|$)"):
            super().test_op()

    def test_flops_are_those_of_the_formula(self) -> None:
        assert self.op.flops(self.node(self.samples[0])) == 6


def test_a_reference_has_the_attributes_that_it_is_given() -> None:
    with pytest.raises(ValueError, match=r"^no version of Relu has all of alpha, beta$"):
        onnx_node("Relu", beta=1.0, alpha=1.0)(np.ones(1, np.float32))
    (result,) = onnx_node("LeakyRelu", alpha=0.5)(np.array([-2.0, 2.0], np.float32))
    np.testing.assert_array_equal(result, np.array([-1.0, 2.0], np.float32))
