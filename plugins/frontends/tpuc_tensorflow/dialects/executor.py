"""The ops of `tf_executor`: graphs whose values may be dead, islands of plain computation, and control flow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuc.api import I64, Bool, Module, Operation, ScalarType, Str, StructuredOp, TensorType, Type, Value
from tpuc_ops.arrays import Array

from tpuc_tensorflow.dialects.forms import GRAPH, ISLAND, PLAIN, SINK
from tpuc_tensorflow.dialects.types import CONTROL, TOKEN, agree, data_operands, element_type, is_control, unranked

_I1, _I32 = ScalarType("i1"), ScalarType("i32")


class ExecutorOp(StructuredOp):
    """An op in a graph. The graph runs its ops: each fires when its operands are available."""

    form = PLAIN
    data = 0
    """Number of operands before the control dependencies; -1 for any number."""

    @abstractmethod
    def result_types(self, operands: Sequence[Type], stated: Sequence[Type], named: int) -> tuple[Type, ...]:
        """Return result types from operand types, the types in the text, and the number of results in it."""

    def run(self, operation: Operation, values: Mapping[Value, Array], module: Module) -> Sequence[Array]:
        """See StructuredOp."""
        raise NotImplementedError(f"{self.name} is run by the graph around it")

    def verify(self, operation: Operation) -> None:
        """Check that control dependencies come last, and that the op is in a graph."""
        values = operation.operands
        data = data_operands(values)
        if any(is_control(value.type) for value in values[: len(data)]):
            raise ValueError("a control dependency comes before other operands")
        if self.data >= 0 and len(data) != self.data:
            raise ValueError(f"it takes {self.data} operands besides control dependencies, this one has {len(data)}")
        if not isinstance(surrounding(operation), self.place()):
            raise ValueError(f"it is outside of {self.place().name}")
        expected = self.result_types(
            [v.type for v in values], [v.type for v in operation.results], len(operation.results)
        )
        found = [value.type for value in operation.results]
        if len(expected) != len(found) or not all(map(agree, expected, found)):
            raise ValueError("its result types do not follow from its operand types")

    def place(self) -> type[StructuredOp]:
        """The op that contains it."""
        return Graph


def surrounding(operation: Operation) -> Any:
    """Return the op whose region contains an operation; None in a function."""
    region = None if operation.block is None else operation.block.parent
    owner = None if region is None else region.parent
    return owner.op if isinstance(owner, Operation) else None


def _data_type(operands: Sequence[Type], stated: Sequence[Type], index: int) -> Type:
    """Return the type of a result that forwards an operand; a stated type may be more specific."""
    if stated and not is_control(stated[0]):
        return stated[0]
    return operands[index] if index < len(operands) else CONTROL


def _must_forward(operation: Operation, operands: Sequence[Value]) -> None:
    for value in operands:
        if not agree(value.type, operation.results[0].type):
            raise ValueError("its results do not have the type of the operand that they forward")


@dataclass(frozen=True)
class Graph(ExecutorOp):
    """A graph with the semantics of TensorFlow's executor: dependency order, with dead values."""

    name = "tf_executor.graph"
    form = GRAPH

    def result_types(self, operands: Sequence[Type], stated: Sequence[Type], named: int) -> tuple[Type, ...]:
        """Types of the fetched values, without control."""
        return tuple(stated)

    def run(self, operation: Operation, values: Mapping[Value, Array], module: Module) -> Sequence[Array]:
        """See StructuredOp."""
        from tpuc_tensorflow.evaluation.executor import run_graph

        return run_graph(operation, values, module)

    def verify(self, operation: Operation) -> None:
        """Check for one block of executor ops that ends in a fetch; back edges are pairs of source and sink."""
        operations = _only_block(operation)
        if operation.operands:
            raise ValueError("a graph has no operands: it captures what it uses")
        foreign = next((op for op in operations if not op.op.name.startswith("tf_executor.")), None)
        if foreign is not None:
            raise ValueError(f"{foreign.op.name} is inside it; wrap it in a tf_executor.island")
        if not operations or not isinstance(operations[-1].op, Fetch):
            raise ValueError("its block does not end in a tf_executor.fetch")
        fetched = [value.type for value in data_operands(operations[-1].operands)]
        if not _all_agree(fetched, [value.type for value in operation.results]):
            raise ValueError("its results do not match what it fetches")


