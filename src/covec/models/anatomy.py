"""Where the parts of a transformer stand, found from its module structure and not from a list of architectures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from torch import Tensor, nn

from covec.errors import ModelError
from covec.models.sites import Site, summary

# What a part of a block is, told by its name and, where that says nothing, by its class. A linear attention keeps a
# recurrent state: it is a mixer.
_KINDS = {
    "mixer": re.compile(r"mixer|mamba|ssm|recurrent|linear_?attn|(^|_)conv$", re.I),
    "cross": re.compile(r"cross|enc(oder)?_?(dec_?)?att", re.I),
    "attn": re.compile(r"attn|attention", re.I),
    "mlp": re.compile(r"mlp|feed_?forward|ffn|moe|experts", re.I),
}
_EXPERTS = re.compile(r"experts?$|router|moe", re.I)
_WITHIN_EXPERTS = re.compile(r"((?:.+\.)?experts)\.")
_NORM = re.compile(r"norm|^ln", re.I)
# Norms of what a sublayer gives, before it is added. Elsewhere `post_attention_layernorm` is the one before the MLP:
# only a block that norms the MLP's output, too, norms attention's.
_AFTER_MLP = re.compile(r"post_(mlp|feed_?forward|ffn|moe)", re.I)
_AFTER_ATTENTION = (re.compile(r"post_self_att", re.I), re.compile(r"post_att", re.I))
_KEYS = {"key": ("k_proj", "key", "k_lin", "k"), "value": ("v_proj", "value", "v_lin", "v")}


@dataclass(frozen=True)
class Tap:
    """Where a site is read and written: one end of a module, the columns of it (all where None), and in which measure.

    The site's activations are `scale` times what the module gives (blocks may multiply what they add to the stream).
    """

    module: nn.Module
    end: str = "out"
    columns: slice | None = None
    scale: float = 1.0

    def read(self, hidden: Tensor) -> Tensor:
        """The site's activations in the hidden states of its module."""
        part = hidden if self.columns is None else hidden[..., self.columns]
        return part if self.scale == 1.0 else part * self.scale

    def write(self, hidden: Tensor, activations: Tensor) -> Tensor:
        """The hidden states with `activations` at the site; what stays the same does so bit for bit."""
        if self.scale != 1.0:
            part = hidden if self.columns is None else hidden[..., self.columns]
            activations = part + (activations - self.read(hidden)) / self.scale
        if self.columns is None:
            return activations
        whole = hidden.clone()
        whole[..., self.columns] = activations
        return whole


@dataclass(frozen=True)
class Anatomy:
    """The parts of one model: its body (without the language head), blocks, widths and the tap of every site.

    What is `shared` runs in several blocks, so that it is no site of any. `places` are the paths in the model, and the
    modules that stood there, of all that sites are found by.
    """

    body: nn.Module
    blocks: tuple[nn.Module, ...]
    width: int
    taps: dict[Site, Tap] = field(repr=False)
    shared: frozenset[nn.Module] = field(default=frozenset(), repr=False)
    places: tuple[tuple[str, nn.Module], ...] = field(default=(), repr=False)

    def replaced(self, module: nn.Module) -> str | None:
        """A path in the model where another module stands than when its anatomy was taken (adapters, say)."""
        for path, part in self.places:
            try:
                now = module.get_submodule(path)
            except AttributeError:
                return path
            if _uncompiled(now) is not part:
                return path
        return None

    def tap(self, site: Site) -> Tap:
        """The tap of `site`; a dotted path is looked up in the body. Unknown sites raise `ModelError`."""
        if site in self.taps:
            return self.taps[site]
        if site.kind == "module":
            if inside := _WITHIN_EXPERTS.match(site.path):
                raise ModelError(f"an expert of {inside[1]} sees only the tokens sent to it: name {inside[1]} itself")
            try:
                module = self.body.get_submodule(site.path)
            except AttributeError:
                raise ModelError(
                    f"{site.path!r} is neither a site nor a module of this model's {type(self.body).__name__}; "
                    f"its sites are {summary(tuple(self.taps))}"
                ) from None
            if module in self.shared:
                raise ModelError(f"{site.path} runs in several blocks, and a site needs a module of its own")
            return Tap(module, site.end)
        raise ModelError(f"no site {str(site)!r} in this model; it has {summary(tuple(self.taps))}")


