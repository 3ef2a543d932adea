"""`covec bench steer`: ways to steer side by side, at equal divergence on neutral text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from covec.bench import _ledger as ledger
from covec.bench._meter import metered
from covec.bench._texts import Encode, encoder
from covec.bench.steering import _judge as judging
from covec.bench.steering import _subject, _ways
from covec.bench.steering._subject import Subject, packaged, subjects
from covec.bench.steering._ways import Way, ways
from covec.bench.steering.result import Row, SteeringBench
from covec.concepts.examples import Examples
from covec.concepts.packaged import neutral_prompts, neutral_texts
from covec.edits import divergence, dose
from covec.edits.divergence import Drift
from covec.edits.dose import doses as doses_of
from covec.errors import CovecError, ExamplesError, ModelError
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.writing import whole_folder

DOSES = (0.1, 0.3, 1.0)  # nats a token
_PROMPTS, _TOKENS, _TEXTS = 16, 24, 16  # prompts; new tokens of each; neutral texts that doses are measured on


def steer(
    model: TextModel,
    concepts: Mapping[str, Examples] | None = None,
    *,
    methods: Sequence[str] | None = None,
    doses: Sequence[float] = DOSES,
    prompts: Sequence[str] | None = None,
    max_new_tokens: int = _TOKENS,
    encode: Encode | None = None,
    out: str | Path | None = None,
    split_seed: int = 0,
    seed: int = 0,
    progress: Progress = silent,
) -> SteeringBench:
    """Compare ways to steer towards concepts: registered methods, plain addition, nulls, and prompting.

    Every method learns from training rows. Its strengths are those that move the model by each dose on neutral text;
    all doses then continue all prompts in one batch. The judge was trained on other rows.

    Parameters
    ----------
    concepts
        By name; the packaged ones where None.
    methods
        Which ways to steer, `addition` among them always; all that learn a concept from examples where None.
    doses
        Nats a token from the unsteered model, on neutral text.
    prompts
        What to continue; 16 packaged openings that lean nowhere where None.
    encode
        What makes a sentence a row [d], for the judge and for relevance; the embedded model of sentences where None.
    out
        A folder in which finished rows are kept: the same bench goes on there, or is not run again.

    Raises
    ------
    CovecError
        Before any work, where an option or a concept cannot be honoured.
    """
    begun = time.monotonic()
    if not model.generates:
        raise ModelError(f"{model.name} does not continue texts: load a causal language model for this bench")
    asked = tuple(neutral_prompts()[::2][:_PROMPTS] if prompts is None else prompts)
    if len(asked) < 4:
        raise ExamplesError(f"{len(asked)} prompts say too little: give four at least")
    found = subjects(model, packaged() if concepts is None else concepts, split_seed, seed)
    rows = ways(methods, len(found) > 1)
    levels = tuple(sorted({float(one) for one in doses}))
    if not levels or not all(np.isfinite(levels)) or levels[0] <= 0:
        raise CovecError(f"doses are numbers of nats a token above 0, not {', '.join(map(str, doses)) or 'none'}")
    if out is not None:
        with whole_folder(out):  # what cannot be written is told before any work
            pass
    bench = _Bench(model, found, rows, levels, asked, max_new_tokens, encode, seed)
    book = ledger.Ledger(None if out is None else Path(out), Row)
    kept, notes, reused = bench.run(book, progress)
    told = [note for subject in found.values() for note in (*subject.trial.examples.notes, *subject.trial.notes)]
    return SteeringBench(
        model=model.describe(),
        prompts=asked,
        rows=tuple(kept),
        settings={
            "doses": list(levels), "max_new_tokens": max_new_tokens, "site": str(next(iter(found.values())).site),
            "split_seed": split_seed, "seed": seed,
            "versions": {name: version(name) for name in ("covec", "torch", "numpy")},
        },
        notes=tuple(dict.fromkeys((*told, *notes))),
        seconds=time.monotonic() - begun,
        reused=reused,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Bench:
    """What is to be run, checked."""

    model: TextModel
    subjects: Mapping[str, Subject]
    ways: Sequence[Way]
    doses: tuple[float, ...]
    prompts: tuple[str, ...]
    new_tokens: int
    encode: Encode | None
    seed: int

    def run(self, book: ledger.Ledger[Row], progress: Progress) -> tuple[list[Row], list[str], int]:
        """All rows, concept by concept; notes; and how many rows an earlier run had left."""
        kept: list[Row] = []
        notes: list[str] = []
        reused = 0
        with progress("steering", len(self.subjects) * len(self.ways)) as bar:
            for subject in self.subjects.values():
                for way in self.ways:
                    key = self._key(subject, way)
                    rows = book.rows(subject.name, way.name, key)
                    if rows is not None:
                        reused += len(rows)
                    else:
                        try:
                            rows, found = self._rows(subject, way)
                        except CovecError as error:
                            rows, found = None, [f"skipped: {way.name} on {subject.name} ({error})"]
                        notes += found
                        if rows is not None:
                            book.keep(subject.name, way.name, key, rows)
                    kept += rows or []
                    bar.advance()
        return kept, notes, reused

    def _rows(self, subject: Subject, way: Way) -> tuple[list[Row], list[str]]:
        """The rows of one way for one concept, one a dose; and what it did not reach."""
        if way.learn is None:
            assert way.ask is not None
            asked = [way.ask(subject, prompt) for prompt in self.prompts]
            known = judging.known(self.model, [way.ask(subject, one[0]) for one in judging.questions()], [()])
            written = self.model.generate(asked, max_new_tokens=self.new_tokens)
            return [self._judged(subject, way, written, float(known[0]), (None, None, None), 0.0)], []
        learn = way.learn
        family, cost = metered(lambda: learn(subject))
        met = doses_of(self.drift, family, self.doses)
        reached = [one for one in met if one.reached]
        short = [f"{one.wanted:g}" for one in met if not one.reached]
        notes = [f"{way.name} on {subject.name} does not reach {', '.join(short)} nats a token"] if short else []
        edits = [family(one.strength) for one in reached]
        rows = []
        if edits:
            cells = [(prompt, made) for made in edits for prompt in self.prompts]
            texts = self.model.generate(
                [prompt for prompt, _ in cells], edits=[made for _, made in cells], max_new_tokens=self.new_tokens
            )
            known = judging.known(self.model, [one[0] for one in judging.questions()], edits)
            count = len(self.prompts)
            rows = [
                self._judged(
                    subject, way, texts[place * count : (place + 1) * count], float(known[place]),
                    (one.wanted, one.nats, one.strength), cost.seconds,
                )
                for place, one in enumerate(reached)
            ]  # fmt: skip
        return rows, notes

    def _judged(
        self,
        subject: Subject,
        way: Way,
        written: Sequence[str],
        known: float,
        dosed: tuple[float | None, float | None, float | None],
        seconds: float,
    ) -> Row:
        embedded = judging.embed(self.judge.encode, written)
        present = self.judge.rate(embedded)
        lost = judging.nats(self.model, self.prompts, written)
        relevant = judging.relevance(embedded, self.embedded_prompts, range(len(written)))
        return Row(
            subject.name, way.name, way.kind, *dosed,
            presence=tuple(present.pop(subject.name).tolist()),
            others={name: float(values.mean()) for name, values in present.items()},
            strain=tuple(np.exp(lost - self.plain_nats).tolist()),
            repetition=tuple(map(judging.repetition, written)),
            relevance=tuple(relevant.tolist()),
            known=known,
            texts=tuple(written),
            seconds=seconds,
        )  # fmt: skip

    @cached_property
    def drift(self) -> Drift:
        return Drift(self.model, neutral_texts()[:_TEXTS])

    @cached_property
    def judge(self) -> judging.Presence:
        return judging.Presence(self.subjects, self.encode or encoder(self.model)[0])

    @cached_property
    def embedded_prompts(self) -> Any:
        return judging.embed(self.judge.encode, self.prompts)

    @cached_property
    def plain_nats(self) -> Any:
        """Mean surprise a token of what is written without steering."""
        plain = self.model.generate(list(self.prompts), max_new_tokens=self.new_tokens)
        return judging.nats(self.model, self.prompts, plain)

    def _key(self, subject: Subject, way: Way) -> str:
        """The digest of all that the rows of a concept and way depend on."""
        return ledger.digest(
            bench="steer",
            concepts={name: one.trial.examples.digest for name, one in self.subjects.items()},
            concept=subject.name,
            way=way.name,
            code=[
                ledger.source(one) for one in (way.source or _ways, _ways, _subject, judging, divergence, dose, _Bench)
            ],
            encode=getattr(self.encode, "__qualname__", type(self.encode).__name__),
            model=[self.model.fingerprint, str(self.model.dtype)],
            settings=[self.doses, self.prompts, self.new_tokens, self.seed, subject.trial.train.tolist()],
        )
