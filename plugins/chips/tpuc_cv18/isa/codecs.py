"""Encode operands and common attribute groups as descriptor fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpuc.api import IllegalCommand
from tpuc.api.encoding import (
    Derived,
    Draft,
    Encoding,
    FieldCodec,
    Fields,
    Ignored,
    Number,
    Numbers,
    Present,
    Signed,
    When,
)

from tpuc_cv18.isa.types import NEAR_MASK, DType, Layout, Operand, Scalar, Shape4, Strides, dtype_of

FLOAT = Derived("opd_typ", lambda instruction: instruction.is_float)
_SIGNED_PAD = When(
    lambda instruction: instruction.target.has_float_pads,
    Signed("pad_value", "opd0_ins_val", 8),
    otherwise=[Signed("pad_value", "opd0_ins_val", 16, significant=8)],
)
_INTEGER_PAD = Encoding(
    When(
        lambda instruction: instruction.input.dtype.signed,
        _SIGNED_PAD,
        otherwise=[Number("pad_value", "opd0_ins_val")],
    ),
    Ignored("opd0_ins_fp"),
)
_FLOAT_PAD = When(
    lambda instruction: instruction.target.has_float_pads,
    Number("pad_value", "opd0_ins_fp"),
    Ignored("opd0_ins_val"),
    otherwise=[Number("pad_value", "opd0_ins_val")],
)
PAD_VALUE = When(lambda instruction: instruction.is_float, _FLOAT_PAD, otherwise=[_INTEGER_PAD])
"""Codec of the pad value: an integer of the input's type, or bf16 bits."""
REQUANTIZATION = Present(
    "opt_chl_quan", ["multiplier"], Signed("multiplier", "quan_m", 32), otherwise=[Ignored("quan_m")]
)
SHIFT = When(
    lambda instruction: instruction.multiplier is not None,
    Signed("shift", "opt_right_shift", 6),
    otherwise=[Number("shift", "opt_right_shift")],
)
"""Codec of a right shift. Next to a multiplier, a negative shift goes left where the field has a sign bit."""


def strides_of(prefix: str) -> tuple[str, ...]:
    """The stride fields of an operand."""
    return tuple(f"{prefix}_{name}_str" for name in "nchwb")


def extents(attribute: str, prefix: str, names: str = "nchw") -> Numbers:
    """Codec of the fields `prefix`_n, _c, _h, _w."""
    return Numbers(attribute, tuple(f"{prefix}_{name}" for name in names))


class Extents(FieldCodec):
    """Codec of operand extents that follow from other attributes."""

    def __init__(self, prefix: str, shape: Callable[[Any], tuple[int, ...]], names: str = "nchw") -> None:
        self._names, self._shape = tuple(f"{prefix}_{name}" for name in names), shape

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        fields.update(zip(self._names, self._shape(instruction), strict=True))

    def read(self, draft: Draft, fields: Fields) -> None:
        pass


class Tensor(FieldCodec):
    """Codec of operand `prefix`: a tensor, or with `immediate` also an immediate.

    `layout` is the layout that the operation fixes. With None, the strides for the shape `shape` are encoded, and
    aligned strides decode as the aligned layout. `planes`: the tensor has a plane step although its type has a single
    plane.
    """

    def __init__(
        self,
        attribute: str,
        prefix: str,
        *,
        layout: Layout | None = Layout.ALIGNED,
        shape: Callable[[Any], Shape4] | None = None,
        planes: Callable[[Any], bool] | None = None,
        immediate: bool = False,
    ) -> None:
        self._attribute, self._layout = attribute, layout
        self._shape, self._planes, self._immediate = shape, planes, immediate
        self._near = prefix in ("opd1", "opd2")
        self._address, self._code, self._step = f"{prefix}_addr", f"short_{prefix}_str", f"{prefix}_b_str"
        self._const, self.sign, self._byte = f"opt_{prefix}_const", f"opt_{prefix}_sign", f"opt_{prefix}_int8"
        self._strides = strides_of(prefix)[:4]

    def write(self, instruction: Any, fields: dict[str, int]) -> None:
        operand: Operand | Scalar = instruction.__dict__[self._attribute]
        dtype = operand.dtype
        fields[self.sign], fields[self._byte] = int(dtype.signed), int(dtype.planes == 1)
        if isinstance(operand, Scalar):
            fields[self._const], fields[self._address] = 1, operand.bits
            return
        fields[self._address] = operand.address & NEAR_MASK if self._near else operand.address
        if self._layout is None:
            assert self._shape is not None
            fields[self._code] = 3
            fields.update(
                zip(self._strides, operand.strides(self._shape(instruction), instruction.target), strict=True)
            )
        elif operand.layout is self._layout:
            fields[self._code] = int(self._layout)
        else:
            raise IllegalCommand(
                f"{instruction.mnemonic()}: operand {operand} must have the layout {self._layout.name.lower()}; copy it"
            )
        if self._shape is not None and self._has_step(instruction, dtype):
            fields[self._step] = operand.step(self._shape(instruction), instruction.target)

    def _has_step(self, instruction: Any, dtype: DType) -> bool:
        return dtype.planes > 1 or (self._planes is not None and self._planes(instruction))

    def read(self, draft: Draft, fields: Fields) -> None:
        dtype = self.dtype(fields)
        draft.__dict__[self._attribute] = (
            Scalar(fields[self._address], dtype)
            if self._immediate and fields[self._const]
            else self._operand(draft, fields, dtype)
        )

    def dtype(self, fields: Fields) -> DType:
        """The element type that the flags state."""
        return dtype_of(fields["opd_typ"], fields[self._byte], fields[self.sign])

    def _operand(self, draft: Draft, fields: Fields, dtype: DType) -> Operand:
        address = near(fields, self._address) if self._near else fields[self._address]
        if self._shape is None:
            return Operand(address, dtype, self._layout or Layout.ALIGNED)
        shape = self._shape(draft)
        layout = self._read_layout(fields) if self._layout is None else self._layout
        target = draft.target
        stated = Operand(address, dtype, layout).strides(shape, target)
        if self._layout is None:
            layout = Layout.ALIGNED if stated == Operand(address, dtype).strides(shape, target) else stated
        operand = Operand(address, dtype, layout)
        if not self._has_step(draft, dtype) or fields[self._step] == operand.step(shape, target):
            return operand
        return Operand(address, dtype, layout, fields[self._step])

    def _read_layout(self, fields: Fields) -> Layout | Strides:
        code = fields[self._code]
        n, c, h, w = (fields[name] for name in self._strides)
        return (n, c, h, w) if code == 3 else Layout(code)


def near(fields: Fields, field: str) -> int:
    """The address of operand 1 or 2: 16 bits relative to the result's pair of lanes."""
    return fields["res0_addr"] & ~NEAR_MASK | fields[field]
