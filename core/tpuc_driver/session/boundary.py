"""Options for the types of inputs and outputs of a compiled file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpuc.errors import UsageError
from tpuc.ir import Module, Value
from tpuc.ir.traits import NetworkInput
from tpuc.registry import Registry
from tpuc.schedule import Pass
from tpuc.schedule.results import STORED_INPUTS, STORED_OUTPUTS, ResultKey


@dataclass(frozen=True)
class Boundary:
    """What happens at the border of the network; as it stands, floats go in and come out. Only a network that quantises
    its inputs otherwise than the chip's runtime takes the integers.

    `fuse_preprocess`: images go in as bytes, in `customization_format` if that is given; with `aligned_input` they lie
    as a camera's hardware leaves them. `quant_input` and `quant_output`: values go in and come out as they are stored,
    all or those at the positions in the lists, counted from 1. `float_input` and `float_output`: floats go in and
    come out, whatever the network's file has.
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

    def __post_init__(self) -> None:
        for option, needed, is_given, has_it in (
            ("--customization-format", "--fuse-preprocess", self.customization_format, self.fuse_preprocess),
            ("--aligned-input", "--fuse-preprocess", self.aligned_input, self.fuse_preprocess),
            ("--quant-input-list", "--quant-input", self.quant_input_list, self.quant_input),
            ("--quant-output-list", "--quant-output", self.quant_output_list, self.quant_output),
        ):
            if is_given and not has_it:
                raise UsageError(f"{option} has no effect without {needed}; add {needed}.")
        if self.float_input and self.quant_input:
            raise UsageError("--float-input and --quant-input contradict each other; give one of them.")
        if self.float_output and self.quant_output:
            raise UsageError("--float-output and --quant-output contradict each other; give one of them.")

    def keeping_integers(self, module: Module) -> Boundary:
        """The same where inputs and outputs that are quantized in a network's file stay integers; what was chosen for
        either holds.
        """
        inputs = [one.result for one in module.main.operations if isinstance(one.op, NetworkInput)]
        found = self
        if not (self.quant_input or self.float_input or self.fuse_preprocess) and (given := _quantized(inputs)):
            found = replace(found, quant_input=True, quant_input_list=given)
        if not (self.quant_output or self.float_output) and (given := _quantized(module.main.outputs)):
            found = replace(found, quant_output=True, quant_output_list=given)
        return found

    def wishes(self, count: int) -> dict[ResultKey[Any], Any]:
        """What passes should know before the module is lowered, as results of a run: in `stored_outputs` which of
        `count` outputs come out as they are stored, in `stored_inputs` which inputs may, counted from 0.
        """
        positions = self.quant_output_list or range(1, count + 1)
        wishes: dict[ResultKey[Any], Any] = {
            STORED_OUTPUTS: frozenset(one - 1 for one in positions if self.quant_output)
        }
        if self.float_input or self.fuse_preprocess or self.quant_input_list:
            wishes[STORED_INPUTS] = frozenset(one - 1 for one in self.quant_input_list)
        return wishes

    def passes(self, registry: Registry) -> Sequence[Pass]:
        """The passes that do it, on a lowered module."""
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
        return passes


def _quantized(values: Sequence[Value]) -> tuple[int, ...]:
    """The positions of quantized integers, counted from 1."""
    return tuple(number for number, value in enumerate(values, 1) if value.tensor.is_quantised)
