"""Facts of a relation in texts that call for an object: where the subject ends, and where the object is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from covec.activations.answers import Answered
from covec.activations.capture import capture_tokens, forward
from covec.activations.jacobian import Linearised, linearise
from covec.errors import ExamplesError
from covec.models.batching import TOKEN_BUDGET, pack, pad
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Span

_MEAN = Position.parse("span/mean")


@dataclass(frozen=True)
class Facts:
    """Texts that call for an object.

    Parameters
    ----------
    asked
        The texts, each with its object as the answer.
    objects
        The objects, by text.
    sources
        The last token of each subject.
    """

    asked: Answered
    objects: tuple[str, ...]
    sources: tuple[int, ...]

    @classmethod
    def of(
        cls, model: TextModel, texts: Sequence[Any], spans: Sequence[Span | None] | None, objects: Sequence[Any] | None
    ) -> Facts:
        """The facts that `texts` call for, whose subjects are their `spans` of characters.

        Raises
        ------
        ExamplesError
            A row has no text, subject or object, or all have one object.
        ModelError
            The model does not continue texts.
        """
        spans, objects = (list(column or [None] * len(texts)) for column in (spans, objects))
        for row, (text, span, called) in enumerate(zip(texts, spans, objects, strict=True), 1):
            if not isinstance(text, str):
                raise ExamplesError(f"row {row} is no plain text: a relation needs texts that call for an object")
            if span is None:
                raise ExamplesError(f"row {row} has no subject: give the span of its characters in the text")
            if not isinstance(called, str) or not called.strip():
                raise ExamplesError(f"row {row} has no object: give the words that its text calls for")
        objects = tuple(called.strip() for called in objects)
        if len(set(objects)) < 2:
            count = f"{len(texts)} text{'' if len(texts) == 1 else 's'}"
            raise ExamplesError(
                f"the relation has {count} and one object, {objects[0]!r}: give texts of another object, too"
            )
        ends = [item.layout.span for item in model.tokenize(texts, spans=spans)]
        return cls(Answered.of(model, texts, objects), objects, tuple(end[1] - 1 for end in ends if end is not None))

    def __len__(self) -> int:
        return len(self.objects)

    def subset(self, rows: Sequence[int]) -> Facts:
        """Those at `rows`, in that order."""
        objects, sources = (tuple(self.objects[row] for row in rows), tuple(self.sources[row] for row in rows))
        return Facts(self.asked.subset(rows), objects, sources)

    def answered(self) -> list[int]:
        """The rows whose object, all tokens of it, is what the model writes next."""
        model, tokens, found = self.asked.model, self.asked.tokens, []
        for rows in pack([len(item.ids) for item in tokens], TOKEN_BUDGET, model.together):
            batch = pad(tokens, rows, pad_id=model.pad_id, masked=not model.causal, device=model.device)
            with torch.no_grad():
                greedy = self.asked.read_batch(batch, forward(model, batch)[0]).greedy
            found += [row for row, told in zip(rows, greedy.tolist(), strict=True) if told]
        return sorted(found)

    def told(self, site: Site) -> Float[Tensor, "n d"]:
        """What tells each object: the mean activation of the tokens that its own tokens follow."""
        return self._read(site, [(item.layout.last, item.layout.length) for item in self.asked.tokens])

    def at_subjects(self, site: Site) -> Float[Tensor, "n d"]:
        """The activation of the last token of each subject."""
        return self._read(site, [(source, source + 1) for source in self.sources])

    def _read(self, site: Site, spans: Sequence[Span]) -> Float[Tensor, "n d"]:
        tokens = [
            replace(item, layout=replace(item.layout, span=span))
            for item, span in zip(self.asked.tokens, spans, strict=True)
        ]
        return capture_tokens(self.asked.model, tokens, site, [_MEAN])[_MEAN][site]

    def linearised(self, row: int, sites: Sequence[Site], site: Site) -> Linearised:
        """What tells the object of `row` at `site`, linear in its subject at each of `sites`."""
        item = self.asked.tokens[row]
        targets = range(item.layout.last, item.layout.length)
        return linearise(self.asked.model, item.ids, self.sources[row], targets, sites, site)

    def balanced(self, rows: Sequence[int], count: int) -> list[int]:
        """`count` of `rows`, each text once, of all objects in turn; the same ones whatever order they stand in."""
        queues: dict[str, dict[tuple[int, ...], int]] = {}
        for row in sorted(rows, key=lambda row: self.asked.tokens[row].ids):
            queues.setdefault(self.objects[row], {}).setdefault((*self.asked.tokens[row].ids, self.sources[row]), row)
        turns = sorted(
            (turn, called, row) for called, queue in queues.items() for turn, row in enumerate(queue.values())
        )
        return [row for _, _, row in turns[:count]]
