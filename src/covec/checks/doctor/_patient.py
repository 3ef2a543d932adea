"""The model under examination, seen without covec: plain calls, hooks of its own, the tokenizer's own ids."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from covec.errors import ModelError
from covec.models.text import TextModel

TEXTS = (
    "Rain.",
    "The hotel was clean.",
    "Water boils at 100 degrees; ice melts at 0.",
    "Who is it?",
    "A dull film: two hours that I shall never get back!",
    "Seven small boats left the harbour.",
    "She wrote it down, folded the paper and said nothing.",
    "No.",
)
_FEWEST = 4  # of these texts, which checks call by their place
_SPARE = 8  # tokens that a model must be able to write after a text
_UNLUCKY = 10  # times the limit that single rows may differ by in lower precision
Rows = dict[str, Float[Tensor, "tokens d"]]  # by what was read: `block 3`, `logits`


class Failed(Exception):
    """A law does not hold; the text says what was found."""


class DoesNotApply(Exception):
    """A law has no meaning for this kind of model; the text says why."""


class Patient:
    """A text model and what plain calls of it give."""

    def __init__(self, model: TextModel) -> None:
        both = getattr(model.config, "is_encoder_decoder", False)
        self.model, self.module = model, model.module.get_encoder() if both else model.module  # type: ignore[operator]
        self.exact = model.dtype in (torch.float32, torch.float64)
        self.limit = 1e-4 if self.exact else 3e-2
        ids = [list(model.tokenizer(text)["input_ids"]) for text in TEXTS]
        room = model.context - _SPARE if model.context else max(map(len, ids))
        fitting = [(text, row) for text, row in zip(TEXTS, ids, strict=True) if 0 < len(row) <= room]
        if len(fitting) < _FEWEST:
            raise ModelError(f"{model.name} reads at most {model.context} tokens, too few for the doctor's texts")
        self.texts, self.ids = [text for text, _ in fitting], [row for _, row in fitting]

    @cached_property
    def config(self) -> Any:
        """The configuration of the model's text part."""
        config = self.model.config
        return config.get_text_config() if hasattr(config, "get_text_config") else config

    @cached_property
    def blocks(self) -> nn.ModuleList | tuple[nn.Module, ...]:
        """The largest list of as many modules as the configuration has layers; covec's own where there is none."""
        depth = getattr(self.config, "num_hidden_layers", None)
        stacks = [part for part in self.module.modules() if isinstance(part, nn.ModuleList) and len(part) == depth]
        return max(stacks, key=_size) if stacks else self.model.anatomy.blocks

    @cached_property
    def depths(self) -> list[int]:
        """The first, the middle and the last block."""
        last = len(self.blocks) - 1
        return sorted({0, last // 2, last})

    @cached_property
    def alone(self) -> list[Rows]:
        """What a plain call of each text by itself shows."""
        return [self.see(torch.tensor([row]))[0] for row in self.ids]

    @property
    def middle(self) -> int:
        """The middle block, where edits are tried."""
        return self.depths[len(self.depths) // 2]

    @cached_property
    def shift(self) -> Float[Tensor, "d"]:
        """A random direction, half as long as a usual row after the middle block."""
        rows = self.alone[1][f"block {self.middle}"]
        drawn = torch.randn(rows.shape[1], generator=torch.Generator().manual_seed(0))
        return drawn / drawn.norm() * 0.5 * rows.norm(dim=1).median()

    def see(self, ids: Int[Tensor, "rows tokens"], mask: Int[Tensor, "rows tokens"] | None = None) -> list[Rows]:
        """What a plain call shows of every row at its own tokens: after three blocks, and the logits."""
        with listening({f"block {depth}": self.blocks[depth] for depth in self.depths}) as heard:
            heard["logits"] = [self.logits(ids, mask)]
        keep = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
        return [{name: found[0][row][keep[row]] for name, found in heard.items()} for row in range(len(ids))]

    def logits(self, ids: Int[Tensor, "rows tokens"], mask: Int[Tensor, "rows tokens"] | None = None) -> Tensor:
        """What a plain call returns: logits, or of a model without a head its last states [rows, tokens, d]."""
        options: dict[str, Tensor] = {}
        if mask is not None:
            options["attention_mask"] = mask.to(self.model.device)
            if not mask[:, 0].all() and "position_ids" in inspect.signature(self.module.forward).parameters:
                places = (mask.cumsum(1) - 1).clamp(min=0)  # as transformers' generate counts them
                options["position_ids"] = places.to(self.model.device)
        with torch.no_grad():
            output = self.module(input_ids=ids.to(self.model.device), **options)
        return first_tensor(output).float().cpu()

    def padded(self, rows: Sequence[int], *, left: bool) -> tuple[Tensor, Tensor]:
        """Ids and mask of texts padded to the longest, on one side [rows, tokens]."""
        width = max(len(self.ids[row]) for row in rows)
        ids = torch.full((len(rows), width), self.model.pad_id)
        mask = torch.zeros_like(ids)
        for place, row in enumerate(rows):
            size = len(self.ids[row])
            where = slice(width - size, width) if left else slice(0, size)
            ids[place, where], mask[place, where] = torch.tensor(self.ids[row]), 1
        return ids, mask

    def agree(self, what: str, found: Sequence[Rows], expected: Sequence[Rows]) -> float:
        """The largest distance between rows of the same name, which must keep the limit."""
        pairs = [(name, rows[name], true[name]) for rows, true in zip(found, expected, strict=True) for name in rows]
        return max(self.near(f"{what}, at {name},", rows, true) for name, rows, true in pairs)

    def near(self, what: str, found: Float[Tensor, "rows d"], expected: Float[Tensor, "rows d"]) -> float:
        """The distance between the rows of one text, which must keep the limit."""
        far = self.measure(distances(found, expected))
        if not far <= self.limit:
            raise Failed(f"{what} differ by {far:.1e} of the row's largest entry, {self.allowed}")
        return far

    def measure(self, apart: Float[Tensor, "rows"]) -> float:
        """What counts of the distances of a text's rows: the largest; in lower precision a tenth of it may do.

        There rounding alone may send a token to another expert, or tell in an unlucky row of small entries. So three
        rows in four keep the limit, and every row ten times that, which the row of another token does not.
        """
        if self.exact:
            return float(apart.max())
        return float(max(apart.quantile(0.75, interpolation="higher"), apart.max() / _UNLUCKY))

    @property
    def allowed(self) -> str:
        """The limit, for the detail of a check."""
        return f"limit {self.limit:.0e}" + ("" if self.exact else f" in three rows of four, {_UNLUCKY} times it in all")


def _size(part: nn.Module) -> int:
    return sum(weight.numel() for weight in part.parameters())


def distances(found: Float[Tensor, "rows d"], expected: Float[Tensor, "rows d"]) -> Float[Tensor, "rows"]:
    """The largest difference within each row, as a share of its largest entry; infinite where that is no number."""
    if found.shape != expected.shape:
        return torch.full((len(expected),), torch.inf)
    largest = expected.abs().amax(-1).clamp(min=torch.finfo(torch.float32).tiny)
    return ((found - expected).abs().amax(-1) / largest).nan_to_num(nan=torch.inf)


@contextmanager
def listening(parts: Mapping[str, nn.Module], end: str = "out") -> Iterator[dict[str, list[Tensor]]]:
    """Within the block, everything that `parts` give (or with `end="in"` take), in float32 on the processor."""
    heard: dict[str, list[Tensor]] = {name: [] for name in parts}

    def keep(name: str, value: Any) -> None:
        heard[name].append(first_tensor(value).detach().float().cpu().clone())  # blocks may add in place

    with ExitStack() as hooks:
        for name, part in parts.items():
            if end == "out":
                handle = part.register_forward_hook(lambda _, __, output, name=name: keep(name, output))
            else:
                handle = part.register_forward_pre_hook(
                    lambda _, args, kwargs, name=name: keep(name, args or kwargs["hidden_states"]), with_kwargs=True
                )
            hooks.callback(handle.remove)
        yield heard


def first_tensor(output: Any) -> Tensor:
    """What a module gives first, whatever holds it."""
    if isinstance(output, Tensor):
        return output
    values = output.values() if isinstance(output, Mapping) else output
    return next(value for value in values if isinstance(value, Tensor))
