"""Print modules, functions and operations as MLIR does, with locations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tpuc.ir.attributes import Attribute, StringAttr
from tpuc.ir.builtin import Call, Return
from tpuc.ir.op import Part
from tpuc.ir.operation import UNKNOWN_LOCATION, Block, Function, Location, Module, Operation, Region, Value
from tpuc.ir.slots import AbsentOperand, padding_of
from tpuc.ir.text.fields import attributes_of, op_attributes_text
from tpuc.ir.text.scanner import name_or_quoted, quote
from tpuc.ir.text.writing import dictionary_text, function_type_text, location_text, results_text, type_text
from tpuc.ir.types import FunctionType, Type


def print_type(type: Type) -> str:
    """The text of a type."""
    return type_text(type)


def print_module(module: Module) -> str:
    """The text of a module. Equal modules give equal texts."""
    return _Printer(module).text()


class _LocationTable:
    """Aliases of locations: names first, in order of appearance, then fused locations, which refer to them.

    As in MLIR, locations of arguments are defined before the module and all others after it.
    """

    def __init__(self) -> None:
        self._plain: dict[str, bool] = {}  # text to: is it needed before the module?
        self._fused: dict[tuple[str, ...], bool] = {}
        self._names: dict[str | tuple[str, ...], str] = {}

    def add(self, location: Location, early: bool = False) -> None:
        """Add a location of the module."""
        names = location.names
        if location.text is not None or len(names) < 2:
            text = location_text(location)
            self._plain[text] = early or self._plain.get(text, False)
            return
        self._fused[names] = early or self._fused.get(names, False)
        for name in names:
            text = quote(name)
            self._plain[text] = early or self._plain.get(text, False)

    def number(self) -> None:
        """Assign the aliases; no location may be added afterwards."""
        keys: list[str | tuple[str, ...]] = [*self._plain, *self._fused]
        self._names = {key: f"#loc{number or ''}" for number, key in enumerate(keys)}

    def reference(self, location: Location) -> str:
        """` loc(#loc1)`."""
        names = location.names
        if location.text is not None or len(names) < 2:
            return f" loc({self._names[location_text(location)]})"
        return f" loc({self._names[names]})"

    def definitions(self, early: bool) -> list[str]:
        """The definitions before the module, or those after it."""
        lines = [f"{self._names[text]} = loc({text})" for text, is_early in self._plain.items() if is_early == early]
        for names, is_early in self._fused.items():
            if is_early == early:
                parts = ", ".join([self._names[quote(name)] for name in names])
                lines.append(f"{self._names[names]} = loc(fused[{parts}])")
        return lines


class _Printer:
    """One print. Texts of types and ops are cached by object identity while the module keeps the objects alive."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._lines: list[str] = []
        self._names: dict[Value, str] = {}
        self._absent = ""  # what stands for an absent operand in this function
        self._types: dict[int, str] = {}
        self._attributes: dict[int, str] = {}
        self._references: dict[int, str] = {}
        self._locations = _LocationTable()

    def text(self) -> str:
        """The whole text, with a final newline."""
        self._collect_module(self._module)
        self._locations.number()
        self._print_module(self._module, "")
        early, late = self._locations.definitions(True), self._locations.definitions(False)
        return "\n".join([*early, *self._lines, *late, ""])

    def _collect_module(self, module: Module) -> None:
        self._locations.add(module.location)
        for nested in module.modules:
            self._collect_module(nested)
        for function in module.functions:
            self._locations.add(function.location)
            for argument in function.inputs:
                self._locations.add(argument.location, early=True)
            absent = AbsentOperand.of(function)
            if absent is not None and absent.value is None:
                self._locations.add(UNKNOWN_LOCATION)
            self._collect_operations(function.operations)

    def _collect_operations(self, operations: Iterable[Operation]) -> None:
        add = self._locations.add
        for operation in operations:
            add(operation.location)
            for region in operation.regions:
                for block in region.blocks:
                    for argument in block.arguments:
                        add(argument.location, early=True)
                    self._collect_operations(block.operations)

    def _print_module(self, module: Module, indent: str) -> None:
        name = f" @{name_or_quoted(module.name)}" if module.name else ""
        attributes = f" attributes {dictionary_text(module.attributes.items())}" if module.attributes else ""
        self._lines.append(f"{indent}module{name}{attributes} {{")
        for nested in module.modules:
            self._print_module(nested, indent + "  ")
        for function in module.functions:
            self._print_function(function, indent + "  ")
        self._lines.append(f"{indent}}}{self._locations.reference(module.location)}")

    def _print_function(self, function: Function, indent: str) -> None:
        self._names = {argument: f"%arg{index}" for index, argument in enumerate(function.inputs)}
        attributes = dict(function.attributes)
        visibility = attributes.pop("sym_visibility", None)
        word = f"{visibility.value} " if isinstance(visibility, StringAttr) else ""
        head = f"{indent}func.func {word}@{name_or_quoted(function.name)}({self._arguments(function.body)})"
        if function.type.results:
            head += f" -> {results_text([type_text(type) for type in function.type.results])}"
        if attributes:
            head += f" attributes {dictionary_text(attributes.items())}"
        self._lines.append(head + " {")
        first_value = self._print_absent(function, indent + "  ")
        self._print_block(function.body, indent + "  ", first_value, len(function.inputs))
        self._lines.append(f"{indent}}}{self._locations.reference(function.location)}")

    def _print_absent(self, function: Function, indent: str) -> int:
        """Print an op for absent operands if the function has none; returns the number of the next value."""
        absent = AbsentOperand.of(function)
        if absent is None:
            return 0
        if absent.value is not None:
            self._number(function.body, 0)
            self._absent = self._names[absent.value]
            return 0
        self._absent = "%0"
        self._lines.append(f'{indent}%0 = "{absent.op}"() : () -> none{self._locations.reference(UNKNOWN_LOCATION)}')
        return 1

    def _arguments(self, block: Block) -> str:
        return ", ".join(
            f"{self._names[argument]}: {type_text(argument.type)} loc({location_text(argument.location)})"
            for argument in block.arguments
        )

    def _print_block(self, block: Block, indent: str, next_value: int, next_argument: int) -> None:
        next_value = self._number(block, next_value)
        for operation in block.operations:
            self._print_operation(operation, indent, next_value, next_argument)

    def _number(self, block: Block, next_value: int) -> int:
        """Number the results of a block, in order; nested regions continue from its end, as in MLIR."""
        names = self._names
        for operation in block.operations:
            results = operation.results
            if len(results) + padding_of(operation)[1] == 1:
                names[results[0]] = f"%{next_value}"
            elif not results:
                continue
            else:
                for index, value in enumerate(results):
                    names[value] = f"%{next_value}#{index}"
            next_value += 1
        return next_value

    def _print_operation(self, operation: Operation, indent: str, next_value: int, next_argument: int) -> None:
        names, op = self._names, operation.op
        operands = operation.operands
        more_operands, more_results = padding_of(operation)
        texts = ", ".join(
            [*(names.get(value) or _unknown(value) for value in operands), *[self._absent] * more_operands]
        )
        reference = self._references.get(id(operation.location))
        if reference is None:
            reference = self._references[id(operation.location)] = self._locations.reference(operation.location)
        results = operation.results
        if not results:
            head = indent
        elif len(results) + more_results == 1:
            head = f"{indent}{names[results[0]]} = "
        else:
            head = f"{indent}{names[results[0]].partition('#')[0]}:{len(results) + more_results} = "
        if isinstance(op, Return):
            text = f"return{_dictionary(operation.extra_attributes)}"
            if operands:
                text += f" {texts} : {', '.join([self._type(value.type) for value in operands])}"
        elif isinstance(op, Call):
            extra = _dictionary(operation.extra_attributes)
            text = f"call @{name_or_quoted(op.callee)}({texts}){extra} : {self._signature(operation)}"
        elif op.form is not None and (parts := op.form.write(operation, self)) is not None:
            text = ""
            head = self._print_parts([head, *parts], indent, next_value, next_argument)
        else:
            head += f'"{op.name}"({texts})'
            if operation.regions:
                self._lines.append(head + " ({")
                self._print_regions(operation.regions, indent, next_value, next_argument)
                head = f"{indent}}})"
            text = f"{self._attributes_text(operation)} : {self._signature(operation)}"
        self._lines.append(head + text + reference)

    def _print_parts(self, parts: Sequence[Part], indent: str, next_value: int, next_argument: int) -> str:
        """Print up to the last region; returns the rest of the line."""
        line = ""
        for part in parts:
            if isinstance(part, str):
                line += part
                continue
            self._lines.append(line)
            self._print_regions([part], indent, next_value, next_argument)
            line = indent
        return line

    # What forms write with

    def value(self, value: Value) -> str:
        """`%3`, or `%3#1`."""
        return self._names.get(value) or _unknown(value)

    def type(self, type: Type) -> str:
        """The text of a type."""
        return type_text(type)  # not remembered by object: forms also ask for types that they make up

    def attributes(self, operation: Operation, without: Sequence[str] = ()) -> str:
        """` {...}`, empty when there are no attributes besides the excluded ones."""
        named = {**attributes_of(operation.op), **operation.extra_attributes}
        return _dictionary({name: value for name, value in named.items() if name not in without})

    def inline(self, operation: Operation) -> Sequence[Part]:
        """An operation without results and location, nested in another."""
        form = operation.op.form
        parts = None if form is None else form.write(operation, self)
        if parts is not None:
            return parts
        texts = ", ".join(map(self.value, operation.operands))
        return [f'"{operation.op.name}"({texts}){self._attributes_text(operation)} : {self._signature(operation)}']

    def _print_regions(self, regions: list[Region], indent: str, next_value: int, next_argument: int) -> None:
        for number, region in enumerate(regions):
            if number:
                self._lines.append(f"{indent}}}, {{")
            value, argument = next_value, next_argument
            for block in region.blocks:
                for index, block_argument in enumerate(block.arguments):
                    self._names[block_argument] = f"%arg{argument + index}"
                argument += len(block.arguments)
                value = self._number(block, value)
            for index, block in enumerate(region.blocks):
                if index or block.arguments:
                    arguments = f"({self._arguments(block)})" if block.arguments else ""
                    self._lines.append(f"{indent}^bb{index}{arguments}:")
                for operation in block.operations:
                    self._print_operation(operation, indent + "  ", value, argument)

    def _signature(self, operation: Operation) -> str:
        types: list[str] = []
        remembered = self._types
        for value in operation.operands:
            type = value.type
            types.append(remembered.get(id(type)) or self._type(type))
        more_operands, more_results = padding_of(operation)
        inputs = ", ".join(types + ["none"] * more_operands)
        results = operation.results
        if len(results) + more_results == 1:
            type = results[0].type
            result = remembered.get(id(type)) or self._type(type)
            return f"({inputs}) -> {f'({result})' if isinstance(type, FunctionType) else result}"
        outputs = [self._type(value.type) for value in results] + ["none"] * more_results
        return f"({inputs}) -> {results_text(outputs)}"

    def _type(self, type: Type) -> str:
        text = self._types.get(id(type))
        if text is None:
            text = function_type_text(type) if isinstance(type, FunctionType) else type_text(type)
            self._types[id(type)] = text
        return text

    def _attributes_text(self, operation: Operation) -> str:
        if operation.extra_attributes:
            return op_attributes_text(operation.op, operation.extra_attributes)
        text = self._attributes.get(id(operation.op))
        if text is None:
            text = self._attributes[id(operation.op)] = op_attributes_text(operation.op, {})
        return text


def _dictionary(attributes: dict[str, Attribute]) -> str:
    return f" {dictionary_text(attributes.items())}" if attributes else ""


def _unknown(value: Value) -> str:
    """A placeholder for a value that no block of the function defines; the verifier reports it."""
    return f"%<{value.name or 'unknown'}>"
