"""Walk over a module of `tf`: fold constants, expand control flow, import the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from tpuc.api import (
    Block,
    ForeignNode,
    InvalidModel,
    Module,
    Operation,
    OpRegion,
    Unsupported,
    Value,
)
from tpuc_importing.finding import ImporterFinder
from tpuc_importing.obstacles import place_of, refusal
from tpuc_importing.walking import Walk
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.regions import function_of
from tpuc_tflite.graph import TensorEntry
from tpuc_tflite.lists import Nodes, list_importer, select_lists

from tpuc_tensorflow.dialects.constants import constant_array
from tpuc_tensorflow.evaluation.blocks import run_operation
from tpuc_tensorflow.evaluation.facts import fact, facts
from tpuc_tensorflow.evaluation.kernels import KERNELS
from tpuc_tensorflow.evaluation.storage import dtype_of
from tpuc_tensorflow.importers.building import TensorflowBuilder, kind_of

MOST_STEPS = 1024
"""Maximum number of loop steps; each becomes separate operations."""

MOST_WRITTEN = 1 << 15
"""Maximum number of operations from control flow."""

DEEPEST = 16
"""Maximum nesting of functions and regions."""

_OF_SHAPE = frozenset({"Rank", "Shape", "ShapeN", "Size"})
_OF_EXTENTS: Mapping[str, Callable[..., Array]] = {"OnesLike": np.ones, "ZerosLike": np.zeros}
_NOTHING = frozenset({"Assert", "NoOp", "Print"})
_LISTS_OF_OPEN_LENGTH = (
    "it fills a list of tensors, and the number of its steps depends on the data: export it for sequences of one "
    "length, without lengths or conditions that are computed"
)
_BROKEN = (ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError, MemoryError, AttributeError)

Names = dict[Value, str]
"""Maps values of the current block to tensors."""


class GraphWalk(Walk[TensorflowBuilder]):
    """The walk over `main`, and over blocks that control flow expands."""

    contradictions = (*Walk.contradictions, AssertionError, MemoryError)

    def __init__(self, build: TensorflowBuilder, module: Module, find: ImporterFinder) -> None:
        super().__init__(build, find)
        self._module = module
        self._written = 0
        self._depth = 0
        self._steps: list[tuple[Sequence[str], Sequence[str]]] = []

    def run(self, inputs: Sequence[str]) -> list[str]:
        """Return the tensors that `main` returns; raises ImportRefused with everything that cannot be imported."""
        main = self._module.main
        names = dict(zip(main.inputs, inputs, strict=True))
        returned = self._block(main.body, names, "")
        outputs = [name for name in returned if name]
        self.obstacles.tell(self._steps, outputs, self._is_computed)
        return returned

    def contradiction(self, error: Exception) -> str:
        """See Walk."""
        reason = str(error).rstrip(".")
        return f"its operands and attributes contradict each other ({reason}). Export the network again."

    def contradicted(self, node: ForeignNode, error: Exception) -> InvalidModel:
        """See Walk: the error names the TensorFlow node."""
        return InvalidModel(f"{place_of(self.build.origin or node)}: {self.contradiction(error)}")

    def _is_computed(self, name: str) -> bool:
        return self.build.is_known(name) and name not in self.build.constants and name not in self.build.lists

    # Blocks

    def _block(self, block: Block, names: Names, prefix: str) -> list[str]:
        """Import a block whose captured values and arguments have names; returns those of its terminator's operands."""
        known = dict(names)
        *operations, last = block.operations
        for operation in operations:
            outputs = self._declare(operation, prefix)
            known.update(zip(operation.results, outputs, strict=True))
            self._step(operation, tuple(known[value] for value in operation.operands), outputs, known)
            self._written += bool(prefix)
            if self._written > MOST_WRITTEN:
                raise InvalidModel(
                    f"{self.build.source.path}: unrolled, its control flow has more than {MOST_WRITTEN} operations. "
                    "Export it with fewer steps."
                )
        return [known[value] for value in last.operands]

    def _declare(self, operation: Operation, prefix: str) -> tuple[str, ...]:
        """Declare the names of an operation's results: TensorFlow's, unless they are taken."""
        made: list[str] = []
        for index, value in enumerate(operation.results):
            names = operation.location.names
            own = names[index] if len(names) > 1 and index < len(names) else (names[0] if names else operation.op.name)
            plain = own if index == 0 or len(names) > 1 else f"{own}:{index}"
            name = self.build.fresh(f"{prefix}{plain}")
            self.build.declare(TensorEntry(name, kind_of(dtype_of(value.type)), (), (), None))
            made.append(name)
        return tuple(made)

    def _step(self, operation: Operation, inputs: tuple[str, ...], outputs: tuple[str, ...], names: Names) -> None:
        kind = operation.op.name.removeprefix("tf.")
        node = self._node(operation, kind, inputs, outputs)
        self.build.origin = self.build.node = node
        self._steps.append((inputs, outputs))
        lost = self.obstacles.concern(inputs)
        try:
            if not lost and self._folded(operation, node):
                return
            control = _CONTROL.get(kind)
            if control is not None and not lost:
                control(self, operation, node, names)
                return
            listing = list_importer(kind, node, self.build)
            if listing is not None and not lost:
                self._import_all(listing(node, self.build))
                return
            if kind in _NOTHING:
                return
            importer = self.importer(kind, node.name, inputs, outputs)
            if importer is not None:
                for name, made in zip(outputs, self.results(node, importer), strict=False):
                    self.build.accept(name, made)
                self._lose_missing(outputs)
        except Unsupported as error:
            self.obstacles.note(error, outputs)
        except self.contradictions as error:
            raise self.contradicted(node, error) from error

    def _import_all(self, nodes: Nodes) -> None:
        """Import operators of TFLite one at a time."""
        for node in nodes:
            made = self.build.through(node.op_type, node, attributes=node.attributes)
            results = made if isinstance(made, Sequence) else (made,)
            for name, result in zip(node.outputs, results, strict=True):
                self.build.accept(name, result)
            self._written += 1

    def _lose_missing(self, outputs: Sequence[str]) -> None:
        """Mark results that only training needs as lost, so that their readers are reported."""
        self.obstacles.lost.update(name for name in outputs if not self.build.is_known(name))

    def _node(self, operation: Operation, kind: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> ForeignNode:
        return ForeignNode(
            kind,
            operation.name or (outputs[0] if outputs else kind),
            inputs,
            outputs,
            facts(operation) if kind != "Const" else {},
            source=self.build.source.path,
        )

    # Constants

    def _folded(self, operation: Operation, node: ForeignNode) -> bool:
        """Record the results of an operation that are known at compile time."""
        arrays = self._known_results(operation, node)
        if arrays is None:
            return False
        if len(arrays) != len(node.outputs):
            raise ValueError(f"it computes {len(arrays)} results, but states {len(node.outputs)}")
        for name, value, array in zip(node.outputs, operation.results, arrays, strict=True):
            dtype = dtype_of(value.type)
            stored = np.asarray(array) if dtype is None else np.asarray(array, dtype)
            self.build.declare(TensorEntry(name, kind_of(stored.dtype), stored.shape, stored.shape, None, stored))
        return True

    def _known_results(self, operation: Operation, node: ForeignNode) -> Sequence[Array] | None:
        array = constant_array(operation, self._module)
        if array is not None:
            return [array]
        constants = [self.build.constant(name) for name in node.inputs]
        if node.op_type in _OF_SHAPE and all(map(self.build.is_known, node.inputs)):
            known = [np.broadcast_to(np.float32(0), self.build.shape(name)) for name in node.inputs]
        elif node.op_type in _OF_EXTENTS and self.build.is_known(node.inputs[0]):
            return [_OF_EXTENTS[node.op_type](self.build.shape(node.inputs[0]), dtype_of(operation.results[0].type))]
        elif node.op_type in KERNELS and all(array is not None for array in constants) and operation.results:
            known = [array for array in constants if array is not None]
        else:
            return None
        try:
            return run_operation(operation, dict(zip(operation.operands, known, strict=True)), self._module)
        except _BROKEN as error:
            raise InvalidModel(
                f"{place_of(node)}: its operands are constants, but it cannot be computed: "
                f"{str(error).rstrip('.')}. Export the network again."
            ) from error

    # Control flow

    def _inside(self, node: ForeignNode, block: Block, names: Names, prefix: str) -> list[str]:
        self._depth += 1
        if self._depth > DEEPEST:
            raise refusal(node, f"its functions and regions are nested more than {DEEPEST} deep")
        made = self._block(block, names, prefix)
        self._depth -= 1
        return made

    def _function(self, node: ForeignNode, name: str, operands: Sequence[str], prefix: str) -> list[str]:
        try:
            function = function_of(self._module, name)
        except ValueError as error:
            raise refusal(node, str(error)) from error
        if len(operands) != len(function.inputs):
            raise refusal(node, f"function '{name}' takes {len(function.inputs)} operands, not {len(operands)}")
        return self._inside(node, function.body, dict(zip(function.inputs, operands, strict=True)), prefix)

    def _hand_over(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Make what is known under one name known under another one."""
        for source, target in zip(sources, targets, strict=False):
            if self.obstacles.concern((source,)):
                self.obstacles.lost.add(target)
            elif self.build.is_known(source):
                self.build.alias(source, target)

    def call(self, operation: Operation, node: ForeignNode, names: Names) -> None:
        """Inline a function at its call."""
        results = self._function(node, fact(operation, "f", ""), node.inputs, f"{node.name}/")
        self._hand_over(results, node.outputs)

    def branch(self, operation: Operation, node: ForeignNode, names: Names) -> None:
        """Import the chosen branch, or both and a selection if the condition is computed."""

        def way(side: bool, prefix: str) -> list[str]:
            if operation.regions:
                return self._inside(node, operation.regions[0 if side else 1].blocks[0], names, prefix)
            name = fact(operation, "then_branch" if side else "else_branch", "")
            return self._function(node, name, node.inputs[1:], prefix)

        condition = self.build.constant(node.inputs[0])
        if condition is not None:
            self._hand_over(way(bool(np.all(condition)), f"{node.name}/"), node.outputs)
            return
        both = [way(True, f"{node.name}/then/"), way(False, f"{node.name}/else/")]
        self.build.origin = node
        for name, taken, other in zip(node.outputs, *both, strict=False):
            if self.obstacles.concern((taken, other)):
                self.obstacles.lost.add(name)
                continue
            if taken in self.build.lists or other in self.build.lists:
                self._import_all(select_lists(node, self.build, name, taken, other))
                continue
            if self.build.shape(taken) != self.build.shape(other):
                raise refusal(node, f"its branches give '{name}' different shapes, and the choice depends on the data")
            chosen = ForeignNode("SelectV2", node.name, (node.inputs[0], taken, other), (name,), {}, source=node.source)
            self.build.accept(name, self.build.through("SELECT_V2", chosen))  # pyright: ignore[reportArgumentType]

    def loop(self, operation: Operation, node: ForeignNode, names: Names) -> None:
        """Unroll a loop, or build a loop of TOP if its end depends on the data."""
        carried: Sequence[str] = node.inputs
        for step in range(MOST_STEPS + 1):
            prefix = f"{node.name}/step{step}/"
            going = self._part(operation, node, names, 0, carried, f"{prefix}going/")
            condition = self.build.constant(going[0])
            if condition is None:
                self._loop_of_top(operation, node, names, carried)
                return
            if not np.all(condition):
                self._hand_over(carried, node.outputs)
                return
            if step == MOST_STEPS:
                raise refusal(node, f"it runs more than {MOST_STEPS} steps, too many to unroll")
            carried = self._part(operation, node, names, 1, carried, prefix)

    def _loop_of_top(self, operation: Operation, node: ForeignNode, names: Names, carried: Sequence[str]) -> None:
        """Build a `top.While`, whose regions are imported like other blocks."""
        build = self.build
        if self.obstacles.concern(carried):
            self.obstacles.lost.update(node.outputs)
            return
        if not build.lists.keys().isdisjoint(carried):
            raise refusal(node, _LISTS_OF_OPEN_LENGTH)
        starts = [build.value(name) for name in carried]
        regions: list[OpRegion] = []
        for index, part in enumerate(("going", "body")):
            with build.inside([value.tensor for value in starts]) as block:
                inner = self._arguments(block, carried, f"{node.name}/{part}/")
                made = self._part(operation, node, names, index, inner, f"{node.name}/{part}/")
                if self.obstacles.concern(made):
                    self.obstacles.lost.update(node.outputs)
                    return
                self.build.origin = node
                results = [build.value(name) for name in made]
                if index and [value.tensor.dims for value in results] != [value.tensor.dims for value in starts]:
                    raise refusal(
                        node, "a carried value changes its shape, and the number of steps depends on the data"
                    )
                block.append(Operation(top.Yield(), results))
                regions.append(OpRegion([block]))
        values = build.build_all(top.While(), starts, node.outputs)
        loop = values[0].defining
        assert loop is not None
        for region in regions:
            region.parent = loop
            loop.regions.append(region)
        for name, value in zip(node.outputs, values, strict=True):
            build.accept(name, value)

    def _arguments(self, block: Block, carried: Sequence[str], prefix: str) -> list[str]:
        made: list[str] = []
        for index, (value, source) in enumerate(zip(block.arguments, carried, strict=True)):
            name = self.build.fresh(f"{prefix}carried{index}")
            self.build.declare(TensorEntry(name, self.build.entry(source).kind, (), (), None))
            self.build.accept(name, value)
            made.append(name)
        return made

    def _part(
        self, operation: Operation, node: ForeignNode, names: Names, index: int, carried: Sequence[str], prefix: str
    ) -> list[str]:
        """Import the condition (0) or the body (1) of a loop for the carried values."""
        if not operation.regions:
            return self._function(node, fact(operation, ("cond", "body")[index], ""), carried, prefix)
        block = operation.regions[index].blocks[0]
        return self._inside(node, block, {**names, **dict(zip(block.arguments, carried, strict=True))}, prefix)


_CONTROL: Mapping[str, Callable[[GraphWalk, Operation, ForeignNode, Names], None]] = {
    **dict.fromkeys(("PartitionedCall", "StatefulPartitionedCall"), GraphWalk.call),
    **dict.fromkeys(("If", "IfRegion", "StatelessIf"), GraphWalk.branch),
    **dict.fromkeys(("StatelessWhile", "While", "WhileRegion"), GraphWalk.loop),
}

WRITTEN_OUT = frozenset(_CONTROL)
"""Operators of functional control flow, which have no importers."""
