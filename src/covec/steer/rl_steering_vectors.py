"""Vectors trained by reward: added at a few blocks, they make what is rewarded likelier to be written.

"Small Vectors, Big Effects: A Mechanistic Study of RL-Induced Reasoning via Steering Vectors", arXiv:2509.06608. Rate,
steps and sizes of groups are not given there; the advantage is leave-one-out, with one step a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from covec.concepts.bank import Bank
from covec.concepts.examples import Examples
from covec.concepts.judges import ClassifierJudge
from covec.edits.algebra import Edit
from covec.edits.objectives import PolicyGradient, Reward
from covec.edits.trainable import TrainableAdd, as_vector, zero_shifts
from covec.edits.training import Settings, train
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.tokens import Input
from covec.progress import Progress, silent
from covec.registry import method
from covec.steer._steering import Steering, provenance

SETTINGS = Settings(steps=20, rate=3e-2)


@method(
    "rl-steering-vectors",
    verb="steer",
    needs="model",
    card="rl-steering-vectors",
    cannot={"what no layer reads moves little": "what is rewarded is found by trial: another direction that is read"},
)
class RlSteeringVectors(Steering):
    """Vectors at one or several blocks, trained by policy gradient for the reward of what the model writes.

    The model stays as it is; prompts are continued under the vectors as they are at each step, and what is rewarded
    above the other continuations of its prompt becomes likelier. Vectors are added at every token but the first.

    Parameters
    ----------
    sites
        Where to add.
    reward
        Of the number of an input and the text that continues it; left out, the probability that the text shows the
        concept, by a classifier of the examples' words.
    settings
        How to train.
    group, prompts, new_tokens
        Continuations a prompt, prompts a step, and tokens that are written.
    seed
        Of samples and of the order of prompts.
    """

    def __init__(
        self,
        sites: str | Site | Sequence[str | Site] = "resid.50%",
        reward: Reward | None = None,
        settings: Settings = SETTINGS,
        group: int = 8,
        prompts: int = 4,
        new_tokens: int = 8,
        seed: int = 0,
    ) -> None:
        self.sites, self.reward, self.settings = sites, reward, settings
        self.group, self.prompts, self.new_tokens, self.seed = group, prompts, new_tokens, seed

    def fit(self, model: TextModel, examples: Examples, *, progress: Progress = silent) -> Self:
        """Learn from what the model writes after the first half of every example, or after the whole of a chat."""
        reward = _shown(examples) if self.reward is None else self.reward
        prompts = [_opening(one) for one in examples.check().inputs]
        common = {**provenance(model, examples, self.entry), "seed": self.seed}
        found = self.trained(model, prompts, reward, progress=progress)
        self.vectors = Bank([as_vector(examples.name, found, **common)])
        return self

    def trained(
        self, model: TextModel, prompts: Sequence[Input], reward: Reward, *, progress: Progress = silent
    ) -> tuple[TrainableAdd, ...]:
        """The shifts that are trained for `reward` on these prompts."""
        objective = PolicyGradient(
            model,
            prompts,
            reward,
            group=self.group,
            prompts_a_step=self.prompts,
            new_tokens=self.new_tokens,
            seed=self.seed,
        )
        return train(zero_shifts(model, self.sites, prompts), objective, self.settings, progress=progress).edits

    def edits(self, strength: float = 1.0) -> tuple[Edit, ...]:
        (vector,) = self._fitted().values()
        added: tuple[Edit, ...] = vector.add(strength)
        return added if strength else ()


def _shown(examples: Examples) -> Reward:
    """The probability that a text shows the concept of the examples."""
    judge = ClassifierJudge({examples.name: examples})
    return lambda _, text: float(judge.rate(examples.name, [text])[0]) / 2


def _opening(given: Any) -> Any:
    """The first half of a text's words; a chat is answered whole."""
    if not isinstance(given, str):
        return given
    words = given.split()
    return " ".join(words[: max(1, len(words) // 2)])
