"""An `onnx.backend`: test suites and tools that are written for it run networks on the simulator of a chip.

    import onnx.backend.test
    from tpuc import onnx_backend

    suite = onnx.backend.test.BackendTest(onnx_backend.backend_for("CHIP", mode="f16"), __name__)

The functions of this module are those of a backend for the host, which computes in floats; as a device they also take
`"CHIP"` and `"CHIP:MODE"`. What cannot be compiled raises `Refused`, which test runners show as a skipped test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast
from unittest import SkipTest

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict
from tpuc.errors import InvalidInput, TpucError, Unsupported
from tpuc.registry import Registry

from tpuc_driver.facade import CompiledNetwork, Network, load
from tpuc_driver.facade.arrays import as_array

Array = NDArray[Any]
HOST = "CPU"


class Refused(Unsupported, SkipTest):
    """A network that cannot be compiled, or cannot be run on these inputs; says why."""


class Prepared(BackendRep):
    """A network ready to run. Where it was refused, and some inputs are integers or scalars, which may say how to
    compute, it is compiled again at the first run with these as constants.
    """

    def __init__(self, model: onnx.ModelProto, chip: str | None, mode: str | None) -> None:
        self._model, self._chip, self._mode = model, chip, mode
        constants = {one.name for one in model.graph.initializer}
        self._inputs = [one for one in model.graph.input if one.name not in constants]
        self._outputs = {one.name: one.type.tensor_type.elem_type for one in model.graph.output}
        self._runs: Network | CompiledNetwork | None = None
        self._fixed: Mapping[str, Array] = {}
        try:
            self._runs = self._made({})
        except Refused:
            if not any(map(_may_be_constant, self._inputs)):
                raise

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """The outputs, in their order and by their names; `inputs` are arrays by place or by name."""
        try:
            given = self._named(inputs)
        except InvalidInput as error:
            raise Refused(str(error)) from error
        fixed = {one.name: given[one.name] for one in self._inputs if _may_be_constant(one)}
        if self._runs is None or (self._fixed and not _are_equal(fixed, self._fixed)):
            self._runs, self._fixed = self._made(fixed), fixed
        left = {name: array for name, array in given.items() if name not in self._fixed}
        try:
            found = self._runs.run(left)
        except TpucError as error:
            raise Refused(str(error)) from error
        outputs: Any = namedtupledict("Outputs", list(self._outputs))
        return outputs(*(_as_stated(found[name], kind) for name, kind in self._outputs.items()))

    def _named(self, inputs: Any) -> dict[str, Array]:
        if isinstance(inputs, Mapping):
            return {
                name: as_array(value, f"input '{name}'") for name, value in cast("Mapping[str, Any]", inputs).items()
            }
        arrays = _listed(inputs)
        pairs = zip(self._inputs, arrays, strict=True)
        return {one.name: as_array(array, f"input '{one.name}'") for one, array in pairs}

    def _made(self, fixed: Mapping[str, Array]) -> Network | CompiledNetwork:
        """With some inputs as constants."""
        try:
            network = load(self._model, **({"fixed_inputs": dict(fixed)} if fixed else {}))
            return network if self._chip is None else network.compile(self._chip, mode=self._mode)
        except TpucError as error:
            raise Refused(str(error)) from error


class SimulatorBackend(Backend):
    """Of one chip and mode, which devices replace; the host where there is no chip."""

    chip: ClassVar[str | None] = None
    mode: ClassVar[str | None] = None

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = HOST, **kwargs: Any) -> Prepared:
        """Compile a network; raises Refused."""
        del kwargs
        chip, _, mode = device.partition(":")
        is_host = chip.upper() == HOST
        return Prepared(model, cls.chip if is_host else chip, cls.mode if is_host else mode or None)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = HOST,
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Compile a network of one operator and run it; its types are those of the inputs and of `outputs_info`."""
        arrays: list[Array] = [np.asarray(one) for one in _listed(inputs)]
        names = [name for name in node.input if name]
        ends = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, arrays, strict=True)
        ]
        results = (
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
                for name, (kind, shape) in zip(node.output, outputs_info, strict=True)
            ]
            if outputs_info
            else [onnx.ValueInfoProto(name=name) for name in node.output]
        )
        opset = helper.make_opsetid(node.domain, kwargs.get("opset_version", onnx.defs.onnx_opset_version()))
        model = helper.make_model(helper.make_graph([node], "node", ends, results), opset_imports=[opset])
        return cls.prepare(model, device).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """`CPU`, and every chip, alone or with one of its modes."""
        chip, _, mode = device.partition(":")
        registry = Registry()
        if chip.upper() == HOST:
            return not mode
        return registry.has("tpuc.chips", chip) and mode in ("", *registry.get("tpuc.chips", chip).description.modes)


def backend_for(chip: str, mode: str | None = None) -> type[SimulatorBackend]:
    """A backend whose device is the simulator of a chip, in a float mode or the chip's own."""
    return type(f"Backend_{chip}", (SimulatorBackend,), {"chip": chip, "mode": mode})


def _listed(inputs: Any) -> list[Any]:
    return [*cast("list[Any]", inputs)] if isinstance(inputs, list | tuple) else [inputs]


def _may_be_constant(one: onnx.ValueInfoProto) -> bool:
    """Is it an input that says how to compute: a shape, axes, a limit?"""
    kind = one.type.tensor_type
    is_tensor = one.type.HasField("tensor_type")
    return is_tensor and (kind.elem_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64) or not kind.shape.dim)


def _are_equal(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def _as_stated(array: Array, kind: int) -> Array:
    """A result in the type that the network states."""
    return array.astype(helper.tensor_dtype_to_np_dtype(kind)) if kind else array


is_compatible = SimulatorBackend.is_compatible
prepare = SimulatorBackend.prepare
run_model = SimulatorBackend.run_model
run_node = SimulatorBackend.run_node
supports_device = SimulatorBackend.supports_device
