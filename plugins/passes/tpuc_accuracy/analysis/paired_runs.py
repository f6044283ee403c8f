"""Run samples through a float network and through its quantized form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from tpuc.api import CALIBRATION_TABLE, CalibrationError, Module, PassContext
from tpuc.api.evaluation import Array, Interpreter, real_values, types_of
from tpuc_driver.api.host import SampleReader, SampleSource, inputs_of, open_pool, pair_inputs
from tpuc_quantize.importing.propagate_calibration import calibrated_copy
from tpuc_quantize.observers.held_out import HeldOut
from tpuc_quantize.remedies.channel_thresholds import channel_elements, eligible
from tpuc_quantize.remedies.correct_bias import annotated_shifts
from tpuc_quantize.remedies.keep_tail_float import float_tail
from tpuc_quantize.remedies.round_weights import annotated_filters
from tpuc_quantize.remedies.scale_channels import annotated_thresholds
from tpuc_quantize.simulation.network import FakeNetwork

Outputs: TypeAlias = Mapping[str, Array]
Pairs: TypeAlias = tuple[Sequence[Outputs], Sequence[Outputs]]
"""The outputs of both networks, sample by sample, by the names of the float one."""


def readable(samples: SampleSource, places: Iterable[int] | None = None) -> list[Mapping[str, Array]]:
    """The readable ones among the samples, or among those at these places."""
    reader, rows = SampleReader(samples), list[Mapping[str, Array]]()
    for index in range(len(samples)) if places is None else places:
        try:
            rows.append(reader.read(index))
        except CalibrationError:
            continue  # calibration has said so
    return rows


def compiled_pairs(top: Module, tpu: Module, samples: SampleSource) -> Pairs | None:
    """Pairs from the float module and its lowered module; None where no sample is readable, for example arrays where
    the compiled network takes images.
    """
    specs = zip(inputs_of(top), inputs_of(tpu), strict=True)
    mixed = tuple(one if one.name == other.name else other for one, other in specs)
    exact, rounded = Interpreter(top), Interpreter(tpu)
    types = types_of(tpu) | rounded.outputs
    wanted, got = list[Outputs](), list[Outputs]()
    for row in readable(replace(samples, inputs=mixed)):
        for_top, for_tpu = pair_inputs(top, tpu, row)
        wanted.append(exact.run(for_top))
        found = rounded.run(for_tpu)
        names = zip(exact.output_names, rounded.output_names, strict=True)
        got.append({name: real_values(found[other], types[other]) for name, other in names})
    return (wanted, got) if wanted else None


def calibrated_pairs(module: Module, samples: SampleSource, context: PassContext) -> Pairs | None:
    """Pairs from the float module and its simulation with the table in the result `calibration_table`; None where no
    sample is readable.
    """
    rows = readable(samples)
    calibrated = calibrated_copy(module, context)
    table = context.result(CALIBRATION_TABLE)
    chip = context.chip.description if context.chip is not None else None
    net = FakeNetwork(calibrated, chip, floats=float_tail(calibrated))
    net.stored.update(annotated_filters(net, table))
    net.shift_biases(annotated_shifts(calibrated, table))
    net.set_elements(channel_elements(eligible(calibrated), annotated_thresholds(calibrated, table)))
    known = samples.known if isinstance(samples, HeldOut) else []
    with open_pool() as pool:
        wanted = known
        if len(known) != len(rows):
            wanted = [net.outputs(state) for state in net.run_all(rows, pool, integer=False)]
        got = [net.outputs(state) for state in net.run_all(rows, pool, integer=True)]
    return (wanted, got) if rows else None
