"""The rules for every module: SSA, use lists, parents, names, types, weights."""

from __future__ import annotations

from typing import NoReturn

from tpuc.errors import VerifyError
from tpuc.ir.builtin import Call, Return
from tpuc.ir.dtypes import as_stored, shown
from tpuc.ir.op import ABSENT
from tpuc.ir.operation import MODULE_RULES, Block, Function, Module, Operation, Region, Value
from tpuc.ir.traits import Constant
from tpuc.ir.types import DYNAMIC, ElementType, ScalarType, TensorType


def verify_module(module: Module) -> None:
    """Check every rule; raises VerifyError for the first violation."""
    for nested in module.modules:
        verify_module(nested)
    functions: dict[str, Function] = {}
    for function in module.functions:
        if function.name in functions:
            raise VerifyError(f"function '{function.name}' is there twice; rename one")
        functions[function.name] = function
    for function in module.functions:
        _FunctionVerifier(module, functions, function).verify()


class _FunctionVerifier:
    """Verifies one function. `_defined` holds the values that dominate the current operation."""

    def __init__(self, module: Module, functions: dict[str, Function], function: Function) -> None:
        self._module = module
        self._functions = functions
        self._function = function
        self._defined: set[Value] = set()
        self._names: dict[str, Operation] = {}
        self._check_weights = module.weights.is_loaded

    def verify(self) -> None:
        """Check the function."""
        function = self._function
        region = function.body.parent
        if region is None or region.parent is not function:
            raise VerifyError(f"function '{function.name}': its body has another parent; build the function anew")
        if not function.operations or not isinstance(function.terminator.op, Return):
            raise VerifyError(f"function '{function.name}' does not end in a return; add one")
        self._block(function.body, region)
        self._signature()
        for operation in function.operations:
            self._unique_names(operation)

    def _signature(self) -> None:
        function = self._function
        if function.type.inputs != tuple(argument.type for argument in function.inputs):
            raise VerifyError(f"function '{function.name}': argument types differ from its type; call update_type")
        if function.type.results != tuple(value.type for value in function.outputs):
            raise VerifyError(f"function '{function.name}': returned types differ from its type; call update_type")

    def _block(self, block: Block, region: Region) -> None:
        if block.parent is not region:
            raise VerifyError(f"function '{self._function.name}': a block has another parent; move it properly")
        self._define(block.arguments, f"argument of function '{self._function.name}'")
        last = len(block.operations) - 1
        for position, operation in enumerate(block.operations):
            if operation.block is not block:
                fail(operation, "it stands in a block that does not know it", "insert it through the block")
            if isinstance(operation.op, Return) and (position != last or region.parent is not self._function):
                fail(operation, "a return stands inside the function", "move it to the end")
            self._operation(operation)

    def _operation(self, operation: Operation) -> None:
        for index, value in enumerate(operation.operands):
            if value not in self._defined:
                what = f"operand {index} ('{value.name}') is not computed before it"
                fail(operation, what, "move one of the two")
            if (operation, index) not in value.uses:
                fail(operation, f"operand {index} does not list it as a user", "set operands with set_operand")
        for region in operation.regions:
            self._region(operation, region)
        self._define(operation.results, operation)
        self._types(operation)
        try:
            operation.op.verify(operation)
        except ValueError as error:
            fail(operation, str(error), "correct it where the module is made")
        if isinstance(operation.op, Call):
            self._call(operation, operation.op)
        if isinstance(operation.op, Constant):
            if len(operation.results) != 1 or not isinstance(operation.result.type, TensorType):
                fail(operation, "a constant gives one tensor", "correct its declared type")
            if self._check_weights:
                self._weight(operation)

    def _region(self, operation: Operation, region: Region) -> None:
        if region.parent is not operation:
            fail(operation, "a region of it has another parent", "move regions with their operation")
        outside = set(self._defined)
        for block in region.blocks:
            self._block(block, region)
        self._defined = outside

    def _define(self, values: list[Value], owner: Operation | str) -> None:
        for value in values:
            for user, index in value.uses:
                if user.block is None or index >= len(user.operands) or user.operands[index] is not value:
                    what = f"'{value.name}' lists a user that does not use it: '{user.name}' ({user.op.name})"
                    if isinstance(owner, str):
                        raise VerifyError(f"{owner}: {what}; erase operations with erase")
                    fail(owner, what, "erase operations with erase")
            self._defined.add(value)

    def _unique_names(self, operation: Operation) -> None:
        """Check that the function's value names are unique; inside a group the stages of one value share its name."""
        for value in operation.results:
            name = value.name
            if not name:
                continue
            other = self._names.setdefault(name, operation)
            shared = isinstance(other.op, Constant) and isinstance(operation.op, Constant)
            if other is not operation and not shared:
                fail(operation, f"its name is also that of a {other.op.name}", "rename one of the two")

    def _types(self, operation: Operation) -> None:
        """Check the op's own rule, where it has one and shapes are static."""
        operand_types = tuple(v.type if isinstance(v.type, TensorType) else ABSENT for v in operation.operands)
        if any(type.shape is None or DYNAMIC in type.shape for type in operand_types):
            return
        try:
            inferred = operation.op.infer(operand_types)
        except ValueError as error:
            fail(operation, str(error), "correct its operands or attributes")
        except (TypeError, LookupError, ArithmeticError, AttributeError) as error:
            what = f"its types cannot be inferred ({type(error).__name__}: {error})"
            fail(operation, what, "correct its operands or attributes")
        if inferred is None:
            return
        if len(inferred) != len(operation.results):
            fail(operation, f"it has {len(operation.results)} results, not {len(inferred)}", "build it anew")
        for value, expected in zip(operation.results, inferred, strict=True):
            _agree(operation, value, expected)

    def _call(self, operation: Operation, op: Call) -> None:
        callee = self._functions.get(op.callee)
        if callee is None:
            fail(operation, f"there is no function '{op.callee}'", "add it to the module")
        inputs = tuple(value.type for value in operation.operands)
        results = tuple(value.type for value in operation.results)
        if (inputs, results) != (callee.type.inputs, callee.type.results):
            fail(operation, f"its types are not those of function '{op.callee}'", "make them equal")

    def _weight(self, operation: Operation) -> None:
        type = operation.result.type
        if not isinstance(type, TensorType):
            return
        if operation.name not in self._module.weights:
            fail(operation, "its weight is missing", "set it in the weights of the module")
        try:
            as_stored(self._module.weights[operation.name], type)
        except ValueError as error:
            fail(operation, str(error), "store the array that belongs to the type")


