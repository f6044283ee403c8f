"""Options for the input and output types of a compiled file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpuc.errors import UsageError
from tpuc.ir import Module, Value
from tpuc.ir.state import State, state_pairs
from tpuc.ir.traits import NetworkInput
from tpuc.registry import Registry
from tpuc.schedule import Pass
from tpuc.schedule.results import STORED_INPUTS, STORED_OUTPUTS, ResultKey


@dataclass(frozen=True)
class Boundary:
    """Types at the inputs and outputs of a compiled network, floats by default. Only a network whose own quantization
    of inputs differs from that of the chip's runtime takes integers by default.

    `fuse_preprocess` makes the network take images as bytes, in `customization_format` if given, or with
    `aligned_input` in the memory layout of the camera hardware. `quant_input` and `quant_output` keep stored integers
    at all inputs and outputs, or at the positions in the lists, counted from 1. `float_input` and `float_output` force
    floats whatever the network file has. `input_types` and `output_types` name element types by position (f32, f16,
    bf16, i32; empty: the default). `state` tells who keeps states between runs: `external` for the program, to which
    they are inputs and outputs, or `internal` for the file, which keeps the states of the network file and each
    `state_pair`, `INPUT=OUTPUT`.
    """

    fuse_preprocess: bool = False
    customization_format: str = ""
    aligned_input: bool = False
    quant_input: bool = False
    quant_output: bool = False
    quant_input_list: tuple[int, ...] = ()
    quant_output_list: tuple[int, ...] = ()
    float_input: bool = False
    float_output: bool = False
    state: str = "external"
    state_pair: tuple[str, ...] = ()
    input_types: tuple[str, ...] = ()
    output_types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for option, needed, is_given, has_it in (
            ("--customization-format", "--fuse-preprocess", self.customization_format, self.fuse_preprocess),
            ("--aligned-input", "--fuse-preprocess", self.aligned_input, self.fuse_preprocess),
            ("--quant-input-list", "--quant-input", self.quant_input_list, self.quant_input),
            ("--quant-output-list", "--quant-output", self.quant_output_list, self.quant_output),
            ("--state-pair", "--state internal", self.state_pair, self.state == "internal"),
        ):
            if is_given and not has_it:
                raise UsageError(f"{option} has no effect without {needed}; add {needed}.")
        if self.float_input and self.quant_input:
            raise UsageError("--float-input and --quant-input contradict each other; give one of them.")
        if self.float_output and self.quant_output:
            raise UsageError("--float-output and --quant-output contradict each other; give one of them.")

    def keeping_integers(self, module: Module) -> Boundary:
        """Return a copy that keeps integers at inputs and outputs that are quantized in the network file; explicit
        choices take precedence.
        """
        inputs = [one.result for one in module.main.operations if isinstance(one.op, NetworkInput)]
        found = self
        if not (self.quant_input or self.float_input or self.fuse_preprocess) and (given := _quantized(inputs)):
            found = replace(found, quant_input=True, quant_input_list=given)
        if not (self.quant_output or self.float_output) and (given := _quantized(module.main.outputs)):
            found = replace(found, quant_output=True, quant_output_list=given)
        return found

    def states(self, module: Module) -> tuple[State, ...]:
        """Return the states that the compiled file of a TOP module keeps."""
        if self.state != "internal":
            return ()
        named: list[State] = []
        for pair in self.state_pair:
            taken, sign, given = pair.partition("=")
            if not sign:
                raise UsageError(f"--state-pair {pair}: '=' is missing; give INPUT=OUTPUT.")
            named.append(State(taken, given))
        known = [one for one in state_pairs(module) if one.input not in {other.input for other in named}]
        if not (named or known):
            raise UsageError(
                f"{module.name}: its file names no states; name each with --state-pair INPUT=OUTPUT, or leave out "
                "--state internal."
            )
        return (*known, *named)

    def with_equal_states(self, module: Module, states: Sequence[tuple[Value, Value]]) -> Boundary:
        """Return a copy in which a state stays float if a lowered module stores its two ends in different types."""
        inputs = [one.result for one in module.main.operations if isinstance(one.op, NetworkInput)]
        lists = (self._positions(inputs, "input"), self._positions(module.main.outputs, "output"))
        for taken, given in states:
            ends = (inputs.index(taken) + 1, module.main.outputs.index(given) + 1)
            is_chosen = [end in positions for end, positions in zip(ends, lists, strict=True)]
            stored = (_behind_cast(taken) if is_chosen[0] else taken, _before_cast(given) if is_chosen[1] else given)
            if stored[0].type != stored[1].type:
                for end, positions in zip(ends, lists, strict=True):
                    positions.discard(end)
        return replace(
            self,
            quant_input=bool(lists[0]),
            quant_output=bool(lists[1]),
            quant_input_list=tuple(sorted(lists[0])),
            quant_output_list=tuple(sorted(lists[1])),
        )

    def _positions(self, values: Sequence[Value], kind: str) -> set[int]:
        """Return the positions of inputs or outputs that stay quantized, counted from 1."""
        is_chosen, listed = getattr(self, f"quant_{kind}"), getattr(self, f"quant_{kind}_list")
        return set(listed or range(1, len(values) + 1)) if is_chosen else set()

    def wishes(self, count: int) -> dict[ResultKey[Any], Any]:
        """Return results for passes that run before lowering: `stored_outputs` holds which of `count` outputs stay
        quantized, `stored_inputs` which inputs may, counted from 0.
        """
        positions = self.quant_output_list or range(1, count + 1)
        wishes: dict[ResultKey[Any], Any] = {
            STORED_OUTPUTS: frozenset(one - 1 for one in positions if self.quant_output)
        }
        if self.float_input or self.fuse_preprocess or self.quant_input_list:
            wishes[STORED_INPUTS] = frozenset(one - 1 for one in self.quant_input_list)
        return wishes

    def passes(self, registry: Registry) -> Sequence[Pass]:
        """Return the passes that apply these options to a lowered module."""
        passes: list[Pass] = []
        if self.fuse_preprocess:
            definition = registry.get("tpuc.passes", "fuse-preprocess")
            passes.append(definition(customization_format=self.customization_format, aligned=self.aligned_input))
        if self.quant_input or self.quant_output:
            definition = registry.get("tpuc.passes", "strip-casts")
            passes.append(
                definition(
                    quant_input=self.quant_input,
                    quant_output=self.quant_output,
                    quant_input_list=self.quant_input_list,
                    quant_output_list=self.quant_output_list,
                )
            )
        if self.input_types or self.output_types:
            definition = registry.get("tpuc.passes", "set-boundary-types")
            passes.append(definition(inputs=self.input_types, outputs=self.output_types))
        return passes


def _quantized(values: Sequence[Value]) -> tuple[int, ...]:
    """Return the positions of quantized values, counted from 1."""
    return tuple(number for number, value in enumerate(values, 1) if value.tensor.is_quantized)


def _behind_cast(value: Value) -> Value:
    """Return the result of the unary op that is the only user of an input, else the input."""
    users = [*value.users]
    return users[0].result if len(users) == 1 and len(users[0].operands) == 1 else value


def _before_cast(value: Value) -> Value:
    maker = value.defining
    return maker.operands[0] if maker is not None and len(maker.operands) == 1 else value