def dissect(module: nn.Module, config: object) -> Anatomy:
    """The anatomy of a transformers model: of its text tower where it has others, of its encoder where it has both.

    Raises
    ------
    ModelError
        Where no stack of blocks can be found, or where one block serves several layers.
    """
    body, name, stack = _tower(module, config)
    config = text_config(config)
    blocks = tuple(map(_uncompiled, stack))
    layers = int(getattr(config, "num_hidden_layers", 0) or 0)
    distinct = len(set(blocks))
    if max(layers, len(blocks)) > distinct:
        raise ModelError(
            f"{type(body).__name__} runs {distinct} blocks as {max(layers, len(blocks))} layers, and a site needs a "
            f"block of its own; where blocks were cut off, set config.num_hidden_layers to {distinct}"
        )
    times = Counter(part for block in blocks for part in block.modules())
    shared = frozenset(part for part, count in times.items() if count > 1)
    width = int(getattr(config, "hidden_size", None) or _embedding_width(module))
    taps = {Site("embed"): Tap(blocks[0], "in")}
    for index, block in enumerate(blocks):
        taps[Site("resid", index)] = Tap(block)
        taps.update(_block_taps(index, block, width, config))
    if final := _final_norm(body, name):
        taps[Site("final")] = Tap(final)
    own = {site: taps[site] for site in sorted(taps, key=_order) if taps[site].module not in shared}
    known = {body, *blocks, *(tap.module for tap in own.values())}
    places = tuple((path, part) for path, part in module.named_modules() if part in known)
    return Anatomy(body, blocks, width, own, shared, places)


def _order(site: Site) -> tuple[int, int, int]:
    kinds = ("embed", "resid", "attn", "mixer", "mlp", "neuron", "head", "key", "value", "final")
    return (kinds.index(site.kind), site.block, site.head)


def text_config(config: Any) -> Any:
    """The part of a model's configuration that tells of its text tower."""
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _tower(module: Any, config: Any) -> tuple[nn.Module, str, nn.ModuleList]:
    """The module that reads token ids, and in it the stack of blocks with its dotted name.

    It is the smallest one that holds both the token embedding and the blocks: some language models (OPT) pass their
    `base_model` by. Where there are other towers, it is the one that joins them, for only that sees the ids.
    """
    both = getattr(config, "is_encoder_decoder", False)
    whole = module.get_encoder() if both else getattr(module, "base_model", module)
    embedding = getattr(module, "get_input_embeddings", lambda: None)()
    none: list[str] = []
    beside = next((name.split(".") for name, part in whole.named_modules() if part is embedding), none)
    path, stack = _stack(whole, beside)
    if not beside or text_config(config) is not config:
        return whole, path, stack
    shared = _shared(path.split("."), beside)
    return whole.get_submodule(".".join(shared)), ".".join(path.split(".")[len(shared) :]), stack


def _stack(body: nn.Module, beside: list[str]) -> tuple[str, nn.ModuleList]:
    """The outermost list of blocks, with its dotted name: of several the one nearest to `beside`, or largest."""
    lists = [(name, part) for name, part in body.named_modules() if isinstance(part, nn.ModuleList) and len(part)]
    outer = [
        (name, part)
        for name, part in lists
        if not any(name.startswith(other + ".") for other, _ in lists)
        and all(len(list(_linears(block))) > 1 for block in part)
    ]
    if not outer:
        raise ModelError(f"no stack of transformer blocks in {type(body).__name__}: use covec's module models for it")

    def nearness(item: tuple[str, nn.ModuleList]) -> tuple[int, int]:
        shared = _shared(item[0].split("."), beside)
        return len(shared), sum(weight.numel() for weight in item[1].parameters())

    return max(outer, key=nearness)


def _uncompiled(block: nn.Module) -> nn.Module:
    """The block itself, where `torch.compile` has wrapped it alone."""
    return getattr(block, "_orig_mod", block)


def _shared(one: list[str], other: list[str]) -> list[str]:
    """The beginning that two paths share."""
    pairs = zip(one, other, strict=False)
    return [name for name, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]


def _embedding_width(module: nn.Module) -> int:
    return int(module.get_input_embeddings().weight.shape[1])  # type: ignore[operator]


def _block_taps(index: int, block: nn.Module, width: int, config: object) -> Iterator[tuple[Site, Tap]]:
    parts = _sublayers(block)
    scale = float(getattr(block, "residual_multiplier", 1.0))
    after = _post_norms(block)
    parts.setdefault("mlp", [nn.ModuleList(parts.get("", []))])  # where its layers stand in the block one by one
    for kind in ("attn", "mixer", "mlp"):
        found = parts.get(kind, [])
        if not found or (kind == "mlp" and len(found) > 1):  # several in parallel add up at no one place
            continue
        part = found[0]
        out = None if kind == "mixer" or _is_mixture(part) else _output_projection(part, width)
        if out is None and isinstance(part, nn.ModuleList):
            continue
        yield Site(kind, index), Tap(after.get(kind) or out or part, scale=scale)
        if kind == "mlp" and out is not None:
            yield Site("neuron", index), Tap(out, "in")
        if kind == "attn" and out is not None:
            yield from _head_taps(index, part, out, config)


