"""The programs of a deployment folder that choose objects: `objects.hpp` and `objects.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

from tpuc_eval.postprocess.grids import cell_count, cells
from tpuc_eval.postprocess.yolo_tasks import CHOSEN, YoloObb, YoloPose, YoloSegment, YoloTask

NAMES = ("objects.hpp", "objects.py")


def object_programs(reader: YoloTask, shapes: Sequence[tuple[int, ...]], height: int, width: int) -> Mapping[str, str]:
    """Return the text of the programs by name; none for other tasks and for outputs of another form. `shapes` are those
    of the outputs, `height` and `width` those of the input.
    """
    count = cell_count((width, height))
    shapes = [shape[:3] if shape[2:] == (count, 1) else shape for shape in shapes]  # some chips store four axes
    where = _columns(shapes, count) or _rows(shapes, count)
    task = None if where is None else _task(reader, where["width"], shapes, (width, height))
    if where is None or task is None or any(shape[0] != 1 for shape in shapes):
        return {}
    given = {"height": height, "width": width, "score": reader.score, "iou": reader.iou, "keep": reader.keep}
    facts = {f"more_{name}" if name == "width" else name: number for name, number in where.items()} | task | given
    return {name: _filled(f"{name}.in", facts) for name in NAMES}


def _columns(shapes: Sequence[tuple[int, ...]], count: int) -> dict[str, int] | None:
    """Places of boxes, scores, and further values, each with a column per cell; the `width` is that of the latter."""
    places = [place for place, shape in enumerate(shapes) if len(shape) == 3 and shape[2] == count]
    if len(places) != 3 or shapes[places[0]][1] != 4:
        return None
    boxes, scores, more = places
    outputs = {"boxes": boxes, "scores": scores, "more": more, "chosen": 0}
    return outputs | {"count": count, "classes": shapes[scores][1], "width": shapes[more][1]}


def _rows(shapes: Sequence[tuple[int, ...]], count: int) -> dict[str, int] | None:
    """The place of rows that the network has chosen: box, score, class, further values. Chips may add an axis of 1."""
    places = [place for place, shape in enumerate(shapes) if len(shape) == 3 or shape[3:] == (1,)]
    if len(places) != 1 or shapes[places[0]][1] == count or shapes[places[0]][2] <= CHOSEN:
        return None
    (place,) = places
    outputs = {"boxes": place, "scores": place, "more": place, "chosen": 1}
    return outputs | {"count": shapes[place][1], "classes": 0, "width": shapes[place][2] - CHOSEN}


def _task(
    reader: YoloTask, more: int, shapes: Sequence[tuple[int, ...]], size: tuple[int, int]
) -> dict[str, int] | None:
    """What the `more` further values of an object are."""
    maps = [place for place, shape in enumerate(shapes) if len(shape) == 4 and shape[3] != 1]
    facts = {"prototypes": 0, "points": 0, "values": more, "rows": 0, "columns": 0, "rotated": 0}
    match reader:
        case YoloSegment() if len(maps) == 1 and shapes[maps[0]][1:] == (more, *cells(size, 4)):
            rows, columns = shapes[maps[0]][2:]
            return facts | {"prototypes": maps[0], "rows": rows, "columns": columns}
        case YoloPose() if more == reader.points * reader.values:
            return facts | {"points": reader.points, "values": reader.values}
        case YoloObb() if more == 1:
            return facts | {"rotated": 1}
        case _:
            return None


def _filled(template: str, facts: Mapping[str, float]) -> str:
    pieces = resources.files(__name__).joinpath(template).read_text(encoding="utf-8").split("@@")
    return "".join(repr(facts[piece]) if place % 2 else piece for place, piece in enumerate(pieces))
