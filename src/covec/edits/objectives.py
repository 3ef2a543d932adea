"""What edits are trained for: the next token, a teacher, a reward, or velocities.

The blocks below the lowest edit run once a text; every step runs those above.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from covec.activations.answers import Answered
from covec.activations.split import Split
from covec.edits.algebra import Edit
from covec.edits.scope import check, flatten, hooks
from covec.edits.trainable import TrainableEdit
from covec.errors import ExamplesError, ModelError
from covec.models.batching import TOKEN_BUDGET, Batch, pack, pad
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Input, Tokenized

Field = Callable[[torch.Generator], tuple[Tensor, Tensor, Tensor]]
Reward = Callable[[int, str], float]  # of the number of a prompt, and what continues it


@dataclass(frozen=True)
class Said:
    """What a model says under edits: logits of the tokens that are to come, which those are, and of which row each."""

    batch: Batch
    logits: Float[Tensor, "m v"]
    wanted: Int[Tensor, "m"]
    row: Int[Tensor, "m"]

    @property
    def losses(self) -> Float[Tensor, "m"]:
        """Nats of each."""
        return cross_entropy(self.logits, self.wanted, reduction="none")


class Reading:
    """Answers read again and again, under edits that change from step to step.

    Parameters
    ----------
    answered
        Prompts with their answers.
    own
        Further edits of every row, which act before those in training.
    """

    def __init__(self, answered: Answered, own: Sequence[Any] | None = None) -> None:
        if own is not None and len(own) != len(answered):
            raise ExamplesError(f"{len(own)} lists of edits for {len(answered)} prompts: give one list each")
        self.answered, self.model = answered, answered.model
        self.own = [flatten([row]) for row in own] if own is not None else [()] * len(answered)
        self._split: Split | None = None
        self._below: dict[int, Tensor] = {}

    def read(self, edits: Sequence[Any], rows: Sequence[int]) -> Said:
        """What the model says of the answers of `rows`."""
        given = flatten(edits)
        split = self._prepared(given)
        each = [(*self.own[row], *given) for row in rows]
        batch = pad(self.answered.tokens, rows, pad_id=self.model.pad_id, masked=False, device=self.model.device)
        with hooks(self.model, flatten(each)):
            last = split.decode(batch, self._stream(rows, batch), edits=each)
        places = [(place, layout.last, layout.length) for place, layout in enumerate(batch.layouts)]
        logits = split.logits(torch.cat([last[place, first:end] for place, first, end in places])).float()
        wanted = torch.tensor([token for row in rows for token in self.answered.answers[row]], device=logits.device)
        row = torch.tensor([place for place, first, end in places for _ in range(first, end)], device=logits.device)
        return Said(batch, logits, wanted, row)

    def _prepared(self, edits: tuple[Edit, ...]) -> Split:
        """The model, split below the lowest edit; the first time, all that is below runs."""
        if self._split is None:
            model = self.model
            if not model.generates:
                raise ModelError(f"{model.name} does not continue texts, and edits are trained by what it says next")
            model.check_settled()
            every = (*edits, *flatten(self.own))
            check(model, every)
            top = min((_block(model, site) for edit in every for site in _sites(edit)), default=0) - 1
            self._split = Split(model, Site("resid", top) if top >= 0 else "embed")
            tokens = self.answered.tokens
            for rows in pack([len(item.ids) for item in tokens], TOKEN_BUDGET, model.together):
                batch = pad(tokens, rows, pad_id=model.pad_id, masked=False, device=model.device)
                if (hidden := self._split.encode(batch)) is not None:
                    self._below |= {row: hidden[place, : len(tokens[row].ids)] for place, row in enumerate(rows)}
        return self._split

    def _stream(self, rows: Sequence[int], batch: Batch) -> Float[Tensor, "rows tokens d"] | None:
        if not self._below:
            return None
        kept = [self._below[row] for row in rows]
        whole = kept[0].new_zeros(*batch.ids.shape, kept[0].shape[-1])
        for place, one in enumerate(kept):
            whole[place, : len(one)] = one
        return whole


def _sites(edit: Edit) -> tuple[Site, ...]:
    return (edit.site,) if edit.gate is None else (edit.site, edit.gate.site)


def _block(model: TextModel, site: Site) -> int:
    """The first block of which a site's module is a part; 0 where it is a part of none."""
    module = model.anatomy.tap(site).module
    return next((place for place, block in enumerate(model.anatomy.blocks) if module in set(block.modules())), 0)


