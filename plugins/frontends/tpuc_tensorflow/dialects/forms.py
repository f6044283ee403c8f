"""The text form of `tf_executor` ops: operands, attributes, and one type from which the others follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import Block, Form, FormReader, FormWriter, Location, Operation, OpRegion, Part, Type, Value

from tpuc_tensorflow.dialects.types import CONTROL, carries_data, is_control


def operand_list(reader: FormReader) -> list[Value]:
    """Format `%0, %1`, or nothing."""
    values: list[Value] = []
    if reader.sees("%"):
        values.append(reader.defined_value())
        while reader.accept(","):
            values.append(reader.defined_value())
    return values


def stated_types(reader: FormReader) -> list[Type]:
    """Format `: type, type`, or nothing."""
    types: list[Type] = []
    if reader.accept(":"):
        types.append(reader.type())
        while reader.accept(","):
            types.append(reader.type())
    return types


class PlainForm(Form):
    """`tf_executor.Switch %0, %1, %control {attributes} : type`."""

    def read(self, name: str, results: int, reader: FormReader) -> Operation:
        """See Form."""
        operands = self.operands(reader)
        attributes = reader.dictionary() if reader.sees("{") else {}
        start = reader.skip()
        stated = stated_types(reader)
        operation = reader.make(name, operands, (), attributes)
        op: Any = operation.op
        types = op.result_types([value.type for value in operands], stated, results)
        if not types and stated:  # a terminator or a sink: the types are those of its operands
            data = [value.type for value in operands if carries_data(value.type)]
            if [one for one in stated if not is_control(one)] != data:
                reader.fail("the types are not those of the operands", start)
        if results and results != len(types):
            reader.fail(f"{name} has {len(types)} results, and {results} are named", start)
        return Operation(op, _released(operation), types, operation.location, operation.extra_attributes)

    def operands(self, reader: FormReader) -> list[Value]:
        """Parse what follows the name."""
        return operand_list(reader)

    def write(self, operation: Operation, writer: FormWriter) -> Sequence[Part] | None:
        """See Form."""
        op: Any = operation.op
        shown = self.types(operation)
        types = [value.type for value in operation.operands]
        expected = op.result_types(types, shown, len(operation.results))
        if list(expected) != [value.type for value in operation.results]:
            return None
        text = f"{op.name}{self.operands_text(operation, writer)}{writer.attributes(operation)}"
        return [f"{text} : {', '.join(map(writer.type, shown))}" if shown else text]

    def operands_text(self, operation: Operation, writer: FormWriter) -> str:
        """Format what follows the name."""
        texts = ", ".join(map(writer.value, operation.operands))
        return f" {texts}" if texts else ""

    def types(self, operation: Operation) -> list[Type]:
        """Return the types stated in the text: of the first result, or of the operands if there are no results."""
        if operation.results:
            return [value.type for value in operation.results[:1] if not is_control(value.type)]
        return [value.type for value in operation.operands if carries_data(value.type)]


class SinkForm(PlainForm):
    """`tf_executor.NextIteration.Sink[%token] %0 : type`."""

    def operands(self, reader: FormReader) -> list[Value]:
        """See PlainForm."""
        reader.expect("[", " before the token")
        token = reader.defined_value()
        reader.expect("]", " after the token")
        return [token, *operand_list(reader)]

    def operands_text(self, operation: Operation, writer: FormWriter) -> str:
        """See PlainForm."""
        token, *rest = map(writer.value, operation.operands)
        return f"[{token}] {', '.join(rest)}"


class GraphForm(Form):
    """`tf_executor.graph : types { ... }`; the types may be omitted, since the fetch determines them."""

    def read(self, name: str, results: int, reader: FormReader) -> Operation:
        """See Form."""
        start = reader.skip()
        stated = stated_types(reader)
        region = reader.region()
        attributes = reader.dictionary() if reader.accept_word("attributes") else {}
        fetched = [value.type for value in terminator_operands(region, "tf_executor.fetch", reader)]
        data = [type for type in fetched if not is_control(type)]
        if stated and stated != data:
            reader.fail("the types of the graph are not those that it fetches", start)
        return reader.make(name, (), data, attributes, [region])

    def write(self, operation: Operation, writer: FormWriter) -> Sequence[Part] | None:
        """See Form."""
        types = ", ".join(writer.type(value.type) for value in operation.results)
        head = f"{operation.op.name} : {types} {{" if types else f"{operation.op.name} {{"
        attributes = writer.attributes(operation)
        tail = f"}} attributes{attributes}" if attributes else "}"
        return [head, operation.regions[0], tail] if len(operation.regions) == 1 else None


class IslandForm(Form):
    """`tf_executor.island(%control) { ... }`, or `tf_executor.island(%control) wraps OPERATION` for a single
    operation.
    """

    def read(self, name: str, results: int, reader: FormReader) -> Operation:
        """See Form."""
        controls: list[Value] = []
        if reader.accept("("):
            controls = operand_list(reader)
            reader.expect(")", " after the control dependencies")
        if reader.accept_word("wraps"):
            return self._wrapped(name, controls, reader)
        if reader.accept(":"):  # the types, which the region says again
            reader.function_type()
        region = reader.region()
        attributes = reader.dictionary() if reader.accept_word("attributes") else {}
        yielded = terminator_operands(region, "tf_executor.yield", reader)
        return reader.make(name, controls, [*(value.type for value in yielded), CONTROL], attributes, [region])

    def _wrapped(self, name: str, controls: Sequence[Value], reader: FormReader) -> Operation:
        block = Block()
        reader.operation(block)
        inner = block.operations[-1]
        end = reader.make("tf_executor.yield", inner.results, (), {})
        block.append(end)
        types = [*(value.type for value in inner.results), CONTROL]
        island = reader.make(name, controls, types, {}, [OpRegion([block])])
        location = island.location if inner.location == Location() else inner.location
        for operation in (*block.operations, island):
            operation.location = location
        return island

    def write(self, operation: Operation, writer: FormWriter) -> Sequence[Part] | None:
        """See Form."""
        if len(operation.regions) != 1:
            return None
        controls = ", ".join(map(writer.value, operation.operands))
        head = f"{operation.op.name}({controls})" if controls else operation.op.name
        inner = wrapped(operation)
        if inner is not None and not writer.attributes(operation):
            return [f"{head} wraps ", *writer.inline(inner)]
        attributes = writer.attributes(operation)
        return [f"{head} {{", operation.regions[0], f"}} attributes{attributes}" if attributes else "}"]


def wrapped(island: Operation) -> Operation | None:
    """Return the only operation of an island, if all its results are yielded in order and it has the island's name."""
    blocks = island.regions[0].blocks
    operations = blocks[0].operations if blocks else []
    if len(operations) != 2 or list(operations[1].operands) != operations[0].results or operations[0].regions:
        return None
    return operations[0] if all(op.location == island.location for op in operations) else None


def terminator_operands(region: OpRegion, name: str, reader: FormReader) -> Sequence[Value]:
    """Return the operands of the last operation, which must be of the op `name`."""
    operations = region.blocks[0].operations if region.blocks else []
    if not operations or operations[-1].op.name != name:
        reader.fail(f"the region does not end in a {name}")
    return operations[-1].operands


def _released(operation: Operation) -> tuple[Value, ...]:
    """Release and return the operands of an operation that is being replaced."""
    operands = operation.operands
    operation.set_operands(())
    return operands


GRAPH, ISLAND, PLAIN, SINK = GraphForm(), IslandForm(), PlainForm(), SinkForm()
