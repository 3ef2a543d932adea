"""A model split at a site of the residual stream: below it the encoder, above it the head.

What depends on activations at the site alone (nulls, gradients, edits there) runs only the blocks above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from covec.activations.capture import forward, read
from covec.errors import ModelError
from covec.models.batching import Batch
from covec.models.sites import Site
from covec.models.taps import hook, with_hidden
from covec.models.text import TextModel


class Split:
    """`model` split after block k: at `resid.k`.

    Raises
    ------
    ModelError
        Where the site is not in the residual stream.
    """

    def __init__(self, model: TextModel, site: str | Site) -> None:
        self.model, self.site = model, Site.parse(site)
        if self.site.kind != "resid" or self.site.block >= model.blocks:
            raise ModelError(f"a model is split in its residual stream, such as at resid.5, not at {self.site}")
        self._container: Any = None

    def encode(self, batch: Batch) -> Float[Tensor, "rows tokens d"]:
        """The stream at the site, of every token of the batch, padding included."""
        kept: list[Tensor] = []
        with ExitStack() as scope:
            scope.enter_context(torch.no_grad())
            scope.callback(self._top.register_forward_hook(self._learn_container).remove)
            scope.enter_context(read(self.model, [self.site], lambda _, hidden: kept.append(hidden)))
            forward(self.model, batch)
        return kept[0].detach()

    def decode(self, batch: Batch, hidden: Float[Tensor, "rows tokens d"]) -> Float[Tensor, "rows tokens d"]:
        """The body's last hidden states when the stream at the site is `hidden`; only the blocks above run."""
        with self._from(hidden):
            return forward(self.model, batch)[0]

    def logits(self, hidden: Float[Tensor, "m d"]) -> Float[Tensor, "m vocabulary"]:
        """The head's logits of last hidden states, with all that the model does to them (scaling, soft caps)."""
        body = self.model.anatomy.body
        if self.model.module is body:
            raise ModelError(f"{self.model.name} has no language head")
        with _replaced(body, lambda *_, **__: _Last(hidden[None])):
            ids = torch.zeros(1, len(hidden), dtype=torch.long, device=hidden.device)
            return self.model.module(input_ids=ids, use_cache=False).logits[0]

    @property
    def _top(self) -> nn.Module:
        return self.model.anatomy.blocks[self.site.block]

    def _learn_container(self, _: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """What a block gives back (a tensor, a tuple, ...), its hidden states left out."""
        self._container = with_hidden(output, torch.empty(0))

    @contextmanager
    def _from(self, hidden: Tensor) -> Iterator[None]:
        """Within the block, blocks up to the site's pass their input on, and the stream after them is `hidden`."""
        if self._container is None:
            raise ModelError("encode a batch first: how the blocks hand on their stream is learned there")

        def idle(*args: Any, **kwargs: Any) -> Any:
            return with_hidden(self._container, args[0] if args else kwargs["hidden_states"])

        with ExitStack() as scope:
            for block in self.model.anatomy.blocks[: self.site.block + 1]:
                scope.enter_context(_replaced(block, idle))
            scope.callback(hook(self._top, "out", lambda _: hidden).remove)
            yield


@contextmanager
def _replaced(module: nn.Module, instead: Callable[..., Any]) -> Iterator[None]:
    """Within the block, `instead` runs in place of the module's own forward."""
    module.forward = instead
    try:
        yield
    finally:
        del module.forward


class _Last(tuple[Tensor]):
    """The output of a body that did not run: what a language model's forward takes from it."""

    def __new__(cls, hidden: Tensor) -> _Last:
        return super().__new__(cls, (hidden,))

    @property
    def last_hidden_state(self) -> Tensor:
        return self[0]

    def __getattr__(self, name: str) -> None:
        return None