class _Rows:
    """Which rows a step takes: all in a random order, and again in another."""

    def __init__(self, count: int, at_once: int | None, seed: int) -> None:
        if not count:
            raise ExamplesError("there is nothing to train on: give one row at least")
        self.count, self.seed = count, seed
        self.at_once = count if at_once is None else min(at_once, count)

    def of(self, step: int) -> list[int]:
        per_round = self.count // self.at_once
        order = np.random.default_rng([self.seed, step // per_round]).permutation(self.count)
        first = step % per_round * self.at_once
        return [int(row) for row in order[first : first + self.at_once]]


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


class NextToken:
    """Mean nats a token of the answers.

    Parameters
    ----------
    answered
        Prompts with their answers, or whole texts (`Answered.whole`).
    own
        Further edits of every row, such as a vector that is put there.
    rows
        How many a step takes; all of them where None.
    """

    def __init__(
        self, answered: Answered, *, own: Sequence[Any] | None = None, rows: int | None = 8, seed: int = 0
    ) -> None:
        self.reading, self.rows = Reading(answered, own), _Rows(len(answered), rows, seed)
        self.digest = _digest("next token", answered.tokens, answered.answers, self.reading.own, rows, seed)

    def loss(self, edits: Sequence[TrainableEdit], step: int) -> Tensor:
        said = self.reading.read(edits, self.rows.of(step))
        return said.losses.mean() + sum(edit.loss(said.batch, said.logits) for edit in edits)


class Teaching:
    """What a teacher would say: the divergence from its distribution a token of the answers, and some of their loss.

    Parameters
    ----------
    answered
        Prompts with their answers, as the model reads them that is to learn.
    teacher
        The same answers, behind what the teacher reads. It is the model itself, under no edit.
    weight
        Of the answers' own nats a token, beside the divergence.
    rows, seed
        As of `NextToken`.
    """

    def __init__(
        self, answered: Answered, teacher: Answered, *, weight: float = 0.5, rows: int | None = 8, seed: int = 0
    ) -> None:
        if answered.answers != teacher.answers:
            raise ExamplesError("a teacher is asked for the very answers that are to be learned: give the same")
        self.reading, self.rows, self.weight = Reading(answered), _Rows(len(answered), rows, seed), weight
        self._teacher, self._said = Reading(teacher), dict[int, Tensor]()
        said = (answered.tokens, answered.answers, teacher.tokens)
        self.digest = _digest("teaching", *said, weight, rows, seed)

    def loss(self, edits: Sequence[TrainableEdit], step: int) -> Tensor:
        rows = self.rows.of(step)
        said, wanted = self.reading.read(edits, rows), self._taught(rows)
        divergence = (wanted.exp() * (wanted - said.logits.log_softmax(1))).sum(1)
        own = sum(edit.loss(said.batch, said.logits) for edit in edits)
        return divergence.mean() + self.weight * said.losses.mean() + own

    def _taught(self, rows: Sequence[int]) -> Float[Tensor, "m v"]:
        """The teacher's log-probabilities, which do not change."""
        if new := [row for row in rows if row not in self._said]:
            with torch.no_grad():
                said = self._teacher.read([], new)
            likely = said.logits.log_softmax(1)
            self._said |= {row: likely[said.row == place] for place, row in enumerate(new)}
        return torch.cat([self._said[row] for row in rows])


class PolicyGradient:
    """The reward of what is written, raised by the gradient of how likely it was (REINFORCE, one step a sample).

    Each prompt is continued several times under the edits as they are; a continuation's advantage is its reward less
    the mean of the others' (leave-one-out), and the loss the mean of the advantages times the log-probabilities,
    negated. Where all continuations of a prompt have one reward, nothing is learned of it.

    Parameters
    ----------
    reward
        Of the number of a prompt and the text that continues it.
    group
        Continuations a prompt.
    prompts_a_step
        How many prompts a step takes.
    new_tokens
        The most that are written.
    """

    def __init__(
        self,
        model: TextModel,
        prompts: Sequence[Input],
        reward: Reward,
        *,
        group: int = 8,
        prompts_a_step: int = 4,
        new_tokens: int = 8,
        seed: int = 0,
    ) -> None:
        if group < 2:
            raise ExamplesError(f"an advantage is over other continuations: give a group of 2 at least, not {group}")
        self.model, self.reward, self.group, self.new_tokens = model, reward, group, new_tokens
        self.tokens = model.tokenize(prompts, reply=True, offsets=False)
        self.rows, self.seed = _Rows(len(self.tokens), prompts_a_step, seed), seed
        self.rewards: dict[int, float] = {}  # the mean of each step
        self.digest = _digest("policy", list(self.tokens), group, prompts_a_step, new_tokens, seed)

    def loss(self, edits: Sequence[TrainableEdit], step: int) -> Tensor:
        rows = self.rows.of(step)
        written = sampled(self.model, [self.tokens[row] for row in rows], edits, self.group, self.new_tokens,
                          seed=_seed(self.seed, step))  # fmt: skip
        prompts = [row for row in rows for _ in range(self.group)]
        rewards = torch.tensor([self.reward(row, self._text(ids)) for row, ids in zip(prompts, written, strict=True)])
        self.rewards[step] = float(rewards.mean())
        others = rewards.view(-1, self.group)
        advantages = ((others - others.mean(1, keepdim=True)) * self.group / (self.group - 1)).flatten()
        answered = Answered.of_ids(self.model, [self.tokens[row] for row in prompts], written)
        said = Reading(answered).read(edits, range(len(prompts)))
        weights = advantages.to(said.losses)[said.row]
        own = sum(edit.loss(said.batch, said.logits) for edit in edits)
        return (weights * said.losses).sum() / len(prompts) + own

    def _text(self, ids: Sequence[int]) -> str:
        return str(self.model.tokenizer.decode(list(ids), skip_special_tokens=True))


def sampled(
    model: TextModel, prompts: Sequence[Tokenized], edits: Sequence[Any], times: int, new_tokens: int, *, seed: int
) -> list[tuple[int, ...]]:
    """Each prompt continued so many times under `edits`, at temperature 1: the tokens up to the end of the text."""
    batch = pad(prompts, range(len(prompts)), pad_id=model.pad_id, masked=True, device=model.device, left=True)
    mask = torch.ones_like(batch.ids) if batch.mask is None else batch.mask
    settings = {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "num_return_sequences": times}
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.no_grad(), torch.random.fork_rng(devices=devices), model.edit(*flatten(edits)):
        torch.manual_seed(seed)
        ids = model.module.generate(  # type: ignore[operator]
            input_ids=batch.ids, attention_mask=mask, max_new_tokens=new_tokens, pad_token_id=model.pad_id, **settings
        )
    return [_ended(row, model) for row in ids[:, batch.ids.shape[1] :].tolist()]


def _ended(ids: list[int], model: TextModel) -> tuple[int, ...]:
    """The tokens up to the one that ends the text, which is kept: it was chosen, too."""
    stops: Any = model.module.generation_config.eos_token_id  # type: ignore[union-attr]
    known = set(stops) if isinstance(stops, list) else {stops}
    first = next((place for place, token in enumerate(ids) if token in known), len(ids) - 1)
    return tuple(ids[: first + 1])


def _seed(seed: int, step: int) -> int:
    return int(np.random.SeedSequence([seed, step]).generate_state(1)[0])


class FlowMatching:
    """Velocities of a field that is known: the mean square by which those of a flow miss them.

    Parameters
    ----------
    drawn
        Of a random generator: points [n, d], times [n], and the velocities there [n, d].
    name
        What the field is called, by which a checkpoint knows it.
    """

    def __init__(self, drawn: Field, *, name: str = "", seed: int = 0) -> None:
        self.drawn, self.seed = drawn, seed
        self.digest = _digest("flow matching", name, seed)

    def loss(self, edits: Sequence[Any], step: int) -> Tensor:
        points, times, wanted = self.drawn(torch.Generator().manual_seed(_seed(self.seed, step)))
        missed = [edit.velocity(points[:, None], times, [0] * len(points))[:, 0] - wanted for edit in edits]
        return torch.stack([one.square().sum(1).mean() for one in missed]).sum()
