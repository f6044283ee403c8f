"""Walk over the nodes of a network: look up and call importers, and collect what they refuse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar, cast

from tpuc.api import BrokenPromise, ForeignNode, InvalidModel, Unsupported

from tpuc_importing.building import TopBuilder
from tpuc_importing.finding import Importer, ImporterFinder
from tpuc_importing.obstacles import Obstacles, place_of

BuilderT = TypeVar("BuilderT", bound=TopBuilder)


class Walk(Generic[BuilderT]):
    """Base of a front end's walk over its nodes; `contradiction` states what to do about an invalid node."""

    contradictions: ClassVar[tuple[type[Exception], ...]] = (ArithmeticError, LookupError, TypeError, ValueError)
    """Exceptions that importers raise if an operand is missing or malformed."""

    def __init__(self, build: BuilderT, find: ImporterFinder, operator: str = "operator", node: str = "node") -> None:
        self.build = build
        self.find = find
        self.obstacles = Obstacles(build.source.path, operator, node)

    def contradiction(self, error: Exception) -> str:
        """Return the end of the message about a node whose attributes and operands contradict each other."""
        raise NotImplementedError

    def importer(self, key: str, name: str, reads: Iterable[str], results: Iterable[str]) -> Importer | None:
        """Return the importer of a node; None, with its results lost, if there is none or if the node reads lost
        values.
        """
        importer = self.find(key)
        if importer is None:
            self.obstacles.note_unknown(key, name)
        if importer is None or self.obstacles.concern(reads):
            self.obstacles.lost.update(results)
            return None
        return importer

    def results(self, node: ForeignNode, importer: Importer, lost: Iterable[str] = ()) -> Sequence[Any]:
        """Return the importer's results of a node; if it refuses, nothing, and its results (or `lost`) are lost."""
        self.build.node = node
        try:
            made = importer(node, self.build)
        except Unsupported as error:
            self.obstacles.note(error, lost or node.outputs)
            return ()
        except self.contradictions as error:
            raise self.contradicted(node, error) from error
        if made is None:
            raise BrokenPromise(f"{place_of(node)}: its importer returns None, not its results", importer)
        return cast("Sequence[Any]", made) if isinstance(made, Sequence) else (made,)

    def contradicted(self, node: ForeignNode, error: Exception) -> InvalidModel:
        """Return the error for a node that its operator does not allow."""
        return InvalidModel(f"{place_of(node)}: {self.contradiction(error)}")
