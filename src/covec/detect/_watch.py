"""Watching a concept while the model reads and writes: its score at every token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

from jaxtyping import Float
from torch import Tensor

from covec.concepts.vector import ConceptVector
from covec.detect._html import fragment
from covec.detect._scores import Readers, listed
from covec.edits.algebra import Edit
from covec.edits.scope import edit
from covec.models.plan import Pass, Plan
from covec.models.sites import Site
from covec.models.text import TextModel

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Seen:
    """The score of one concept at one token that the model read.

    `call` counts the calls within the scope, `row` is the input's place among those of its call, `beam` its beam;
    `index` is the token's place in its unpadded text. `score` is None for token 0, which says nothing.
    """

    call: int
    row: int
    beam: int
    index: int
    token: str
    concept: str
    score: float | None
    generated: bool


class Log:
    """What was seen, in `rows`: in the order of the passes, inputs in the order in which they ran."""

    def __init__(self, model: TextModel, vectors: list[ConceptVector], readers: Readers) -> None:
        self.rows: list[Seen] = []
        self._model, self._names, self._readers = model, [vector.name for vector in vectors], readers
        self._call = 0
        self._met: dict[int, Plan] = {}  # rows of the current call, and the plan that each belongs to
        ends = getattr(getattr(model.module, "generation_config", None), "eos_token_id", None)
        self._ends = set(ends if isinstance(ends, list) else [ends])

    def table(self) -> pd.DataFrame:
        """All rows as a data frame, text by text."""
        import pandas as pd

        rows = sorted(self.rows, key=lambda seen: (seen.call, seen.row, seen.beam, seen.index))
        return pd.DataFrame([asdict(row) for row in rows], columns=list(Seen.__dataclass_fields__))

    def note(self, site: Site, hidden: Float[Tensor, "rows tokens d"], now: Pass) -> None:
        """Read one site of a pass; at its last site the scores are complete."""
        found = now.notes.setdefault(self, {})
        found[site] = self._readers.read(site, hidden.detach()).cpu()
        if len(found) == len(self._readers.sites):
            self._take(now, self._readers.combine(found))
            del now.notes[self]

    def _take(self, now: Pass, scores: Float[Tensor, "rows tokens k"]) -> None:
        """Log the tokens of a pass that are new: no padding, nothing read before, nothing from a text's end on."""
        done: dict[int, float] = now.plan.prepared.setdefault(self, {})  # how far each row of the batch was logged
        indices, size = now.indices(), max(1, now.rows // len(now.plan.layouts))
        ids = None if now.ids is None else now.ids.tolist()
        for place in range(now.rows):
            layout = now.plan.layouts[now.row(place)]
            row = now.plan.inputs[now.row(place)] if now.plan.inputs else now.row(place)
            call = self._call_of(row, now.plan)
            for column, index in enumerate(indices[place].tolist()):
                if index < 0 or index <= done.get(place, -1):
                    continue
                token = None if ids is None else ids[place][column]
                written = index >= layout.prompt
                if written and token in self._ends:  # read only where other rows go on
                    done[place] = float("inf")
                    continue
                done[place] = index
                text = "" if token is None else self._model.tokenizer.decode([token])
                for name, score in zip(self._names, scores[place, column].tolist(), strict=True):
                    shown = score if index else None
                    self.rows.append(Seen(call, row, place % size, index, text, name, shown, written))

    def _call_of(self, row: int, plan: Plan) -> int:
        """The number of the call: batches of one call hold different rows, so a row met again begins another."""
        if self._met.setdefault(row, plan) is not plan:
            self._call += 1
            self._met = {row: plan}
        return self._call

    def _repr_html_(self) -> str:
        def text_of(seen: Seen) -> tuple[Any, ...]:
            return seen.call, seen.row, seen.beam, seen.concept

        parts = []
        for (_, row, beam, concept), found in groupby(sorted(self.rows, key=text_of), key=text_of):
            text, spans = "", []
            for seen in found:
                spans.append((len(text), len(text) + len(seen.token), seen.score))
                text += seen.token
            title = f"{concept}, input {row + 1}" + (f", beam {beam + 1}" if beam else "")
            parts.append(fragment(title, text, spans))
        return "".join(parts)

    def __repr__(self) -> str:
        return f"Log({len(self.rows)} scores of {', '.join(self._names)})"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Watch(Edit):
    """Changes nothing; hands what it sees at its site to the log."""

    observes: ClassVar[bool] = True

    log: Log

    def apply(self, h: Float[Tensor, "rows tokens d"], context: Pass) -> Float[Tensor, "rows tokens d"]:
        self.log.note(self.site, h, context)
        return h


def watch(model: TextModel, *vectors: Any, force: bool = False) -> AbstractContextManager[Log]:
    """Within the block, log the score of `vectors` at every token that `model` reads or writes on this thread.

    Scores are those after all edits at the same site, whichever scope was opened first. The last token of a generated
    text is written but never read, so it has no score. Inputs that a capture runs once are logged once.

    Raises
    ------
    CovecError
        At the call, where a vector belongs to another model (`force` lets it through) or cannot be read.
    """
    chosen = [vector for given in vectors for vector in listed(given)] or listed([])
    readers = Readers.of(model, chosen, force=force).to(model.device)
    log = Log(model, chosen, readers)
    return _logging(log, edit(model, [Watch(site=site, log=log) for site in readers.sites]))


@contextmanager
def _logging(log: Log, scope: AbstractContextManager[TextModel]) -> Iterator[Log]:
    with scope:
        yield log
