"""Function vectors: the sum of what a few attention heads give where a prompt shows a function by examples.

"Function Vectors in Large Language Models", arXiv:2310.15213.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from covec.activations.answers import Answered
from covec.concepts.examples import Examples
from covec.concepts.vector import ConceptVector
from covec.find._finder import Finder
from covec.find._mediation import CONFIRMED, PROMPTS
from covec.find._mediation import mediation as mediation
from covec.find._rows import Labels
from covec.models.plan import edits_in_force
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.registry import method

HEADS = 12


@method(
    "function-vectors",
    verb="find",
    needs="model",
    card="function-vectors",
    requires=("inputs", "task"),
    cannot={
        "what later layers read is found": "it is what heads write, those of later blocks too, and not what they read",
        "what no layer reads is not found": "heads are summed whole, with what they write and no later layer reads",
    },
)
class FunctionVectors(Finder):
    """The sum of the mean outputs, at a prompt's end, of the heads that carry the function which it shows.

    Positives are prompts that show a function by examples, negatives prompts whose examples show none; `task` is the
    answer that each asks for. `covec.concepts.demonstrations` makes such examples, and `function_vector` gives the
    vector as the paper adds it: at its own length.

    Parameters
    ----------
    heads
        Heads that are summed, at most a tenth of the model's. The paper takes 10 of 448.
    prompts
        Negatives on which the effects of heads are measured.
    confirmed
        Heads whose effect is measured by patching, those of the largest estimates.
    """

    def __init__(self, heads: int = HEADS, prompts: int = PROMPTS, confirmed: int = CONFIRMED) -> None:
        self.heads, self.prompts, self.confirmed = heads, prompts, confirmed

    @classmethod
    def check(cls, model: TextModel, examples: Examples) -> None:
        model.select("head.*")
        Answered.of(model, examples.inputs, examples.column("task") or ())

    def read_model(self, model: TextModel, sites: tuple[Site, ...], labels: Labels, width: int) -> Float[Tensor, "s d"]:
        named = None if labels.pairs is None else tuple(None if one is None else str(one) for one in labels.pairs)
        inputs, answers = tuple(labels.columns["inputs"]), tuple(labels.columns["task"])
        examples = Examples(inputs, labels.positive, pairs=named, extra={"task": answers})
        state = model.fingerprint, edits_in_force(model.anatomy.body)
        key = (model, state, examples.digest, self.prompts, self.confirmed)
        if key != getattr(self, "_key", None):  # a study asks for its sites in groups, and the heads are the same
            self._found = mediation(model, examples, prompts=self.prompts, confirmed=self.confirmed)
            self._key = key
        return self._found.vector(self.heads).expand(len(sites), -1)


def function_vector(
    model: TextModel,
    examples: Examples,
    site: str | Site,
    *,
    heads: int = HEADS,
    prompts: int = PROMPTS,
    confirmed: int = CONFIRMED,
) -> ConceptVector:
    """The function vector of `examples`, to be added after a block at the last token of a prompt.

    Strength 1 is its own length. The paper adds it after a third of the blocks; try several. Parameters and errors as
    in `FunctionVectors` and `mediation`.
    """
    (address,) = model.select(site)
    vector = mediation(model, examples, prompts=prompts, confirmed=confirmed).vector(heads)
    return ConceptVector.from_direction(
        examples.name,
        address,
        vector,
        write=vector,
        write_position=Position("last"),
        method="function-vectors",
        scale_from="native",
        model=model.describe(),
        data=examples.describe(),
    )
