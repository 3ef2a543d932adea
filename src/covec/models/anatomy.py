"""Where the parts of a transformer stand, found from its module structure and not from a list of architectures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import nn

from covec.errors import ModelError
from covec.models.sites import Site, summary

_ATTENTION = re.compile(r"attn|attention", re.I)
_MLP = re.compile(r"mlp|feed_?forward|ffn|moe|experts", re.I)
_MIXER = re.compile(r"mixer|mamba|ssm", re.I)
_NORM = re.compile(r"norm|^ln", re.I)


@dataclass(frozen=True)
class Tap:
    """Where a site is read and written: one end of a module, and the columns of it (all where None)."""

    module: nn.Module
    end: str = "out"
    columns: slice | None = None


@dataclass(frozen=True)
class Anatomy:
    """The parts of one model: its body (without the language head), blocks, widths and the tap of every site."""

    body: nn.Module
    blocks: tuple[nn.Module, ...]
    width: int
    taps: dict[Site, Tap] = field(repr=False)

    def tap(self, site: Site) -> Tap:
        """The tap of `site`; a dotted path is looked up in the whole model. Unknown sites raise `ModelError`."""
        if site in self.taps:
            return self.taps[site]
        if site.kind == "module":
            try:
                return Tap(self.body.get_submodule(site.path), site.end)
            except AttributeError:
                body = type(self.body).__name__
                raise ModelError(
                    f"no module {site.path!r} in this model's {body}; its sites are {summary(tuple(self.taps))}"
                ) from None
        raise ModelError(f"no site {str(site)!r} in this model")


def dissect(module: nn.Module, config: object) -> Anatomy:
    """The anatomy of a transformers model.

    Raises
    ------
    ModelError
        Where no stack of blocks can be found.
    """
    body = getattr(module, "base_model", module)
    name, stack = _stack(body)
    blocks = tuple(stack)
    width = int(getattr(config, "hidden_size", None) or _embedding_width(module))
    taps = {Site("embed"): Tap(blocks[0], "in")}
    for index, block in enumerate(blocks):
        taps[Site("resid", index)] = Tap(block)
        taps.update(_block_taps(index, block, width, config))
    if final := _final_norm(body, name):
        taps[Site("final")] = Tap(final)
    return Anatomy(body, blocks, width, dict(sorted(taps.items(), key=lambda item: _order(item[0]))))


def _order(site: Site) -> tuple[int, int, int]:
    kinds = ("embed", "resid", "attn", "mixer", "mlp", "neuron", "head", "key", "value", "final")
    return (kinds.index(site.kind), site.block, site.head)


def _stack(body: nn.Module) -> tuple[str, nn.ModuleList]:
    """The outermost list of equal blocks that holds the most parameters, with its dotted name."""
    lists = [(name, part) for name, part in body.named_modules() if isinstance(part, nn.ModuleList) and len(part)]
    outer = [
        (name, part)
        for name, part in lists
        if not any(name.startswith(other + ".") for other, _ in lists)
        and all(len(list(block.children())) > 1 for block in part)
    ]
    if not outer:
        raise ModelError(f"no stack of transformer blocks in {type(body).__name__}: use covec's module models for it")
    return max(outer, key=lambda item: sum(weight.numel() for weight in item[1].parameters()))


def _embedding_width(module: nn.Module) -> int:
    return int(module.get_input_embeddings().weight.shape[1])  # type: ignore[operator]


def _block_taps(index: int, block: nn.Module, width: int, config: object) -> Iterator[tuple[Site, Tap]]:
    for name, child in block.named_children():
        kind = _kind(name, child)
        if kind is None:
            continue
        yield Site(kind, index), Tap(child)
        projection = _output_projection(child, width)
        if kind == "mlp" and projection is not None:
            yield Site("neuron", index), Tap(projection, "in")
        if kind == "attn" and projection is not None:
            yield from _head_taps(index, child, projection, config)


def _kind(name: str, child: nn.Module) -> str | None:
    words = (name, type(child).__name__)
    if any(_NORM.search(word) for word in words) or not list(child.children()):
        return None
    for kind, pattern in (("attn", _ATTENTION), ("mixer", _MIXER), ("mlp", _MLP)):
        if any(pattern.search(word) for word in words):
            return kind
    return None


def _linears(part: nn.Module) -> Iterator[tuple[str, nn.Module, int, int]]:
    """Name, module, inputs and outputs of every linear map (GPT-2's `Conv1D` stores its weight transposed)."""
    for name, child in part.named_modules():
        if hasattr(child, "in_features") and hasattr(child, "out_features"):
            yield name, child, int(child.in_features), int(child.out_features)
        elif type(child).__name__ == "Conv1D":
            inputs, outputs = child.weight.shape
            yield name, child, int(inputs), int(outputs)


def _output_projection(part: nn.Module, width: int) -> nn.Module | None:
    maps = [module for _, module, _, outputs in _linears(part) if outputs == width]
    return maps[-1] if maps else None


def _head_taps(index: int, attention: nn.Module, out: nn.Module, config: object) -> Iterator[tuple[Site, Tap]]:
    heads = int(getattr(config, "num_attention_heads", 0) or 0)
    maps = {module: (name, inputs, outputs) for name, module, inputs, outputs in _linears(attention)}
    if not heads or maps[out][1] % heads:
        return
    size = maps[out][1] // heads
    for head in range(heads):
        yield Site("head", index, head), Tap(out, "in", slice(head * size, (head + 1) * size))
    for kind in ("key", "value"):
        for module, (name, _, outputs) in maps.items():
            # A fused projection interleaves its parts in a way that only its own code tells: it has no such sites.
            if name.rpartition(".")[2] in (kind[0] + "_proj", kind, kind[0] + "_lin") and outputs % size == 0:
                for head in range(outputs // size):
                    yield Site(kind, index, head), Tap(module, "out", slice(head * size, (head + 1) * size))


def _final_norm(body: nn.Module, stack: str) -> nn.Module | None:
    """The norm that stands beside the stack of blocks and comes after it."""
    parent = body.get_submodule(stack.rpartition(".")[0])
    names = [name for name, _ in parent.named_children()]
    after = names[names.index(stack.rpartition(".")[2]) + 1 :]
    norms = [name for name in after if _NORM.search(name) or _NORM.search(type(getattr(parent, name)).__name__)]
    return getattr(parent, norms[0]) if norms else None
