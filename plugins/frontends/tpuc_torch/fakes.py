"""Rewrite PyTorch's fake quantization to the form of PT2E, which torch exports as QuantizeLinear and
DequantizeLinear.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpuc.api import InvalidModel

_WHOLE = {(-128, 127), (0, 255)}
"""Full integer ranges of signed and unsigned bytes."""
_SAME = {"aten::detach", "aten::detach_", "aten::alias", "aten::lift_fresh_copy", "aten::squeeze", "aten::view"}
"""Ops whose result equals the number they read."""


def normalize(torch: Any, program: Any) -> None:
    """Rewrite the graph of an exported program in place. Observers are removed: an exported network does not train."""
    rewriter = _Rewriter(torch, program)
    for node in list(program.graph.nodes):
        if node.op == "call_function":
            rewriter.visit(node)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()


class _Rewriter:
    def __init__(self, torch: Any, program: Any) -> None:
        self.torch, self.program, self.graph = torch, program, program.graph
        self.stored = {**program.state_dict, **program.constants}
        signature = program.graph_signature
        self.names = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        self.forms: dict[str, Callable[[Any], None]] = {
            "aten::fused_moving_avg_obs_fake_quant": self._observed,
            "aten::_fake_quantize_learnable_per_tensor_affine": self._per_tensor,
            "aten::_fake_quantize_learnable_per_channel_affine": self._per_channel,
            "aten::fake_quantize_per_tensor_affine": self._per_tensor,
            "aten::fake_quantize_per_channel_affine": self._per_channel,
            "quantized_decomposed::quantize_per_tensor": self._decomposed,
            "quantized_decomposed::dequantize_per_tensor": self._decomposed,
        }

    def visit(self, node: Any) -> None:
        schema = _schema(node)
        form = self.forms.get(schema.name) if schema is not None else None
        if form is not None:
            with self.graph.inserting_before(node):
                form(node)

    def _observed(self, node: Any) -> None:
        """`x, observer_on, fake_quant_on, lowest, highest, scale, zero_point, averaging, qmin, qmax, axis, per_row`"""
        x, _, enabled, _, _, scale, point, _, low, high, axis, *rest = node.args
        if not self._number(node, enabled):
            node.replace_all_uses_with(x)
        elif rest and rest[0]:
            self._by_channel(node, x, scale, point, axis, low, high)
        else:
            self._by_tensor(node, x, self._number(node, scale), self._number(node, point), low, high)
        self.graph.erase_node(node)

    def _per_tensor(self, node: Any) -> None:
        x, scale, point, low, high = node.args[:5]
        self._by_tensor(node, x, self._number(node, scale), self._number(node, point), low, high)
        self.graph.erase_node(node)

    def _per_channel(self, node: Any) -> None:
        x, scale, point, axis, low, high = node.args[:6]
        self._by_channel(node, x, scale, point, axis, low, high)
        self.graph.erase_node(node)

    def _decomposed(self, node: Any) -> None:
        """`x, scale, zero_point, qmin, qmax, dtype`: parameters become numbers."""
        x, scale, point, low, high, *rest = node.args
        scale, point = self._number(node, scale), int(self._number(node, point))
        kind = _schema(node).name.rpartition("::")[2]
        if kind == "quantize_per_tensor":
            x = self._clamped(x, scale, point, low, high)
        op = getattr(self.torch.ops.quantized_decomposed, kind).default
        new = self.graph.call_function(op, (x, scale, point, low, high, *rest), dict(node.kwargs))
        self._replace(node, new)
        self.graph.erase_node(node)

    def _by_tensor(self, node: Any, x: Any, scale: float, point: float, low: int, high: int) -> None:
        whole = round(point)
        said = (scale, whole, *self._bytes(low))
        self._pair(node, "tensor", self._clamped(x, scale, whole, low, high), said)

    def _by_channel(self, node: Any, x: Any, scale: Any, point: Any, axis: int, low: int, high: int) -> None:
        self._pair(node, "channel", x, (scale, point, axis, low, high, self._bytes(low)[2]))

    def _pair(self, node: Any, by: str, x: Any, said: tuple[Any, ...]) -> None:
        """Quantize and dequantize, as PT2E quantization writes it."""
        ops = self.torch.ops.quantized_decomposed
        stored = self.graph.call_function(getattr(ops, f"quantize_per_{by}").default, (x, *said))
        self._replace(node, self.graph.call_function(getattr(ops, f"dequantize_per_{by}").default, (stored, *said)))

    def _bytes(self, low: int) -> tuple[int, int, Any]:
        return (0, 255, self.torch.uint8) if low >= 0 else (-128, 127, self.torch.int8)

    def _clamped(self, x: Any, scale: float, point: int, low: int, high: int) -> Any:
        """Clamp values before rounding if the range is narrower than that of bytes."""
        if (low, high) in _WHOLE:
            return x
        bounds = (low - point) * scale, (high - point) * scale
        return self.graph.call_function(self.torch.ops.aten.clamp.default, (x, *bounds))

    def _replace(self, node: Any, new: Any) -> None:
        new.meta = dict(node.meta)
        node.replace_all_uses_with(new)

    def _number(self, node: Any, value: Any) -> float:
        """Return a parameter, given as a number or as a stored one-element tensor."""
        if isinstance(value, (int, float)):
            return value
        while value.op == "call_function" and _schema(value) is not None and _schema(value).name in _SAME:
            value = value.args[0]
        tensor = self.stored.get(self.names.get(value.name, "")) if value.op == "placeholder" else None
        if tensor is None or tensor.numel() != 1:
            raise InvalidModel(
                f"node '{node.name}' ({node.target}): its scale or zero point is computed. Export the network again in "
                "evaluation mode."
            )
        return tensor.item()


def _schema(node: Any) -> Any:
    """Return torch's schema of a node's op; None if it is not an op."""
    return getattr(node.target, "_schema", None)
