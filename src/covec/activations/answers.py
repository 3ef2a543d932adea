"""How likely answers are to follow prompts, of one token or of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from covec.activations.capture import forward
from covec.activations.split import Split
from covec.errors import ExamplesError, ModelError
from covec.models.batching import TOKEN_BUDGET, Batch, pack, pad
from covec.models.positions import Layout
from covec.models.text import TextModel
from covec.models.tokens import Input, Tokenized
from covec.models.vocabulary import ids_behind_space


class Read(NamedTuple):
    """What a model says of answers: how likely each is, and whether it would write it where it writes greedily."""

    log_probability: Float[Tensor, "n"]
    greedy: Bool[Tensor, "n"]


@dataclass(frozen=True)
class Answered:
    """Prompts, each with the answer that may follow it; of an answer of several tokens all count, in turn.

    `tokens` are the prompts and what the model reads of the answers: all tokens but the last. In their layouts `last`
    is the prompt's last token, from which on each token is followed by one of the answer. `answers` are the ids of all.
    """

    model: TextModel
    tokens: tuple[Tokenized, ...]
    answers: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, model: TextModel, prompts: Sequence[Input], answers: Sequence[str]) -> Answered:
        """The prompts, and answers that follow them behind a space.

        Raises
        ------
        ExamplesError
            An answer is no text or empty, or there is not one for each prompt.
        ModelError
            The model does not continue texts.
        """
        if not model.generates:
            raise ModelError(f"{model.name} does not continue texts, so that it answers none: load a language model")
        if len(prompts) != len(answers):
            raise ExamplesError(f"{len(answers)} answers for {len(prompts)} prompts: give one each")
        if bad := [row for row, answer in enumerate(answers) if not isinstance(answer, str) or not answer.strip()]:
            raise ExamplesError(f"row {bad[0] + 1} has no answer: give the text that is to follow its prompt")
        ids = [ids_behind_space(model.tokenizer, one) for one in answers]
        table = model.tokenize(prompts, reply=True, offsets=False)
        return cls(model, tuple(map(_followed, table, ids)), tuple(map(tuple, ids)))

    @classmethod
    def of_ids(cls, model: TextModel, prompts: Sequence[Tokenized], answers: Sequence[Sequence[int]]) -> Answered:
        """Prompts and the tokens that follow them, one at least."""
        return cls(model, tuple(map(_followed, prompts, answers)), tuple(map(tuple, answers)))

    @classmethod
    def whole(cls, model: TextModel, texts: Sequence[Input]) -> Answered:
        """Texts of which all that stands behind the first token is the answer to it; one token alone is refused."""
        read = model.tokenize(texts, offsets=False)
        if short := [row for row, item in enumerate(read) if len(item.ids) < 2]:
            raise ExamplesError(
                f"text {short[0] + 1} is a single token, behind which nothing is said: give a longer one"
            )
        first = [replace(item, ids=item.ids[:1], layout=Layout(item.layout.special[:1], 1, 0)) for item in read]
        return cls.of_ids(model, first, [item.ids[1:] for item in read])

    @property
    def complete(self) -> tuple[Tokenized, ...]:
        """The prompts with all tokens of their answers, which the position `answer` selects."""
        return tuple(map(_complete, self.tokens, self.answers))

    def __len__(self) -> int:
        return len(self.tokens)

    def subset(self, rows: Sequence[int]) -> Answered:
        """Those at `rows`, in that order."""
        tokens, answers = tuple(self.tokens[row] for row in rows), tuple(self.answers[row] for row in rows)
        return replace(self, tokens=tokens, answers=answers)

    def read(self, hidden: Float[Tensor, "m d"], rows: Sequence[int]) -> Read:
        """What last hidden states say of the answers of `rows`.

        Parameters
        ----------
        hidden
            The body's last hidden states of each row's tokens from the prompt's last one on, row after row.
        """
        wanted = torch.tensor([token for row in rows for token in self.answers[row]], device=hidden.device)
        likely = Split(self.model, "embed").logits(hidden).float().log_softmax(1)
        each = likely.gather(1, wanted[:, None])[:, 0], likely.argmax(1) == wanted
        sizes = [len(self.answers[row]) for row in rows]
        sums, whole = (part.split(sizes) for part in each)
        return Read(torch.stack([one.sum() for one in sums]), torch.stack([one.all() for one in whole]))

    def read_batch(self, batch: Batch, last: Float[Tensor, "rows tokens d"]) -> Read:
        """What the last hidden states of a batch of `tokens` say."""
        chosen = [last[place, layout.last : layout.length] for place, layout in enumerate(batch.layouts)]
        return self.read(torch.cat(chosen), batch.rows)

    def outcome(self) -> Read:
        """What the model says of all answers, under the edits in force."""
        self.model.check_settled()
        likely, greedy = torch.empty(len(self)), torch.empty(len(self), dtype=torch.bool)
        with torch.no_grad():
            for rows in pack([len(item.ids) for item in self.tokens], TOKEN_BUDGET, self.model.together):
                batch = pad(self.tokens, rows, pad_id=self.model.pad_id, masked=False, device=self.model.device)
                found = self.read_batch(batch, forward(self.model, batch)[0])
                likely[rows], greedy[rows] = found.log_probability.cpu(), found.greedy.cpu()
        return Read(likely, greedy)


def _followed(prompt: Tokenized, answer: Sequence[int]) -> Tokenized:
    """A prompt and all but the last token of its answer."""
    more = answer[:-1]
    layout = prompt.layout
    special = np.concatenate([layout.special, np.zeros(len(more), dtype=bool)])
    size = len(prompt.ids)
    span = (size, size + len(more)) if more else None
    return replace(prompt, ids=(*prompt.ids, *more), layout=Layout(special, size, size - 1, span))


def _complete(item: Tokenized, answer: Sequence[int]) -> Tokenized:
    prompt, last = item.layout.prompt, item.layout.last
    special = np.append(item.layout.special, False)
    layout = Layout(special, prompt, last, (prompt, prompt + len(answer)))
    return replace(item, ids=(*item.ids, answer[-1]), layout=layout)
