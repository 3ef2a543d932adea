"""ActivationReasoning: detectors say which concepts a text has, and rules what follows from them, with the proof.

"ActivationReasoning: Logical Reasoning in Latent Activation Spaces", arXiv:2510.18184.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covec.concepts.vector import ConceptVector
from covec.detect._detect import Detection, detect
from covec.detect._rules import Rule, Rules
from covec.detect._scores import Vectors, listed
from covec.errors import CovecError
from covec.models.text import TextModel
from covec.models.tokens import Input, one_or_several
from covec.reading import ordinary_file
from covec.registry import method

_LARGEST = 1 << 20  # bytes of a file of rules


@dataclass(frozen=True)
class Proposition:
    """One concept of one text: whether it `holds`, and why.

    `margin` is the score less the vector's threshold, in units of the concept, or follows from a rule's body: the least
    of a conjunction, the largest of a disjunction, the opposite of a negation. A concept that was read has a
    `detection`, one that was derived a `rule` with its `premises`.
    """

    concept: str
    margin: float
    detection: Detection | None = None
    rule: Rule | None = None
    premises: tuple[Proposition, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the text has the concept."""
        return self.margin > 0

    def lines(self, depth: int = 0) -> Iterator[str]:
        """The proof, from the conclusion down to what was read in the text."""
        said = f"{'  ' * depth}{self.concept} {'holds' if self.holds else 'fails'} ({self.margin:+.2f})"
        if self.rule is not None:
            yield f"{said} by {self.rule.place}: {self.rule}"
            for premise in self.premises:
                yield from premise.lines(depth + 1)
        elif self.detection is None:
            yield f"{said}: no rule derives it here"
        else:
            scored = [(token.score, token) for token in self.detection.tokens if token.score is not None]
            _, seen = max(scored, key=lambda pair: pair[0], default=(0.0, None))
            most = "" if seen is None else f", most at {seen.token!r} ({seen.start}:{seen.end})"
            yield f"{said}: read in the text{most}"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_json(self) -> dict[str, Any]:
        """Plain values, the proof with them."""
        return {
            "concept": self.concept,
            "holds": self.holds,
            "margin": self.margin if math.isfinite(self.margin) else None,
            "rule": None if self.rule is None else self.rule.text,
            "premises": [premise.to_json() for premise in self.premises],
        }


@dataclass(frozen=True, repr=False)
class Reasoning:
    """All propositions about one text, by concept."""

    text: str
    propositions: Mapping[str, Proposition]

    def __getitem__(self, concept: str) -> Proposition:
        return self.propositions[concept]

    @property
    def holding(self) -> tuple[str, ...]:
        """The concepts that the text has, read or derived."""
        return tuple(name for name, one in self.propositions.items() if one.holds)

    @property
    def derived(self) -> tuple[Proposition, ...]:
        """What rules say of the text, whether it holds or not."""
        return tuple(one for one in self.propositions.values() if one.rule is not None)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"text": self.text, "propositions": [one.to_json() for one in self.propositions.values()]}

    def __str__(self) -> str:
        return "\n".join([self.text, *(str(one) for one in self.derived if one.holds)])

    __repr__ = __str__


@method("activation-reasoning", verb="detect", card="activation-reasoning")
class ActivationReasoning:
    """Rules over detectors: what follows from the concepts that a text has, with an auditable proof.

    Each vector is a proposition: it holds where the text's score is above the vector's threshold, and else its negation
    does (a closed world). Rules are applied until nothing changes. A concept may have a vector and rules: it then holds
    where one of them says so.

    The paper's propositions are latents of a dictionary, of which the two strongest of each token count; here they are
    concept vectors with the aggregators and thresholds that a study chose, so none crowds out another. Rules with a
    circle are refused: what is negated in a circle has no one answer.

    Parameters
    ----------
    rules
        One a line, such as `bridge and (city or not rural) -> landmark`; names that are more than a word stand in
        double quotes, `#` starts a comment.
    """

    def __init__(self, rules: str | Sequence[str] | Rules) -> None:
        text = rules if isinstance(rules, str | Rules) else "\n".join(rules)
        self.rules = text if isinstance(text, Rules) else Rules.parse(text)

    @classmethod
    def read(cls, path: str | Path) -> ActivationReasoning:
        """With the rules of a text file; a file that is no text, or that cannot be read, raises `CovecError`."""
        with ordinary_file(path, CovecError, largest=_LARGEST) as file:
            try:
                text = file.read().decode("utf-8-sig")
            except UnicodeDecodeError:
                raise CovecError(f"{path} is no text in UTF-8: save the rules as such") from None
        return cls(Rules.parse(text, Path(path).name))

    def detect(
        self, model: TextModel, vectors: Vectors, inputs: Input | Sequence[Input], **options: Any
    ) -> Reasoning | list[Reasoning]:
        """What `vectors` and rules say of texts or chats; `options` are those of `covec.detect.detect`.

        Returns
        -------
        Reasoning or list
            One for one input, a list for several.

        Raises
        ------
        CovecError
            Two vectors have one name, a rule names a concept without a vector or rule, or what `detect` refuses.
        """
        chosen = listed(vectors)
        self.check(chosen)
        given, alone = one_or_several(inputs)
        found = detect(model, chosen, given, **options)
        assert isinstance(found, list)
        reasoned = self.follow(found, chosen)
        return reasoned[0] if alone else reasoned

    def check(self, vectors: Sequence[ConceptVector]) -> None:
        """Refuse vectors of one name, and rules that name a concept without a vector or rule."""
        names = [vector.name for vector in vectors]
        if twice := [name for name in names if names.count(name) > 1]:
            raise CovecError(f"two vectors are called {twice[0]!r}: rules would not know which; rename one")
        self.rules.check(names)

    def follow(self, detections: Sequence[Detection], vectors: Sequence[ConceptVector]) -> list[Reasoning]:
        """What follows from what `vectors` found in several texts, texts outer."""
        rows = [detections[start : start + len(vectors)] for start in range(0, len(detections), len(vectors))]
        thresholds = {vector.name: vector.threshold for vector in vectors}
        return [self.reason(row, thresholds) for row in rows]

    def reason(self, detections: Sequence[Detection], thresholds: Mapping[str, float]) -> Reasoning:
        """What follows from the detections of one text, given the threshold of every concept."""
        self.rules.check(list(thresholds))
        known = {
            one.concept: Proposition(one.concept, _margin(one.score - thresholds[one.concept]), one)
            for one in detections
        }
        for concept in self.rules.order:
            for rule in self.rules.by_head.get(concept, ()):
                margins = {name: known[name].margin for name in rule.body.concepts}
                margin = rule.body.margin(margins)
                if concept not in known or margin > known[concept].margin:
                    premises = tuple(known[name] for name in margins)
                    known[concept] = Proposition(concept, margin, None, rule, premises)
        return Reasoning(detections[0].text, known)


def _margin(difference: float) -> float:
    """A score at the threshold does not fire, so that its negation holds."""
    return difference or -math.ulp(0.0)
