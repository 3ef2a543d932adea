"""Delta activations: a fine-tuned model as one vector, how far it moves activations on a few prompts that ask nothing.

Such vectors of models tuned on one kind of data lie together, and those of mixed data lie near the sum of their parts.
Both networks have to be of one base, and are best compared in float32: rounding to bfloat16 is as large as what a short
fine-tuning changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from sklearn.metrics import silhouette_samples
from torch import Tensor
from torch.nn.functional import normalize

from covec.errors import ExamplesError
from covec.models.pair import ModelPair
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Input
from covec.registry import method
from covec.statistics.figure import Figure
from covec.statistics.permutation import p_value

_FRAMES = (
    "Below is an instruction that describes a task, with an input that belongs to it. Write a response.\n\n"
    "### Instruction:\n{task}\n\n### Input:\n{given}\n\n### Response:\n",
    "The following instruction states what is to be done; the input gives the details. Answer it.\n\n"
    "### Instruction:\n{task}\n\n### Input:\n{given}\n\n### Response:\n",
    "You are given an instruction and some input. Reply so that the request is met.\n\n"
    "### Instruction:\n{task}\n\n### Input:\n{given}\n\n### Response:\n",
    "Read the instruction and the input under it, then give the answer that was asked for.\n\n"
    "### Instruction:\n{task}\n\n### Input:\n{given}\n\n### Response:\n",
    "Here is a request together with its input. Complete it as it is stated.\n\n"
    "### Instruction:\n{task}\n\n### Input:\n{given}\n\n### Response:\n",
)
PROBES = tuple(frame.format(task="Please provide a response.", given="Input.") for frame in _FRAMES)


@dataclass(frozen=True)
class DeltaActivations:
    """One vector a fine-tuned model, and how well they lie together by their labels.

    `vectors` [m, d] are those of the models `names`; `figure` is their silhouette, `p` how often permuted labels give
    one as high.
    """

    vectors: Float[Tensor, "m d"]
    names: tuple[str, ...]
    labels: tuple[str, ...]
    figure: Figure
    p: float

    def nearest(self, vector: Float[Tensor, "d"]) -> list[tuple[str, float]]:
        """The models, those first whose vectors have the highest cosine with `vector`."""
        cosines = (normalize(self.vectors, dim=1) @ normalize(vector, dim=0)).tolist()
        return sorted(zip(self.names, cosines, strict=True), key=lambda item: -item[1])


@method("delta-activations", verb="measure", needs="model", card="delta-activations")
def delta_activations(
    base: TextModel,
    tuned: Mapping[str, TextModel],
    labels: Sequence[str],
    *,
    prompts: Sequence[Input] = PROBES,
    site: str | Site = "final",
    permutations: int = 1000,
    seed: int = 0,
) -> DeltaActivations:
    """Do fine-tuned models with one label move activations alike? Silhouette of their vectors, beside permuted labels.

    Parameters
    ----------
    base, tuned
        The model that all were tuned from, and those models by name.
    labels
        What each was tuned on; two models at least have each label.
    prompts
        Texts that ask for nothing in particular, and name no subject.
    site
        Where the last token is read; the output of the final norm, as in the paper, unless said otherwise.

    Raises
    ------
    ModelError
        A model is no pair with the base.
    ExamplesError
        There is no prompt, or labels do not allow a comparison.

    References
    ----------
    Xu et al., "Delta Activations: A Representation for Finetuned Large Language Models", arXiv:2509.04442.
    """
    if len(labels) != len(tuned) or not len(tuned):
        raise ExamplesError(
            f"{len(labels)} labels for {len(tuned)} models: give one each, and two models of two labels"
        )
    vectors = torch.stack([delta(ModelPair(base, model), prompts, site=site) for model in tuned.values()])
    figure, p = silhouette(vectors, labels, permutations=permutations, seed=seed)
    return DeltaActivations(vectors, tuple(tuned), tuple(labels), figure, p)


def delta(
    pair: ModelPair,
    prompts: Sequence[Input] = PROBES,
    *,
    site: str | Site = "final",
    position: str | Position = "last",
) -> Float[Tensor, "d"]:
    """The vector of a fine-tuned model: the mean over prompts of its activations minus those of its base."""
    return changes(pair, prompts, site=site, position=position).mean(0)


def changes(
    pair: ModelPair,
    prompts: Sequence[Input] = PROBES,
    *,
    site: str | Site = "final",
    position: str | Position = "last",
) -> Float[Tensor, "prompts d"]:
    """Activations of every prompt in the tuned model minus those in its base."""
    if not len(prompts):
        raise ExamplesError("there is no prompt: give one at least, or leave them out for those of covec's own")
    base, tuned = pair.capture(prompts, site, position)
    return tuned[site] - base[site]


def silhouette(
    vectors: Float[Tensor, "m d"], labels: Sequence[str], *, permutations: int = 1000, seed: int = 0
) -> tuple[Figure, float]:
    """Mean silhouette of `vectors` under `labels`, by 1 - cosine clipped to 0 and 1, and its p beside permuted labels.

    Raises
    ------
    ExamplesError
        Labels are not one a vector, are all the same, or one has a single vector.
    """
    kinds, codes, counts = np.unique(np.asarray(labels, dtype=object), return_inverse=True, return_counts=True)
    if len(codes) != len(vectors):
        raise ExamplesError(f"{len(codes)} labels for {len(vectors)} models: give one each")
    if len(kinds) < 2 or counts.min() < 2:
        raise ExamplesError(f"{len(kinds)} labels, the rarest of {counts.min()}: two labels of two models are needed")
    unit = normalize(vectors.double(), dim=1)
    distances = (1 - unit @ unit.T).clamp(0, 1).fill_diagonal_(0).numpy()
    rng = np.random.default_rng(seed)
    shuffled = (rng.permutation(codes) for _ in range(permutations))
    null = np.array([silhouette_samples(distances, one, metric="precomputed").mean() for one in shuffled])
    value = float(silhouette_samples(distances, codes, metric="precomputed").mean())
    how = f"mean silhouette of {len(kinds)} kinds by cosine; null: mean of {permutations} permutations of the labels"
    return Figure(value, null=float(null.mean()), n=len(vectors), how=how), float(p_value(value, null))


def additivity(mixed: Float[Tensor, "d"], one: Float[Tensor, "d"], other: Float[Tensor, "d"]) -> Figure:
    """Cosine of the vector of mixed data with the sum of its parts' vectors; null: the higher one with a part alone."""
    towards = normalize(torch.stack([one + other, one, other]), dim=1) @ normalize(mixed, dim=0)
    how = "cosine with the sum of the parts; null: the higher cosine with one of them"
    return Figure(float(towards[0]), null=float(towards[1:].max()), n=2, how=how)
