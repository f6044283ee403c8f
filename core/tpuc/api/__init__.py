"""Everything a plugin may import from the compiler."""

from tpuc.api.chip import (
    FLOAT_MODES,
    Assembler,
    Chip,
    ChipDescription,
    CompiledLayout,
    LmemModel,
    LoadedModel,
    TensorInfo,
)
from tpuc.api.frontend import ForeignNode, Frontend, ImportBuilder, ImportOptions
from tpuc.api.kernel import (
    NO_PADS,
    Axis,
    Box,
    PackedConstant,
    DdrTensor,
    Layouts,
    LocalBlock,
    LocalTensor,
    Move,
    MoveKernel,
    Pads,
    Phase,
    PlacedTile,
    Scratch,
    Shape4,
    Space,
    Tile,
    TileKernel,
    View,
    default_box,
    elementwise_view,
    window,
)
from tpuc.api.lowering import Lowering, LoweringBuilder, LoweringNode, Wants
from tpuc.api.planning import BufferInfo, Planner, PoolAllocation, PoolInfo
from tpuc.api.table import API_VERSION, ImporterTable, KernelTable, LoweringTable, Table
from tpuc.errors import (
    CalibrationError,
    CorruptFile,
    HazardError,
    IllegalCommand,
    InvalidModel,
    LmemOverflow,
    ParseError,
    PluginConflict,
    PluginError,
    TpucError,
    Unsupported,
    UsageError,
    VerifyError,
)
from tpuc.ir import *  # noqa: F403  # the IR is part of the plugin interface, name by name in tpuc.ir.__all__
from tpuc.ir.attributes import (
    F64,
    I32,
    I64,
    SI32,
    Bool,
    DenseI32Array,
    DenseI64Array,
    DictAttr,
    F64Array,
    I64Array,
    IntegerAttr,
    Raw,
    RequantMode,
    RoundMode,
    Str,
    StrArray,
    StringAttr,
)
from tpuc.ir.traits import Commutative, Constant, Elementwise, FusesRelu, NetworkInput, ShapeOnly, SideEffects
from tpuc.machine import (
    Command,
    Engine,
    Hazard,
    Instruction,
    Recorder,
    Region,
    Timeline,
    TimelineEntry,
    derive_waits,
    find_hazards,
    make_timeline,
)
