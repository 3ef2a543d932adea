"""Top-k concept-guided decoding: of the likeliest next tokens, the one after which the text is most along a concept.

"Frame Representation Hypothesis", arXiv:2412.07334, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from covec.activations.continuing import can_go_on, check_free, go_on, keep, repeat
from covec.activations.split import Split
from covec.errors import ExamplesError, ModelError
from covec.find._frames import Frame
from covec.models.text import TextModel
from covec.models.tokens import Input, Tokenized
from covec.progress import Progress, silent


@dataclass(frozen=True)
class Guided:
    """What was written after a prompt: its text and token ids, and the concept's total over prompt and text."""

    text: str
    ids: tuple[int, ...]
    total: float


def guided(
    model: TextModel,
    prompts: Sequence[Input],
    concept: Frame,
    *,
    candidates: int = 4,
    max_new_tokens: int = 16,
    progress: Progress = silent,
) -> list[Guided]:
    """Continuations of `prompts` that lean to `concept`; its difference to another leads away from that other.

    Parameters
    ----------
    candidates
        Next tokens to choose among, the likeliest; 1 is greedy decoding, 2 to 5 are usual.

    Raises
    ------
    ExamplesError
        No token is asked for, or no candidate.
    ModelError
        The model does not continue texts, keeps a recurrent state, or edits are in force.
    """
    if candidates < 1 or max_new_tokens < 1:
        raise ExamplesError(f"guided texts need a candidate and a token, not {candidates} and {max_new_tokens}")
    if not model.generates or not can_go_on(model):
        raise ModelError(f"{model.name} does not continue texts from cached keys and values: load another model")
    model.check_settled()
    check_free(model)
    found = []
    with progress(f"writing {len(prompts)} texts", len(prompts)) as bar, torch.no_grad():
        for prompt in model.tokenize(prompts, reply=True, offsets=False):
            found.append(_written(model, prompt, concept, candidates, max_new_tokens))
            bar.advance()
    return found


def _written(model: TextModel, prompt: Tokenized, concept: Frame, candidates: int, tokens: int) -> Guided:
    """One text, a token at a time: all candidates are read, and all but the best forgotten."""
    head, ends, ids = Split(model, "embed").logits, _ends(model), []
    hidden, past = go_on(model, [prompt.ids])
    along = concept.along(hidden)
    for _ in range(tokens):
        likely = head(hidden[:, -1])[0].topk(candidates).indices.tolist()
        repeat(past, candidates)
        read, past = go_on(model, [[token] for token in likely], past)
        grown = torch.cat([along.expand(candidates, -1, -1), concept.along(read)], 1)
        best = int(concept.projections(grown).sum(1).argmax())
        keep(past, [best], model.device)
        hidden, along = read[best : best + 1], grown[best : best + 1]
        ids.append(likely[best])
        if ids[-1] in ends:
            break
    text = model.tokenizer.decode(ids, skip_special_tokens=True)
    return Guided(text, tuple(ids), float(concept.projections(along).sum()))


def _ends(model: TextModel) -> set[int]:
    """The tokens that end a text."""
    end: Any = model.module.generation_config.eos_token_id  # type: ignore[union-attr]
    return set() if end is None else set(np.atleast_1d(end).tolist())