def _sublayers(block: nn.Module) -> dict[str, list[nn.Module]]:
    """The parts of a block that hold weights, by kind ("" where no name tells it); lists are looked into."""
    found: dict[str, list[nn.Module]] = {}
    for name, child in block.named_children():
        if isinstance(child, nn.ModuleList):
            for kind, inner in _sublayers(child).items():
                found.setdefault(kind, []).extend(inner)
        elif any(_linears(child)) or any(weight.ndim > 1 for weight in child.parameters()):  # bytes may be buffers
            words = (name, type(child).__name__)
            kinds = (kind for word in words for kind, pattern in _KINDS.items() if pattern.search(word))
            found.setdefault(next(kinds, ""), []).append(child)
    return found


def _is_mixture(part: nn.Module) -> bool:
    """Whether a part sends every token to some of several experts, so that it has no one hidden layer."""
    return any(_EXPERTS.search(name.rpartition(".")[2]) for name, _ in part.named_modules())


def _post_norms(block: nn.Module) -> dict[str, nn.Module]:
    """The norm of what attention and MLP give, where a block norms that before it adds it to the stream."""
    norms = {name: child for name, child in block.named_children() if _NORM.search(name)}
    mlp = next((child for name, child in norms.items() if _AFTER_MLP.search(name)), None)
    if mlp is None:
        return {}
    attention = [child for pattern in _AFTER_ATTENTION for name, child in norms.items() if pattern.search(name)]
    return {"mlp": mlp, **({"attn": attention[0]} if attention else {})}


def _linears(part: Any, name: str = "") -> Iterator[tuple[str, nn.Module, int, int]]:
    """Name, module, inputs and outputs of every linear map (GPT-2's `Conv1D` stores its weight transposed).

    Maps within a map (adapters) belong to it.
    """
    if isinstance(getattr(part, "in_features", None), int) and isinstance(getattr(part, "out_features", None), int):
        yield name, part, part.in_features, part.out_features
    elif type(part).__name__ == "Conv1D":
        inputs, outputs = part.weight.shape
        yield name, part, int(inputs), int(outputs)
    else:
        for below, child in part.named_children():
            yield from _linears(child, below)


def _output_projection(part: nn.Module, width: int) -> nn.Module | None:
    maps = [module for _, module, _, outputs in _linears(part) if outputs == width]
    return maps[-1] if maps else None


def _head_taps(index: int, attention: nn.Module, out: nn.Module, config: object) -> Iterator[tuple[Site, Tap]]:
    heads = int(getattr(config, "num_attention_heads", 0) or 0)
    maps = {part: (name, inputs, outputs) for name, part, inputs, outputs in _linears(attention)}
    if not heads or maps[out][1] % heads:
        return
    size = maps[out][1] // heads
    for head in range(heads):
        yield Site("head", index, head), Tap(out, "in", slice(head * size, (head + 1) * size))
    # A fused projection interleaves its parts in a way that only its own code tells: it has no such sites.
    found = {kind: [part for part in maps if maps[part][0] in names] for kind, names in _KEYS.items()}
    shared = next((maps[part][2] // size for part in found["value"] if maps[part][2] % size == 0), 0)
    for kind, parts in found.items():
        for part in parts:
            own = maps[part][2] // max(1, shared)  # keys may be wider than values, which are as wide as the output's
            if shared and maps[part][2] == shared * own:
                for head in range(shared):
                    yield Site(kind, index, head), Tap(part, "out", slice(head * own, (head + 1) * own))


def _final_norm(body: nn.Module, stack: str) -> nn.Module | None:
    """The norm beside the stack of blocks that stands behind it, or that is called final (OPT declares it before).

    BERT's generation writes `LayerNorm` and norms within its blocks: beside them it norms relative positions.
    """
    path, _, last = stack.rpartition(".")
    names = [name for name, _ in body.get_submodule(path).named_children()]
    parts = dict(body.get_submodule(path).named_children())
    norms = [name for name in names if _NORM.search(name) or _NORM.search(type(parts[name]).__name__)]
    behind = names[names.index(last) :]
    found = [name for name in norms if "final" in name or (name in behind and name != "LayerNorm")]
    return parts[found[-1]] if found else None
