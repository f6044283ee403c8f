"""Attribute an exception to a plugin package and an op, and suggest what to do."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, cast

from tpuc.errors import PluginError, TpucError
from tpuc.registry.offers import OURS, Offer


@dataclass(frozen=True)
class Place:
    """A stack frame of a plugin's code, or of ours on an object of a plugin: `owner` is the plugin's package."""

    owner: Offer
    frame: FrameType
    line: int
    is_own: bool

    @property
    def function(self) -> str:
        """The function with the plugin's class, also where the code belongs to a base class."""
        name = self.frame.f_code.co_name
        this = self.frame.f_locals.get("self")
        return name if this is None else f"{type(this).__name__}.{name}"

    @property
    def where(self) -> str:
        """File and line."""
        path = Path(self.frame.f_code.co_filename)
        return f"{path.parent.name}/{path.name}, line {self.line}"

    def raises_itself(self) -> bool:
        """True if the line is a `raise` statement: a deliberate exception is a refusal."""
        summary = traceback.FrameSummary(self.frame.f_code.co_filename, self.line, self.frame.f_code.co_name)
        return (summary.line or "").startswith("raise")


class Blame:
    """Finds third-party packages behind exceptions. Objects of the package `tpuc` itself are never blamed."""

    def __init__(self, offers: Sequence[Offer]) -> None:
        tops = [(offer.path.partition(":")[0].partition(".")[0], offer) for offer in offers]
        ours = {top for top, offer in tops if offer.is_ours} | {OURS}
        self._owners: Mapping[str, Offer] = {top: offer for top, offer in tops if top not in ours}

    def explain(self, error: BaseException) -> str | None:
        """One sentence that names package, op and way out; None where no third-party plugin is at fault."""
        if isinstance(error, TpucError) and error.culprit is not None:
            owner = self.owner(error.culprit)
            return None if owner is None else f"{owner.provider}: {error.fault.rstrip('.')}. {way_out(owner)}"
        if isinstance(error, PluginError):
            return None
        for number, one in enumerate(chain := list(_chain(error))):
            places = list(self._places(one))
            if isinstance(one, TpucError):
                if places and places[-1].is_own and places[-1].frame is _last_frame(one):
                    return None  # the plugin's own sentence
            elif places:
                return _sentence(chain[: number + 1], places)
        return None

    def owner(self, thing: Any) -> Offer | None:
        """The third-party package that defines a class, a function or an object's class."""
        is_named = isinstance(thing, type) or hasattr(thing, "__qualname__")
        module: str = thing.__module__ if is_named else type(thing).__module__
        return self._owners.get(module.partition(".")[0])

    def _places(self, error: BaseException) -> Iterator[Place]:
        """The plugins' frames, the outermost first."""
        for frame, line in traceback.walk_tb(error.__traceback__):
            top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            this = frame.f_locals.get("self")
            owner = self._owners.get(top) or (None if this is None else self.owner(type(this)))
            if owner is not None:
                yield Place(owner, frame, line, top in self._owners)


def way_out(offer: Offer) -> str:
    """Advice about a package with a faulty plugin."""
    return f"Report this bug to its author, or uninstall it: pip uninstall {offer.package}."


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and its causes."""
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _sentence(chain: Sequence[BaseException], places: Sequence[Place]) -> str:
    """The message for an exception raised by a plugin, the last of a chain; the first is the one that reached us."""
    head, error, place = chain[0], chain[-1], places[-1]
    subject = _subject(chain, place.frame)
    at = f" for {subject}" if subject else ""
    if isinstance(error, NotImplementedError) and not place.is_own:
        kind, _, name = place.function.partition(".")
        return f"{place.owner.provider}: {kind} has no `{name}`, which is needed{at}. {way_out(place.owner)}"
    if isinstance(error, ValueError) and isinstance(head, TpucError) and place.is_own and place.raises_itself():
        return f"{place.owner.provider}: `{place.function}` refuses{at}: {_words(error)}. Change the network there."
    what = f"{type(error).__name__}: {_words(error)}".removesuffix(": ")
    where = f" ({place.where})" if place.is_own else ""
    return f"{place.owner.provider}: `{place.function}` fails{at}: {what}{where}. {way_out(place.owner)}"


def _words(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _subject(chain: Sequence[BaseException], innermost: FrameType) -> str:
    """The op, with the name of its node, that the frames up to `innermost` process; empty if unknown."""
    frames = [frame for one in chain for frame, _ in traceback.walk_tb(one.__traceback__)]
    last = len(frames) - frames[::-1].index(innermost)
    found = ""
    for frame in reversed(frames[:last]):
        for value in frame.f_locals.values():
            shown = _shown(value)
            if "'" in shown:
                return shown
            found = found or shown
    return found


def _shown(value: Any) -> str:
    """An op, a node or an operation as text for messages; empty for other objects."""
    from tpuc.api.frontend import ForeignNode
    from tpuc.ir import Node, Op, Operation

    match value:
        case ForeignNode():
            kind = f"{value.domain}::{value.op_type}" if value.domain else value.op_type
            return f"{kind} '{value.name}'" if value.name else kind
        case Node():
            node = cast("Node[Any]", value)
            return f"{node.op.name} '{node.name}'"
        case Operation():
            return f"{value.op.name} '{value.name}'"
        case Op():
            return value.name
        case _:
            return ""


def _last_frame(error: BaseException) -> FrameType | None:
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1] if frames else None
