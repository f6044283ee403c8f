"""One run over the nodes of a network: importers are looked up and called, and what they refuse is collected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar, cast

from tpuc.api import BrokenPromise, ForeignNode, InvalidModel, Unsupported

from tpuc_importing.building import TopBuilder
from tpuc_importing.finding import Importer, ImporterFinder
from tpuc_importing.obstacles import Obstacles, place_of

BuilderT = TypeVar("BuilderT", bound=TopBuilder)


class Walk(Generic[BuilderT]):
    """A front end's run over its nodes derives from it, and says in `contradiction` what to do about a bad node."""

    contradictions: ClassVar[tuple[type[Exception], ...]] = (ArithmeticError, LookupError, TypeError, ValueError)
    """What importers run into when an operand is missing or has another form than the operator's."""

    def __init__(self, build: BuilderT, find: ImporterFinder, operator: str = "operator", node: str = "node") -> None:
        self.build = build
        self.find = find
        self.obstacles = Obstacles(build.source.path, operator, node)

    def contradiction(self, error: Exception) -> str:
        """The end of the sentence about a node whose attributes and operands contradict each other."""
        raise NotImplementedError

    def importer(self, key: str, name: str, reads: Iterable[str], results: Iterable[str]) -> Importer | None:
        """The importer of a node; None, with its results lost, when there is none or when it reads what is lost."""
        importer = self.find(key)
        if importer is None:
            self.obstacles.note_unknown(key, name)
        if importer is None or self.obstacles.concern(reads):
            self.obstacles.lost.update(results)
            return None
        return importer

    def results(self, node: ForeignNode, importer: Importer, lost: Iterable[str] = ()) -> Sequence[Any]:
        """What the importer makes of a node; nothing, and its results (or `lost`) are lost, when it refuses."""
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
        """The error for a node that is none of its operator's."""
        return InvalidModel(f"{place_of(node)}: {self.contradiction(error)}")