@dataclass(frozen=True)
class Fetch(ExecutorOp):
    """The end of a graph: its operands except control are the results."""

    name = "tf_executor.fetch"
    data = -1

    def result_types(self, operands: Sequence[Type], stated: Sequence[Type], named: int) -> tuple[Type, ...]:
        """None."""
        return ()


@dataclass(frozen=True)
class Island(ExecutorOp):
    """Plain computation in program order; it is skipped if anything it uses is dead."""

    name = "tf_executor.island"
    form = ISLAND

    def result_types(self, operands: Sequence[Type], stated: Sequence[Type], named: int) -> tuple[Type, ...]:
        """Types of the yielded values, then control."""
        return tuple(stated)

    def verify(self, operation: Operation) -> None:
        """Check for one block of foreign ops and nested graphs that ends in a yield; operands are control only."""
        super().verify(operation)
        operations = _only_block(operation)
        if not operations or not isinstance(operations[-1].op, Yield):
            raise ValueError("its block does not end in a tf_executor.yield")
        inside = (op.op for op in operations[:-1] if isinstance(op.op, ExecutorOp) and not isinstance(op.op, Graph))
        misplaced = next(inside, None)
        if misplaced is not None:
            raise ValueError(f"{misplaced.name} is inside it, but is only allowed in a tf_executor.graph")
        expected = [*(value.type for value in operations[-1].operands), CONTROL]
        if not _all_agree(expected, [value.type for value in operation.results]):
            raise ValueError("its results must be what it yields, followed by !tf_executor.control")


@dataclass(frozen=True)
class Yield(ExecutorOp):
    """The end of an island: its operands are the island's results."""

    name = "tf_executor.yield"
    data = -1

    def result_types(self, operands: Sequence[Type], stated: Sequence[Type], named: int) -> tuple[Type, ...]:
        """None."""
        return ()

    def place(self) -> type[StructuredOp]:
        """See ExecutorOp."""
        return Island


@dataclass(frozen=True)
class Switch(ExecutorOp):
    """Forward data to a true or a false output by a predicate; the other output is dead."""

    name = "tf_executor.Switch"
    data = 2

    def result_types(self, operands: Sequence[Type], stated: Sequence[Type], named: int) -> tuple[Type, ...]:
        """The data's type, twice."""
        type = _data_type(operands, stated, 1)
        return type, type, CONTROL

    def verify(self, operation: Operation) -> None:
        """Check that the predicate is a bool."""
        super().verify(operation)
        if element_type(operation.operands[0].type) != _I1:
            raise ValueError("its first operand, the predicate, is not a bool")
        _must_forward(operation, operation.operands[1:2])


@dataclass(frozen=True)
class SwitchN(ExecutorOp):
    """Forward data to the output with a given index; all others are dead."""

    name = "tf_executor.SwitchN"
    data = 2
    num_outs: I64

    def result_types(self, operands: Sequence[Type], stated: Sequence[Type], named: int) -> tuple[Type, ...]:
        """The data's type, for each output."""
        return (*((_data_type(operands, stated, 0),) * self.num_outs), CONTROL)

    def verify(self, operation: Operation) -> None:
        """Check that there is an output, and that the index is a 32-bit integer."""
        if self.num_outs < 1:
            raise ValueError("num_outs must be at least 1")
        super().verify(operation)
        if element_type(operation.operands[1].type) != _I32:
            raise ValueError("its second operand, the index, is not a 32-bit integer")
        _must_forward(operation, operation.operands[:1])


@dataclass(frozen=True)
class Merge(ExecutorOp):
    """Forward the live input, and optionally its index."""

    name = "tf_executor.Merge"
    data = -1

    def result_types(self, operands: Sequence[Type], stated: Sequence[Type], named: int) -> tuple[Type, ...]:
        """The data's type; three results include the index."""
        index = (unranked(_I32),) if named == 3 else ()
        return (_data_type(operands, stated, 0), *index, CONTROL)

    def verify(self, operation: Operation) -> None:
        """Check that there is an input."""
        super().verify(operation)
        if not data_operands(operation.operands):
            raise ValueError("it has no input")
        _must_forward(operation, data_operands(operation.operands))


