"""A model and what fine-tuning made of it: two networks that read the same tokens and have the same sites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from covec import registry
from covec.errors import ModelError
from covec.models.fingerprint import PROBES
from covec.models.text import TextModel
from covec.models.tokens import Input


@dataclass(frozen=True)
class ModelPair:
    """A model and a fine-tuned one, of which rows can be compared entry by entry.

    Inputs are tokenised by the base's tokenizer for both, chats by its template.

    Parameters
    ----------
    base
        The model that fine-tuning began with.
    tuned
        What came of it; it may know tokens that were added since.

    Raises
    ------
    ModelError
        They are one network, differ in width, blocks, sites or dtype, or make other tokens of the same text.
    """

    base: TextModel
    tuned: TextModel

    def __post_init__(self) -> None:
        base, tuned = self
        if set(map(id, base.anatomy.blocks)) & set(map(id, tuned.anatomy.blocks)):
            raise ModelError(f"{base.name} and {tuned.name} are one network: load the base a second time, on its own")
        for what in ("width", "blocks", "dtype"):
            if (one := getattr(base, what)) != (other := getattr(tuned, what)):
                mend = "load both in float32" if what == "dtype" else "give a model and what fine-tuning made of it"
                raise ModelError(f"{base.name} and {tuned.name} differ in {what}, {one} and {other}: {mend}")
        if odd := sorted(map(str, {*base.sites} ^ {*tuned.sites})):
            raise ModelError(
                f"{base.name} and {tuned.name} differ in their sites, such as {odd[0]}: give a model and what "
                "fine-tuning made of it"
            )
        if text := _read_otherwise(base.tokenizer, tuned.tokenizer):
            raise ModelError(
                f"{base.name} and {tuned.name} differ in their tokenizers, as {text!r} shows: give a model that was "
                "tuned with the base's tokenizer, or load it with that"
            )

    def __iter__(self) -> Iterator[TextModel]:
        """The base, then the tuned one."""
        return iter((self.base, self.tuned))

    def capture(self, inputs: Sequence[Input], sites: Any = "resid.*", position: Any = "last", **options: Any) -> Any:
        """What both show for the same tokens: see `covec.activations.pairs.capture_pair`."""
        return registry.resolve("activations.capture_pair")(self, inputs, sites, position, **options)


def _read_otherwise(base: Any, tuned: Any) -> str | None:
    """A token or text that the two tokenizers do not read alike; None where there is none."""
    known = tuned.get_vocab()
    moved = (token for token, index in base.get_vocab().items() if known.get(token) != index)
    others = (probe for probe in PROBES if base(probe)["input_ids"] != tuned(probe)["input_ids"])
    return next(moved, None) or next(others, None)
