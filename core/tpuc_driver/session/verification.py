"""Verify a compiled file before it is written: compare its stages on an input, and check float ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.api.chip import LoadedModel
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import types_of
from tpuc.ir import Module
from tpuc.ir.fused_postprocess import fused_postprocess
from tpuc.ir.state import first_value, states_of
from tpuc.schedule.results import CALIBRATION_TABLE

from tpuc_driver.session.compare import SIMULATOR_TOLERANCE, compare, meanings, stated_values, tolerance_of
from tpuc_driver.session.configuration import Configuration
from tpuc_driver.session.modes import compiled_mode
from tpuc_driver.session.overflow import find_overflows, has_less_than_f32, magnitudes, merged, sentences
from tpuc_driver.session.reports import StageComparison
from tpuc_driver.session.running import paired_inputs, simulate
from tpuc_driver.session.underflow import find_underflows, underflow_sentences

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class StageTest:
    """Sample for comparing stages; without paths nothing is compared."""

    paths: Sequence[Path] = ()
    reference: Path | None = None
    excepts: Sequence[str] = ()
    tolerance: Sequence[float] = ()


@dataclass(frozen=True)
class Verification:
    """Verification of the TPU module `tpu` and the file `loaded`, both compiled from the TOP module `top`. `table` is
    the calibration table or its path, `ranges` are maximum magnitudes found on samples.
    """

    configuration: Configuration
    top: Module
    tpu: Module
    loaded: LoadedModel
    table: Any = None
    ranges: Mapping[str, float] | None = None

    def run(self, test: StageTest) -> tuple[StageComparison, ...]:
        """Compare TOP, or the reference file, with TPU, and TPU with the simulator; raises TpucError if they differ.
        Values that exceed a float type are remarked first.
        """
        if not test.paths:
            self.remark_overflows({})
            return ()
        inputs, stored = paired_inputs(self.top, self.tpu, test.paths, self.configuration.registry)
        for state in states_of(self.tpu):  # as before the first run
            inputs[state.input] = np.zeros_like(inputs[state.input])
            stored[state.input] = np.full_like(stored[state.input], first_value(types_of(self.tpu)[state.input]))
        exact = meanings(self.top, Interpreter(self.top).run(inputs, "all"))
        self.remark_overflows(magnitudes(exact))
        limits = tolerance_of(compiled_mode(self.tpu), test.tolerance)
        stage, wanted = (
            ("TOP", exact) if test.reference is None else (f"{test.reference}", stated_values(test.reference, self.top))
        )
        got = Interpreter(self.tpu).run(stored, "all")
        # rows of near scores change places
        rows = [] if fused_postprocess(self.top) is None else [value.name for value in self.top.main.outputs]
        first = compare(f"{stage} and TPU", meanings(self.tpu, got), wanted, limits, [*test.excepts, *rows])
        outputs = simulate(self.configuration.registry, self.configuration.chip, self.loaded, stored)
        self.loaded.reset()
        called = self._network_names()
        same = {called.get(name, name): got[name] for name in outputs}
        found = {called.get(name, name): array for name, array in outputs.items()}
        left_out = [*test.excepts, *(called[name] for name in test.excepts if name in called)]
        return first, compare("TPU and simulator", found, same, SIMULATOR_TOLERANCE, left_out)

    def _network_names(self) -> dict[str, str]:
        """Map output names in the compiled file, which carry the type of a cast as a suffix, to those of the
        network.
        """
        inside, own = ([value.name for value in module.main.outputs] for module in (self.tpu, self.top))
        return dict(zip(inside, own, strict=True)) if len(inside) == len(own) == len(set(own)) else {}

    def remark_overflows(self, seen: Mapping[str, float]) -> None:
        """Remark weights and values that a float type of the compiled module cannot represent, or only with few digits.
        Ranges come from the calibration table, from samples, and from `seen`.
        """
        if not any(has_less_than_f32(type.storage) for type in types_of(self.tpu).values()):
            return
        ranges = merged((self.ranges or {}, seen, self._ranges_in_table()))
        found = find_overflows(self.top, self.tpu, ranges)
        modes = self.configuration.chip.description.modes
        for sentence in (*sentences(found, modes), *underflow_sentences(find_underflows(self.tpu, ranges), modes)):
            self.configuration.remark(sentence)

    def _ranges_in_table(self) -> dict[str, float]:
        if self.table is None:
            return {}
        configuration = self.configuration
        context = replace(configuration.context({CALIBRATION_TABLE: self.table}), remark=configuration.log)
        definition = configuration.registry.get("tpuc.passes", "import-calibration")
        configuration.manager(context).run(self.top.clone(), [definition()], "verify")
        entries = context.result(CALIBRATION_TABLE).entries
        return {name: max(abs(entry.minimum), abs(entry.maximum)) for name, entry in entries.items()}
