"""`covec bench detect`: every finder with every aggregator, and what they have to beat, over several concepts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from covec.bench import _controls as controls
from covec.bench import _ledger as ledger
from covec.bench import _subject as subjects
from covec.bench import _texts as texts
from covec.bench import _vectors as vectors
from covec.bench._controls import RandomDirection, WrongConcept
from covec.bench._subject import Subject, Trial
from covec.bench._vectors import Contestant, rows_of
from covec.bench.concepts import packaged
from covec.bench.result import DetectionBench, Row
from covec.concepts.examples import Examples
from covec.detect._aggregator import aggregators
from covec.errors import ExamplesError
from covec.models.batching import TOKEN_BUDGET
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.progress import Bar, Progress, silent
from covec.studies._settings import Names, Settings, check_settings
from covec.studies._sweep import Data, Rows, captured
from covec.writing import whole_folder

POSITIONS = "last,mean"
EMBEDDED = "sentence-embeddings"
SPAN = "span/mean"
Plan = dict[str, dict[str, str]]  # the key of what is left to do, by concept and method


def detect(
    model: TextModel,
    concepts: Mapping[str, Examples] | None = None,
    *,
    sites: str | Site | Sequence[str | Site] = "resid.*",
    finders: Names | None = None,
    position: str | Position | Sequence[str | Position] | None = None,
    encode: texts.Encode | None = None,
    out: str | Path | None = None,
    split_seed: int = 0,
    seed: int = 0,
    quick: bool = False,
    batch_tokens: int = TOKEN_BUDGET,
    progress: Progress = silent,
) -> DetectionBench:
    """Compare all ways to detect concepts: each finder with each aggregator, controls, and baselines of the raw text.

    Finders are fitted on training rows at every site and position. Site, position and threshold are chosen on
    validation rows for every aggregator, and test rows give the figures.

    Parameters
    ----------
    concepts
        By name; the packaged ones where None.
    sites, finders, seed, split_seed, quick, batch_tokens
        As in `covec.study`.
    position
        Where vectors are read from training rows; left out, `last`, `mean`, and `span/mean` where every row has a span.
    encode
        What makes a sentence a row [d], for the baseline; the embedded model of sentences where None.
    out
        A folder in which finished rows are kept: the same bench goes on there, or is not run again.

    Raises
    ------
    CovecError
        Before any work, where an option or a concept cannot be honoured.
    """
    begun = time.monotonic()
    given = {name: replace(one, name=name) for name, one in (packaged() if concepts is None else concepts).items()}
    settings = check_settings(
        model, given, sites=sites, finders=finders, position=_positions(given, position), continuations=None,
        split_seed=split_seed, seed=seed, quick=quick, nulls=1, exact_permutations=None, batch_tokens=batch_tokens,
    )  # fmt: skip
    if out is not None:
        with whole_folder(out):  # what cannot be written is told before any work
            pass
    bench = _Bench(model, settings, {name: _trial(one, split_seed) for name, one in given.items()}, encode)
    with progress("benching", len(given) * len(bench.names)) as bar:
        rows, notes, reused = bench.run(ledger.Ledger(None if out is None else Path(out), Row), progress, bar)
    told = dict.fromkeys(note for trial in bench.trials.values() for note in (*trial.examples.notes, *trial.notes))
    return DetectionBench(
        model=model.describe(),
        rows=tuple(rows),
        truths={name: (trial.labels(trial.test), trial.groups) for name, trial in bench.trials.items()},
        sizes={name: trial.sizes for name, trial in bench.trials.items()},
        settings={**bench.settings_json(), "versions": {name: version(name) for name in ("covec", "torch", "numpy")}},
        notes=(*told, *settings.notes, *notes),
        seconds=time.monotonic() - begun,
        reused=reused,
    )


@dataclass(frozen=True, eq=False)
class _Bench:
    """What is to be run, checked."""

    model: TextModel
    settings: Settings
    trials: Mapping[str, Trial]
    encode: texts.Encode | None

    @property
    def contestants(self) -> dict[str, Contestant]:
        """Methods that give a vector, by name."""
        found = {name: Contestant(name, "finder", _finder(kind)) for name, kind in self.settings.finders.items()}
        random = RandomDirection(self.settings.seed)
        found["random-direction"] = Contestant("random-direction", "control", lambda *_: random, steady=False)
        return found

    @property
    def text_methods(self) -> tuple[str, ...]:
        """Baselines of the raw text."""
        asked = () if self.unanswerable else ("prompting",)
        return ("bag-of-words", EMBEDDED, *asked)

    @property
    def names(self) -> tuple[str, ...]:
        """All methods, the wrong concept where there is another one."""
        wrong = ("wrong-concept",) if self.wrong else ()
        return (*self.contestants, *wrong, *self.text_methods)

    @cached_property
    def unanswerable(self) -> str:
        """Why the model cannot be asked for concepts; empty where it can."""
        return texts.unanswerable(self.model, self.trials.values())

    @cached_property
    def known(self) -> dict[str, Examples]:
        """The training rows of each concept."""
        return {name: trial.examples.subset(trial.train) for name, trial in self.trials.items()}

    @cached_property
    def wrong(self) -> dict[str, tuple[str, Rows]]:
        """The concept that stands in as the wrong one for each, with those of its training rows that are not judged.

        Empty where some concept has none.
        """
        found: dict[str, tuple[str, Rows]] = {}
        names = list(self.trials)
        for place, name in enumerate(names):
            judged = {self.trials[name].examples.keys[row] for row in self.trials[name].judged}
            for other in (names[place + 1 :] + names)[: len(names) - 1]:
                examples = self.known[other]
                rows = np.array([row for row, key in enumerate(examples.keys) if key not in judged], dtype=np.intp)
                if len(set(examples.labels[rows].tolist())) == 2:
                    found[name] = (other, rows)
                    break
        return found if len(found) == len(names) else {}

    def settings_json(self) -> dict[str, Any]:
        """The options as plain values."""
        kept = ("sites", "positions", "finders", "split_seed", "seed", "quick")
        return {name: value for name, value in self.settings.to_json().items() if name in kept}

    def run(self, book: ledger.Ledger[Row], progress: Progress, bar: Bar) -> tuple[list[Row], list[str], int]:
        """All rows, concept by concept; notes; and how many rows an earlier run had left."""
        done: dict[tuple[str, str], list[Row]] = {}
        plan: Plan = {}
        for concept in self.trials:
            for method in self.names:
                key = self._key(concept, method)
                if (rows := book.rows(concept, method, key)) is None:
                    plan.setdefault(concept, {})[method] = key
                else:
                    done[concept, method] = rows
                    bar.advance()
        reused, notes = sum(map(len, done.values())), []
        if self.unanswerable:
            notes.append(f"skipped: prompting ({self.unanswerable})")
        scorers: dict[str, texts.Scorer] = {"bag-of-words": texts.bag_of_words, "prompting": texts.prompting}
        if any(EMBEDDED in todo for todo in plan.values()):
            encode, note = (self.encode, "") if self.encode is not None else texts.encoder(self.model)
            scorers[EMBEDDED] = texts.sentence_embeddings(encode)
            notes += [note] if note else []
        for subject, wrong in self._subjects(plan, progress):
            concept = subject.trial.examples.name
            todo = plan[concept]
            contestants = [one for name, one in {**self.contestants, **wrong}.items() if name in todo]
            for method, rows in _run(
                subject, contestants, {name: scorers[name] for name in scorers if name in todo}, bar
            ):
                done[concept, method] = rows
                book.keep(concept, method, todo[method], rows)
        return [row for concept in self.trials for name in self.names for row in done[concept, name]], notes, reused

    def _subjects(self, plan: Plan, progress: Progress) -> Iterator[tuple[Subject, dict[str, Contestant]]]:
        """Every concept with something to do, with the wrong concept as a contestant."""
        settings = self.settings
        held: dict[str, Data] = {}
        for name in plan:
            other, rows = self.wrong.get(name, (name, None))
            new = {one: self.known[one] for one in (name, other) if one not in held}
            found = captured(
                self.model, new, settings.sites, settings.positions, batch_tokens=settings.batch_tokens,
                progress=progress,
            ) if new else {}  # fmt: skip
            held = {one: data for one, data in (held | found).items() if one in (name, other)}
            subject = Subject(
                self.trials[name], held[name], self.model, settings.sites, settings.positions, settings.batch_tokens,
                settings.seed,
            )  # fmt: skip
            wrong = Contestant("wrong-concept", "control", _wrong(held[other], rows), steady=False)
            yield subject, {wrong.name: wrong}

    def _key(self, concept: str, method: str) -> str:
        """The digest of all that the rows of a concept and method depend on."""
        others = {name: trial.examples.digest for name, trial in self.trials.items()}
        return ledger.digest(
            concept=concept,
            examples=self.trials[concept].examples.digest,
            columns=self.trials[concept].examples.extra,
            others=others if method == "wrong-concept" else {},
            method=method,
            encode=getattr(self.encode, "__qualname__", type(self.encode).__name__) if method == EMBEDDED else "",
            code=ledger.source(self.settings.finders.get(method, texts)),
            bench=[ledger.source(module) for module in (vectors, controls, subjects)],
            aggregators={name: ledger.source(one) for name, one in aggregators().items()},
            model=[self.model.fingerprint, str(self.model.dtype)],
            settings=[self.settings.to_json()[name] for name in ("sites", "positions", "split_seed", "seed")],
        )


def _run(
    subject: Subject, contestants: Sequence[Contestant], scorers: Mapping[str, texts.Scorer], bar: Bar
) -> Iterator[tuple[str, list[Row]]]:
    """The methods that are left for one concept, as each is done."""
    if contestants:
        yield from rows_of(subject, contestants, bar)
    for name, scorer in scorers.items():
        yield name, [texts.row_of(subject, name, scorer)]
        bar.advance()


def _finder(kind: Any) -> Any:
    return lambda subject, _, sites: subject.data.new(kind, sites)


def _wrong(other: Data, rows: Rows | None) -> Any:
    """The difference of means of another concept's `rows`."""
    return lambda _, position, sites: WrongConcept(
        torch.stack([other.difference_of_means(site, position, rows) for site in sites])
    )


def _positions(concepts: Mapping[str, Examples], given: Any) -> Any:
    if given is not None:
        return given
    marked = all(one.spans is not None and None not in one.spans for one in concepts.values())
    return f"{POSITIONS},{SPAN}" if marked else POSITIONS


def _trial(examples: Examples, split_seed: int) -> Trial:
    try:
        return Trial.of(examples.check(), split_seed)
    except ExamplesError as error:
        raise ExamplesError(f"{examples.name}: {error}") from None
