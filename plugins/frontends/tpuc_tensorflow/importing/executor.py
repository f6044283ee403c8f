"""Turn a file's graph into a module: every node in a `tf_executor.graph`, library functions as functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tpuc.api import (
    DYNAMIC,
    ArrayAttr,
    Attribute,
    Block,
    BoolAttr,
    Function,
    FunctionType,
    IntegerAttr,
    InvalidModel,
    Location,
    Module,
    Op,
    Operation,
    OpRegion,
    Return,
    ScalarType,
    StringAttr,
    SymbolAttr,
    TensorType,
    Type,
    Value,
)

from tpuc_tensorflow.dialects import executor as ex
from tpuc_tensorflow.dialects.constants import constant
from tpuc_tensorflow.dialects.tf import definition, derived
from tpuc_tensorflow.dialects.types import CONTROL, TOKEN, data_operands, unranked
from tpuc_tensorflow.importing.signatures import OUTPUT_NAMES, element_of_attribute, result_elements
from tpuc_tensorflow.loading.graphs import Graph, GraphFunction, GraphNode

PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2", "_Arg"})
MAIN = "main"


def module_of(graph: Graph, outputs: Sequence[str], inputs: Sequence[str]) -> Module:
    """Return the module whose `main` takes these inputs and returns these tensors."""
    module = Module("network", {})
    builder = _Builder(graph.source, {node.name: node for node in graph.nodes}, graph.functions, module)
    arguments = [builder.node(_node_name(name)) for name in inputs]
    types = [placeholder_type(node) for node in arguments]
    main = builder.function(MAIN, [(node.name, type) for node, type in zip(arguments, types, strict=True)], outputs)
    module.functions.append(main)
    called = [name for name in _called(graph, module) if name != MAIN]
    for name in called:
        function = graph.functions[name]
        inner = _Builder(graph.source, {node.name: node for node in function.nodes}, graph.functions, module)
        named = [(argument, unranked(element)) for argument, element in function.arguments]
        module.functions.append(inner.function(name, named, [tensor for _, tensor in function.results]))
    return module


def placeholder_type(node: GraphNode) -> TensorType:
    """Return the type that a placeholder states."""
    element = element_of_attribute(node.attributes.get("dtype", IntegerAttr(0)))
    shape = node.attributes.get("shape")
    if not isinstance(shape, ArrayAttr):
        return unranked(element)
    extents = tuple(item.value for item in shape.items if isinstance(item, IntegerAttr))
    return TensorType(tuple(extent if extent >= 0 else DYNAMIC for extent in extents), element)


def _called(graph: Graph, module: Module) -> list[str]:
    """Return the functions that `main` needs, directly or indirectly."""
    found: dict[str, None] = {}
    waiting = [name for operation in module.walk() for name in _symbols(operation.extra_attributes.values())]
    while waiting:
        name = waiting.pop(0)
        if name in found or name not in graph.functions:
            continue
        found[name] = None
        for node in graph.functions[name].nodes:
            waiting += [*_symbols(node.attributes.values()), *((node.op,) if node.op in graph.functions else ())]
    return list(found)


def _symbols(attributes: Iterable[Attribute]) -> list[str]:
    names: list[str] = []
    for attribute in attributes:
        if isinstance(attribute, SymbolAttr):
            names.append(attribute.name)
        elif isinstance(attribute, ArrayAttr):
            names += _symbols(attribute.items)
    return names


class _Builder:
    """Builds one graph, or the body of a function."""

    def __init__(
        self, source: str, nodes: Mapping[str, GraphNode], functions: Mapping[str, GraphFunction], module: Module
    ) -> None:
        self._source = source
        self._nodes = nodes
        self._functions = functions
        self._module = module
        self._block = Block()
        self._values: dict[str, list[Value]] = {}
        self._controls: dict[str, Value] = {}
        self._referred: dict[str, int] = {}
        self._sources: dict[str, Operation] = {}

    def node(self, name: str) -> GraphNode:
        """Return a node by name."""
        node = self._nodes.get(name)
        if node is None:
            raise InvalidModel(f"{self._source}: there is no node '{name}'. Choose nodes that the graph has.")
        return node

    def function(self, name: str, arguments: Sequence[tuple[str, TensorType]], outputs: Sequence[str]) -> Function:
        """Return a function with one graph that fetches these tensors."""
        body = Block([type for _, type in arguments])
        for value, (argument, _) in zip(body.arguments, arguments, strict=True):
            value.location = Location((argument,))
            self._values[argument] = [value]
        order = self._in_order(outputs)
        for node in order:
            if node.op in ("NextIteration", "RefNextIteration"):
                self._source_of(node)
        for node in order:
            self._add(node)
        for node in order:
            if node.op in ("NextIteration", "RefNextIteration"):
                token = self._sources[node.name].results[1]
                data = self._data(node)
                self._check_count(node, data)
                operands = [token, data[0], *self._control_operands(node)]
                self._block.append(Operation(ex.Sink(), operands, (), Location((node.name,))))
        fetched = [self._value(tensor) for tensor in outputs]
        self._block.append(Operation(ex.Fetch(), fetched))
        graph = Operation(ex.Graph(), (), [v.type for v in data_operands(fetched)], regions=[OpRegion([self._block])])
        body.append(graph)
        body.append(Operation(Return(), graph.results))
        made = Function(name, FunctionType((), ()), body)
        made.update_type()
        return made

    # Order

    def _in_order(self, outputs: Sequence[str]) -> list[GraphNode]:
        """Return the nodes that the outputs need, operands first; edges into the next loop step do not count."""
        order: list[GraphNode] = []
        state: dict[str, bool] = {}
        back: list[str] = []
        for root in [_node_name(tensor) for tensor in outputs]:
            self._visit(root, state, order, back)
        while back:
            self._visit(back.pop(0), state, order, back)
        return order

    def _visit(self, root: str, state: dict[str, bool], order: list[GraphNode], back: list[str]) -> None:
        """Depth-first search without recursion; `state` is False while a node is being visited."""
        stack: list[tuple[str, bool]] = [(root, False)]
        while stack:
            name, is_done = stack.pop()
            if is_done:
                state[name] = True
                order.append(self._nodes[name])
                continue
            if (name in self._values and name not in state) or state.get(name):
                continue
            if name in state:
                raise InvalidModel(f"{self._source}: node '{name}' depends on itself. Export the network again.")
            node = self.node(name)
            state[name] = False
            stack.append((name, True))
            operands = [*map(_node_name, node.inputs), *node.controls]
            for tensor in node.inputs:
                self._note_reference(tensor)
            if node.op in ("NextIteration", "RefNextIteration"):
                back += operands
                continue
            stack += [(operand, False) for operand in reversed(operands) if not state.get(operand)]

    def _note_reference(self, tensor: str) -> None:
        name = _node_name(tensor)
        self._referred[name] = max(self._referred.get(name, 0), self._index(tensor))

    # Nodes

    def _source_of(self, node: GraphNode) -> None:
        type = unranked(result_elements(node)[0])
        operation = Operation(ex.Source(), (), [type, TOKEN], Location((node.name,)))
        self._sources[node.name] = self._block.append(operation)
        self._values[node.name] = [operation.results[0]]

    def _add(self, node: GraphNode) -> None:
        if node.op in ("NextIteration", "RefNextIteration") or node.name in self._values:
            return
        operands, controls = self._data(node), self._control_operands(node)
        plain = _EXECUTOR.get(node.op.removeprefix("Ref"))
        if plain is not None:
            self._executor(node, plain, operands, controls)
        elif node.op == "ControlTrigger":
            self._note(node, self._append(ex.ControlTrigger(), controls, [CONTROL], node))
        else:
            self._island(node, operands, controls)

    def _executor(self, node: GraphNode, kind: type[Op], operands: list[Value], controls: list[Value]) -> None:
        self._check_count(node, operands)
        type = operands[0].type
        match node.op.removeprefix("Ref"):
            case "Switch":
                data, predicate = operands
                operation = self._append(ex.Switch(), [predicate, data, *controls], [type, type, CONTROL], node)
                true, false, control = operation.results
                self._values[node.name], self._controls[node.name] = [false, true], control
                return
            case "_SwitchN":
                count = node.attributes.get("num_outs")
                outputs = count.value if isinstance(count, IntegerAttr) else 0
                types = [*((type,) * outputs), CONTROL]
                operation = self._append(ex.SwitchN(num_outs=outputs), [*operands, *controls], types, node)
            case "Merge":
                index = [unranked(ScalarType("i32"))] if self._referred.get(node.name, 0) else []
                operation = self._append(ex.Merge(), [*operands, *controls], [type, *index, CONTROL], node)
            case "Enter":
                operation = self._append(_enter(node), [*operands, *controls], [type, CONTROL], node)
            case _:
                operation = self._append(kind(), [*operands, *controls], [type, CONTROL], node)
        self._note(node, operation)

    def _check_count(self, node: GraphNode, operands: Sequence[Value]) -> None:
        kind = node.op.removeprefix("Ref")
        wanted = {"Switch": 2, "_SwitchN": 2}.get(kind, 1)
        if len(operands) != wanted and not (kind == "Merge" and operands):
            raise InvalidModel(
                f"{self._source}: node '{node.name}' ({node.op}) has {len(operands)} operands, and needs {wanted}. "
                "Export the network again."
            )

    def _append(self, op: Op, operands: Sequence[Value], types: Sequence[Type], node: GraphNode) -> Operation:
        return self._block.append(Operation(op, operands, types, Location((node.name,))))

    def _note(self, node: GraphNode, operation: Operation) -> None:
        *values, control = operation.results
        self._values[node.name], self._controls[node.name] = values, control

    def _island(self, node: GraphNode, operands: list[Value], controls: list[Value]) -> None:
        inner = self._inner(node, operands)
        block = Block()
        block.append(inner)
        location = Location((node.name,))
        inner.location = location
        block.append(Operation(ex.Yield(), inner.results, (), location))
        types = [*(value.type for value in inner.results), CONTROL]
        island = Operation(ex.Island(), controls, types, location, regions=[OpRegion([block])])
        self._note(node, self._block.append(island))

    def _inner(self, node: GraphNode, operands: list[Value]) -> Operation:
        if node.op == "Const" and node.array is not None:
            return constant(node.array, self._module, node.name)
        if node.op == "Const":
            raise InvalidModel(f"{self._source}: node '{node.name}' (Const) has no value. Export the network again.")
        elements = result_elements(node)
        missing = self._referred.get(node.name, 0) + 1 - len(elements)
        elements += [elements[-1]] * missing if elements and missing > 0 else []
        attributes = dict(node.attributes)
        name = node.op
        if name in self._functions:
            name, attributes = "PartitionedCall", {"f": SymbolAttr(node.op)}
            elements = [element_of_attribute(IntegerAttr(0))] * len(self._functions[node.op].results)
        operation = Operation(definition(name)(), operands, [unranked(element) for element in elements])
        kept = {key: value for key, value in attributes.items() if derived(operation, key) != value}
        operation.extra_attributes.update(kept)
        return operation

    # Operands

    def _data(self, node: GraphNode) -> list[Value]:
        return [self._value(tensor) for tensor in node.inputs]

    def _control_operands(self, node: GraphNode) -> list[Value]:
        return [self._controls[name] for name in dict.fromkeys(node.controls) if name in self._controls]

    def _value(self, tensor: str) -> Value:
        name, index = _node_name(tensor), self._index(tensor)
        values = self._values.get(name, ())
        if index >= len(values):
            raise InvalidModel(f"{self._source}: there is no tensor '{tensor}'. Export the network again.")
        return values[index]

    def _index(self, tensor: str) -> int:
        """Parse `node` and `node:1` in graphs, `node:output:1` in functions."""
        parts = tensor.split(":")
        if len(parts) == 1:
            return 0
        number = int(parts[-1]) if parts[-1].isdigit() else 0
        if len(parts) == 2:
            return number
        node = self._nodes.get(parts[0])
        if node is None:
            return number
        function = self._functions.get(node.op)
        names = OUTPUT_NAMES.get(node.op, ()) if function is None else [name for name, _ in function.results]
        return (names.index(parts[1]) if parts[1] in names else 0) + number


def _enter(node: GraphNode) -> ex.Enter:
    frame, constant_, parallel = (
        node.attributes.get(name) for name in ("frame_name", "is_constant", "parallel_iterations")
    )
    return ex.Enter(
        frame_name=frame.value if isinstance(frame, StringAttr) else "",
        is_constant=isinstance(constant_, BoolAttr) and constant_.value,
        parallel_iterations=parallel.value if isinstance(parallel, IntegerAttr) else 10,
    )


def _node_name(tensor: str) -> str:
    return tensor.partition(":")[0]


_EXECUTOR: Mapping[str, type[Op]] = {
    "Enter": ex.Enter,
    "Exit": ex.Exit,
    "LoopCond": ex.LoopCond,
    "Merge": ex.Merge,
    "Switch": ex.Switch,
    "_SwitchN": ex.SwitchN,
}