def fail(operation: Operation, reason: str, way_out: str) -> NoReturn:
    """Raise the error about one operation."""
    raise VerifyError(f"op '{operation.name}' ({operation.op.name}): {reason}; {way_out}")


def _agree(operation: Operation, value: Value, expected: TensorType) -> None:
    """True if shape and element family match; a quantized type is compared by its expressed type."""
    declared = value.type
    if not isinstance(declared, TensorType):
        fail(operation, f"result {value.index} must be a tensor", "declare its type as one")
    if declared.shape is None:
        return
    same_rank = expected.shape is not None and len(expected.shape) == len(declared.shape)
    if not same_rank or any(
        d != e and DYNAMIC not in (d, e) for d, e in zip(declared.shape, expected.shape or (), strict=True)
    ):
        reason = f"result {value.index} is declared {shown(declared.shape)}, but is {shown(expected.shape)}"
        fail(operation, reason, "correct the declared type")
    family, needed = _family(declared.shape_only().element), _family(expected.shape_only().element)
    if family != needed:
        reason = f"result {value.index} is declared with {family} elements, but has {needed} ones"
        fail(operation, reason, "correct the declared type")


def _family(element: ElementType) -> str:
    if isinstance(element, ScalarType):
        return "float" if element.is_float else "integer"
    return "foreign"


MODULE_RULES.append(verify_module)
