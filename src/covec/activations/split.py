"""A model split below a site: what depends on activations there alone runs only the blocks above.

`encode` runs the lower blocks once; `decode` runs the upper ones as often as one likes, with a function at the site
(an edit, a null, a leaf for gradients).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from covec.activations.capture import forward, read
from covec.errors import ModelError
from covec.models.batching import Batch
from covec.models.sites import Site
from covec.models.taps import Borne, by_token, hidden_of, hook, uncompiled, with_hidden
from covec.models.text import TextModel

Visit = Callable[[Tensor], Tensor]


class Split:
    """`model` split at the last point of the residual stream that is not after `site`.

    For `resid.k` that is the site itself; for the parts of block k the stream before it. Sites of which the block is
    not known (dotted paths) split nothing: the whole body runs.
    """

    def __init__(self, model: TextModel, site: str | Site) -> None:
        model.check_whole()
        self.model, self.site = model, Site.parse(site)
        self.tap = model.anatomy.tap(self.site)
        known = {"resid": self.site.block, "final": model.blocks - 1, "embed": -1, "module": -1}
        self.top = known.get(self.site.kind, self.site.block - 1)  # the last block that need not run again
        self._container: Any = None

    def encode(self, batch: Batch) -> Float[Tensor, "rows tokens d"] | None:
        """The stream after the last lower block, of every token, padding included; None where nothing is below."""
        if self.top < 0:
            return None
        kept: list[Tensor] = []
        with ExitStack() as scope:
            scope.enter_context(torch.no_grad())
            scope.callback(self._last.register_forward_hook(Borne(self._learn_container)).remove)
            scope.enter_context(read(self.model, [Site("resid", self.top)], lambda _, hidden: kept.append(hidden)))
            forward(self.model, batch)
        return kept[0].detach()

    def decode(
        self,
        batch: Batch,
        hidden: Float[Tensor, "rows tokens d"] | None,
        visit: Visit | None = None,
        *,
        edits: Sequence[Any] | None = None,
    ) -> Float[Tensor, "rows tokens d"]:
        """The body's last hidden states, with `visit(activations) -> activations` at the site.

        `edits` as in `forward`; they act above the last lower block.
        """
        with ExitStack() as scope:
            scope.enter_context(uncompiled())
            if hidden is not None:
                scope.enter_context(self._from(hidden))
            if visit is not None:
                scope.callback(hook(self.tap.module, self.tap.end, self._at_site(visit, batch)).remove)
            return forward(self.model, batch, edits=edits)[0]

    def logits(self, hidden: Float[Tensor, "m d"]) -> Float[Tensor, "m vocabulary"]:
        """The head's logits of last hidden states, with all that the model does to them (scaling, soft caps)."""
        body = self.model.anatomy.body
        if self.model.module is body:
            raise ModelError(f"{self.model.name} has no language head")
        with uncompiled(), _replaced(body, lambda *_, **__: _Last(hidden[None])):
            ids = torch.zeros(1, len(hidden), dtype=torch.long, device=hidden.device)
            return self.model.module(input_ids=ids, use_cache=False).logits[0]

    def _at_site(self, visit: Visit, batch: Batch) -> Visit:
        """`visit` as a function of all that the site's module gives."""

        def seen(given: Tensor) -> Tensor:
            whole = by_token(given, batch.ids.shape, self.site)
            return self.tap.write(whole, visit(self.tap.read(whole))).reshape(given.shape)

        return seen

    @property
    def _last(self) -> nn.Module:
        return self.model.anatomy.blocks[self.top]

    def _learn_container(self, _: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """What a block gives back (a tensor, a tuple, ...), its hidden states left out."""
        self._container = with_hidden(output, torch.empty(0))

    @contextmanager
    def _from(self, hidden: Tensor) -> Iterator[None]:
        """Within the block, the lower blocks hand their input on, and the stream after them is `hidden`."""
        if self._container is None:
            raise ModelError("encode a batch first: how the blocks hand on their stream is learned there")

        def idle(*args: Any, **kwargs: Any) -> Any:
            return with_hidden(self._container, hidden_of(args[0] if args else kwargs["hidden_states"]))

        with ExitStack() as scope:
            for block in self.model.anatomy.blocks[: self.top + 1]:
                scope.enter_context(_replaced(block, idle))
            scope.callback(hook(self._last, "out", lambda _: hidden).remove)
            yield


@contextmanager
def _replaced(module: nn.Module, instead: Callable[..., Any]) -> Iterator[None]:
    """Within the block, `instead` runs in place of the module's own forward."""
    module.forward = Borne(instead, otherwise=module.forward)
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
