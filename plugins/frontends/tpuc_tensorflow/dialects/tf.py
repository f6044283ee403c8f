"""The ops of `tf`, which accepts any name. Attributes are kept as stated; some follow from types."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuc.api import (
    Attribute,
    DialectAttr,
    Form,
    FormReader,
    FormWriter,
    FunctionType,
    IntegerAttr,
    Module,
    Operation,
    Part,
    ScalarType,
    StructuredOp,
    TensorType,
    Type,
    TypeAttr,
    Value,
)
from tpuc_ops.arrays import Array

from tpuc_tensorflow.dialects.types import element_type, is_control

_BARE = re.compile(r"tf\.[A-Za-z_]\w*(\.\w+)*")
_NO_REGION = "its region must have one block"


class TfForm(Form):
    """`tf.Add %0, %1 {attributes} : type` with one type for all operands and results, or `: (types) -> types`.

    A number instead of an operand is a constant of the operand's type.
    """

    def read(self, name: str, results: int, reader: FormReader) -> Operation:
        """See Form."""
        bracketed = reader.accept("(")
        operands: list[Value | int] = []
        while reader.sees("%") or reader.sees("-") or _digit_next(reader):
            operands.append(reader.defined_value() if reader.sees("%") else reader.integer("a number"))
            if not reader.accept(","):
                break
        if bracketed:
            reader.expect(")", " after the operands")
        attributes = reader.dictionary() if reader.sees("{") else {}
        start = reader.skip()
        reader.expect(":", f" before the types of {name}")
        if reader.sees("("):
            signature = reader.function_type()
        else:
            type = reader.type()
            signature = FunctionType((type,) * len(operands), (type,) * max(results, 1))
        if len(signature.inputs) != len(operands):
            reader.fail(f"{len(operands)} operands, and {len(signature.inputs)} types for them", start)
        values = [
            _number(item, wanted, reader) if isinstance(item, int) else item
            for item, wanted in zip(operands, signature.inputs, strict=True)
        ]
        for value, wanted in zip(values, signature.inputs, strict=True):
            if value.type != wanted:
                reader.fail(f"the types of {name} are not those of its operands", start)
        return reader.make(name, values, signature.results, attributes)

    def write(self, operation: Operation, writer: FormWriter) -> Sequence[Part] | None:
        """See Form."""
        if operation.regions or _BARE.fullmatch(operation.op.name) is None:
            return None
        operands = "".join(f"{',' if index else ''} {writer.value(v)}" for index, v in enumerate(operation.operands))
        inputs, results = ([value.type for value in values] for values in (operation.operands, operation.results))
        if inputs and len(results) == 1 and all(type == results[0] for type in inputs):
            types = writer.type(results[0])
        else:
            types = writer.type(FunctionType(tuple(inputs), tuple(results)))
        return [f"{operation.op.name}{operands}{writer.attributes(operation)} : {types}"]


def _digit_next(reader: FormReader) -> bool:
    return any(reader.sees(digit) for digit in "0123456789")


def _number(number: int, type: Type, reader: FormReader) -> Value:
    """Insert a constant before the operation that is being read."""
    element = element_type(type)
    if not isinstance(element, ScalarType) or element.is_float:
        reader.fail("only integers can be written in place of an operand")
    tensor = type if isinstance(type, TensorType) and type.shape == () else TensorType((), element)
    attribute = DialectAttr(f"dense<{number}> : tensor<{element.name}>")
    constant = Operation(definition("Const")(), (), (type if isinstance(type, ScalarType) else tensor,))
    constant.extra_attributes["value"] = attribute
    reader.put_before(constant)
    return constant.result


@dataclass(frozen=True)
class TfOp(StructuredOp):
    """Any TensorFlow operation. Operations that cannot be evaluated can still be read, printed, and moved."""

    form = TfForm()

    def run(self, operation: Operation, values: Mapping[Value, Array], module: Module) -> Sequence[Array]:
        """See StructuredOp."""
        from tpuc_tensorflow.evaluation.blocks import run_operation

        return run_operation(operation, values, module)

    def verify(self, operation: Operation) -> None:
        """Check the ops that have rules; control dependencies belong to the executor."""
        if any(is_control(value.type) for value in (*operation.operands, *operation.results)):
            raise ValueError("it has a control dependency, which only ops of tf_executor have")
        rule = _RULES.get(self.name.removeprefix("tf."))
        if rule is not None:
            rule(operation)


@functools.cache
def definition(name: str) -> type[TfOp]:
    """Return the class of `tf.NAME`."""
    made: type[TfOp] = type("NamedTfOp", (TfOp,), {"name": f"tf.{name}", "__module__": __name__})
    return made


def is_tf(operation: Operation, *names: str) -> bool:
    """True for one of these ops of `tf`."""
    return operation.op.name.startswith("tf.") and operation.op.name.removeprefix("tf.") in names


# Attributes that follow from types

_OF_OPERAND: Mapping[str, int] = {
    **dict.fromkeys(("T", "SrcT", "Tparams", "TI"), 0),
    **dict.fromkeys(("Tindices", "Tidx", "Tdim", "Tperm", "Tshape", "Tpaddings", "Tmultiples", "Index"), 1),
    "Taxis": 2,
}
_OF_RESULT: Mapping[str, int] = {"dtype": 0, "DstT": 0, "out_type": 0, "output_type": 0}


def derived(operation: Operation, name: str) -> Attribute | None:
    """Return an attribute derived from types; None if they do not determine it."""
    if name == "N":
        return IntegerAttr(len(operation.operands))
    for places, values in ((_OF_OPERAND, operation.operands), (_OF_RESULT, operation.results)):
        place = places.get(name)
        if place is not None and place < len(values):
            element = element_type(values[place].type)
            return None if element is None else TypeAttr(element) if isinstance(element, ScalarType) else None
    return None


def attribute(operation: Operation, name: str) -> Attribute | None:
    """Return an attribute, stated or derived."""
    stated = operation.extra_attributes.get(name)
    return derived(operation, name) if stated is None else stated


# Rules


def _block_results(operation: Operation, index: int) -> list[Type]:
    blocks = operation.regions[index].blocks
    if len(blocks) != 1 or not blocks[0].operations or blocks[0].operations[-1].op.name != "tf.Yield":
        raise ValueError(f"{_NO_REGION}, which ends in tf.Yield")
    return [value.type for value in blocks[0].operations[-1].operands]


def _if_region(operation: Operation) -> None:
    if len(operation.regions) != 2 or len(operation.operands) != 1:
        raise ValueError("it takes a condition, and has two regions")
    for index in (0, 1):
        if len(_block_results(operation, index)) != len(operation.results):
            raise ValueError("its regions must yield as many values as it has results")


def _while_region(operation: Operation) -> None:
    if len(operation.regions) != 2:
        raise ValueError("it has two regions, the condition and the body")
    condition, body = (_block_results(operation, index) for index in (0, 1))
    if len(condition) != 1 or element_type(condition[0]) != ScalarType("i1"):
        raise ValueError("its condition yields one bool")
    counts = {len(operation.operands), len(operation.results), len(body)}
    counts |= {len(region.blocks[0].arguments) for region in operation.regions}
    if len(counts) != 1:
        raise ValueError(
            "its operands, region arguments, values yielded by its body, and results must be equal in number"
        )


def _constant(operation: Operation) -> None:
    if operation.operands or len(operation.results) != 1:
        raise ValueError("a constant has no operands and one result")
    if not {"value", "weight"} & operation.extra_attributes.keys():
        raise ValueError("a constant needs the attribute value")


def _same_type(operation: Operation) -> None:
    elements: set[Any] = {element_type(value.type) for value in (*operation.operands, *operation.results)}
    if len(operation.operands) != 2 or len(elements) != 1:
        raise ValueError("it takes two operands of one type, which is that of its result")


_RULES: Mapping[str, Callable[[Operation], None]] = {
    "IfRegion": _if_region,
    "WhileRegion": _while_region,
    "Const": _constant,
    **dict.fromkeys(("Add", "AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum"), _same_type),
}