@dataclass(frozen=True)
class Source(ExecutorOp):
    """The value from a loop's back edge, and a token that pairs it with the sink."""

    name = "tf_executor.NextIteration.Source"

    def result_types(self, operands: Sequence[Type], stated: Sequence[Type], named: int) -> tuple[Type, ...]:
        """The stated type, and the token; three results include control."""
        control = (CONTROL,) if named == 3 else ()
        return (stated[0] if stated else CONTROL, TOKEN, *control)

    def verify(self, operation: Operation) -> None:
        """Check that there is one sink."""
        super().verify(operation)
        sinks = operation.results[1].users
        if len(sinks) != 1 or not isinstance(sinks[0].op, Sink):
            raise ValueError("its token must go to one tf_executor.NextIteration.Sink")


@dataclass(frozen=True)
class Sink(ExecutorOp):
    """The end of a loop step: the value goes to the source of the token."""

    name = "tf_executor.NextIteration.Sink"
    form = SINK
    data = 2

    def result_types(self, operands: Sequence[Type], stated: Sequence[Type], named: int) -> tuple[Type, ...]:
        """None."""
        return ()

    def verify(self, operation: Operation) -> None:
        """Check that the value has the source's type."""
        super().verify(operation)
        token, value = operation.operands[:2]
        source = token.defining
        if source is None or not isinstance(source.op, Source) or token.index != 1:
            raise ValueError("its token does not come from a tf_executor.NextIteration.Source")
        if not agree(source.results[0].type, value.type):
            raise ValueError("its value does not have the type of its source's result")


class Forwarding(ExecutorOp):
    """Base of ops that forward their operand."""

    data = 1

    def result_types(self, operands: Sequence[Type], stated: Sequence[Type], named: int) -> tuple[Type, ...]:
        """The operand's type."""
        return _data_type(operands, stated, 0), CONTROL

    def verify(self, operation: Operation) -> None:
        """Check that the result has the operand's type."""
        super().verify(operation)
        _must_forward(operation, operation.operands[:1])


@dataclass(frozen=True)
class Enter(Forwarding):
    """Enter the frame of a loop; a constant is available in every step."""

    name = "tf_executor.Enter"
    frame_name: Str = ""
    is_constant: Bool = False
    parallel_iterations: I64 = 10


@dataclass(frozen=True)
class Exit(Forwarding):
    """Leave the frame of a loop, from its last step."""

    name = "tf_executor.Exit"


@dataclass(frozen=True)
class LoopCond(Forwarding):
    """Forward the predicate that continues a loop."""

    name = "tf_executor.LoopCond"

    def verify(self, operation: Operation) -> None:
        """Check that the operand is a bool."""
        super().verify(operation)
        if element_type(operation.operands[0].type) != _I1:
            raise ValueError("its operand is not a bool")


@dataclass(frozen=True)
class ControlTrigger(ExecutorOp):
    """A placeholder for control dependencies that is live even if they are dead."""

    name = "tf_executor.ControlTrigger"

    def result_types(self, operands: Sequence[Type], stated: Sequence[Type], named: int) -> tuple[Type, ...]:
        """Control only."""
        return (CONTROL,)


@dataclass(frozen=True)
class Send(ExecutorOp):
    """Send a value to the `Recv` of the same name."""

    name = "tf_executor.Send"
    data = 1
    tensor_name: Str = ""

    def result_types(self, operands: Sequence[Type], stated: Sequence[Type], named: int) -> tuple[Type, ...]:
        """Control only."""
        return (CONTROL,)


@dataclass(frozen=True)
class Recv(ExecutorOp):
    """Receive the value of the `Send` of the same name."""

    name = "tf_executor.Recv"
    tensor_name: Str = ""

    def result_types(self, operands: Sequence[Type], stated: Sequence[Type], named: int) -> tuple[Type, ...]:
        """The stated type."""
        return (stated[0] if stated else TensorType(None, ScalarType("f32")), CONTROL)


def _only_block(operation: Operation) -> list[Operation]:
    blocks = [block for region in operation.regions for block in region.blocks]
    if len(operation.regions) != 1 or len(blocks) != 1 or blocks[0].arguments:
        raise ValueError("it needs one region of one block without arguments")
    return blocks[0].operations


def _all_agree(expected: Sequence[Type], found: Sequence[Type]) -> bool:
    return len(expected) == len(found) and all(
        agree(a, b) or (is_control(a) and is_control(b)) for a, b in zip(expected, found, strict=True)
    )
