"""Edits written into the weights: an ordinary checkpoint that any tool loads and that says what the edited model says.

An edit can be baked where it is an affine map of what one linear map of the network gives or takes, so that the map can
swallow it, and a constant added to the stream where the last map of the block has a bias, or may have one:

| at | an affine map `A h + b` | a constant `b` |
| --- | --- | --- |
| `attn.k`, `mlp.k`, a linear map by its path | into its weight and bias | into its bias |
| `neuron.k`, `head.k.j`, `key.k.j`, `value.k.j` | into the weight and bias of the map beside it | the same |
| `embed` | into the embeddings, from which the head is untied | the same |
| `resid.k` | where the same projection stands at `embed` and at every `attn` and `mlp` up to k | the bias of `mlp.k` |
| `final` | never | where that norm has a bias |

What weights cannot hold is refused: gates, other positions than `all`, edits that are not affine.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from torch import Tensor, nn

from covec.edits.affine import Affine, affine
from covec.edits.algebra import Edit
from covec.edits.scope import check, flatten
from covec.errors import FileError, ModelError
from covec.models.addends import SUBLAYERS
from covec.models.anatomy import Tap, text_config
from covec.models.fingerprint import PROBES
from covec.models.load import quietly
from covec.models.plan import edits_in_force
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.writing import whole_folder

_NEAR = 1e-4  # of a length: what rounding leaves
_LIMITS = {torch.float32: 1e-3, torch.float64: 1e-3}  # of the largest logit, between the edited and the baked model
_ROUNDING = 5e-2  # the same where weights are rounded to lower precision


def bake(model: TextModel, edits: Any, out: str | Path, *, force: bool = False) -> Path:
    """Write `edits` into a copy of the model's weights, and save that as the folder `out` for plain transformers.

    The folder holds configuration, weights in the model's dtype, and tokenizer. Before it gets its name, transformers
    reads it again and what it says is compared with what the edited model says.

    Parameters
    ----------
    edits
        One edit or a list of them, as for `model.edit`; each at position `all`, for weights act on every token.
    force
        Take another model's vector.

    Raises
    ------
    ModelError
        An edit, or this model, cannot be baked: what stands in the way is listed, and nothing is written.
    FileError
        There is something called `out`, or it cannot be written.
    """
    flat = flatten([edits])
    check(model, flat, force=force)
    _check_can_bake(model, flat)
    if Path(out).exists() or Path(out).is_symlink():
        raise FileError(f"{out} is there already, and baking replaces nothing: name a new folder")
    with whole_folder(out) as draft, quietly():
        baked = _Baker(model, flat).baked()
        try:
            baked.save_pretrained(draft)
            model.tokenizer.save_pretrained(draft)
        except SafetensorError as error:
            raise FileError(f"cannot write {out}: {error}") from error
        _check_same(model, flat, type(baked).from_pretrained(draft, dtype=model.dtype).to(model.device), force)
    return Path(out)


def _check_can_bake(model: TextModel, edits: Sequence[Edit]) -> None:
    """Refuse, in one line that lists all of it, what weights cannot hold."""
    model.check_settled()
    if edits_in_force(model.anatomy.body):
        raise ModelError("baking takes its edits as an argument: call it outside model.edit(...)")
    if not edits:
        raise ModelError("there are no edits to bake: give v.add(2, position='all'), say")
    if quantised := getattr(model.config, "quantization_config", None):
        kind = quantised.get("quant_method") if isinstance(quantised, dict) else quantised.quant_method
        raise ModelError(
            f"{model.name} is quantised ({getattr(kind, 'value', kind)}), whose weights are no numbers to add to: bake "
            "into what it was made of, then quantise that"
        )
    if not hasattr(model.module, "save_pretrained") or hasattr(model.module, "peft_config"):
        raise ModelError(f"{model.name} has adapters or was wrapped: merge them, then bake into the plain model")
    if any(weight.is_meta for weight in model.module.parameters()):
        raise ModelError(f"some weights of {model.name} are offloaded: load it without offloading")
    if wrong := list(dict.fromkeys(filter(None, map(_obstacle, edits)))):
        raise ModelError(f"cannot be baked: {'; '.join(wrong)}")


def _obstacle(edit: Edit) -> str:
    """What of one edit weights cannot hold; nothing where they can."""
    what = f"{type(edit).__name__} at {edit.site}"
    if edit.gate is not None:
        return f"{what} has a gate, and weights act always"
    if edit.schedule is not None:
        return f"{what} has a schedule, and weights act always"
    if edit.observes or affine.dispatch(type(edit)) is affine.dispatch(Edit):
        return f"{what} is no affine map"
    if edit.position.select != "all":
        return f"{what} acts on {edit.position.select!r}, and weights on every token: make it with position='all'"
    return ""


class _Baker:
    """A copy of a model that shares all weights but those that change."""

    def __init__(self, model: TextModel, edits: Sequence[Edit]) -> None:
        self.model, self.maps = model, _by_site(model, edits)
        self.config = copy.deepcopy(model.config)
        module = getattr(model.module, "_orig_mod", model.module)  # torch.compile wraps it
        self.paths = {part: name for name, part in module.named_modules()}
        self.module: Any = copy.deepcopy(module, {id(weight): weight for weight in module.parameters()})
        self.module.config = self.config

    def baked(self) -> Any:
        """The copy with all edits in its weights, and with the settings that say so."""
        for site, found in self.maps.items():
            if site.kind == "embed":
                self._embed(found)
            else:
                self._write(site, found)
        blank = self._blank()
        for name, weight in blank.state_dict().items():
            part = self.module.get_submodule(name.rpartition(".")[0])
            if name.endswith(".bias") and part.bias is None:  # it came with the one that was needed
                part.bias = _like(torch.zeros(weight.shape), part.weight)
        self.module.all_tied_weights_keys = blank.all_tied_weights_keys
        return self.module

    def _write(self, site: Site, found: Affine) -> None:
        """Write the map at `site` into the module that its tap stands at."""
        tap = self.model.anatomy.tap(site)
        part: Any = self.module.get_submodule(self.paths[tap.module])
        if _is_linear(part):
            bias = _into_linear(part, tap, found)
        elif found.moves or tap.end == "in" or getattr(part, "bias", None) is None:
            raise ModelError(f"what {type(part).__name__} gives at {site} is no linear map with a bias: use a scope")
        else:
            bias = _double(part.bias) + found.shift
        if part.bias is not None or bool(bias.any()):
            self._allow_bias(f"{self.paths[tap.module]}.bias", site)
            part.bias = _like(bias, part.weight)

    def _allow_bias(self, name: str, site: Site) -> None:
        """See that transformers gives the model a bias of that name, by a setting where it takes one."""
        if name in self._blank().state_dict():
            return
        settings = text_config(self.config)
        for flag in [key for key, value in settings.to_dict().items() if "bias" in key and value is False]:
            setattr(settings, flag, True)
            if name in self._blank().state_dict():
                return
            setattr(settings, flag, False)
        raise ModelError(
            f"a constant at {site} needs {name}, and {type(self.config).__name__} has no setting for such a bias: "
            "use a scope, or export the vector"
        )

    def _blank(self) -> Any:
        """A model of the settings as they are now, without numbers."""
        with torch.device("meta"):
            return type(self.module)(copy.deepcopy(self.config))

    def _embed(self, found: Affine) -> None:
        """Write a map of the input of block 0 into all embeddings that add up to it, of tokens and of places."""
        tokens, head = self.module.get_input_embeddings(), self.module.get_output_embeddings()
        within = {part for block in self.model.anatomy.blocks for part in block.modules()}
        names = [name for part, name in self.paths.items() if isinstance(part, nn.Embedding) and part not in within]
        parts = [self.module.get_submodule(name) for name in names]
        if any(part.weight.shape[1] != len(found.shift) for part in parts):
            raise ModelError("the embeddings of this model are not as wide as its stream: edit embed in a scope")
        if head is not None and head.weight is tokens.weight:
            self.config.tie_word_embeddings = text_config(self.config).tie_word_embeddings = False
        for part in parts:
            rows = found.turn(_double(part.weight).T).T
            part.weight = _like(rows + found.shift if part is tokens else rows, part.weight)


def _is_linear(part: Any) -> bool:
    """Whether it is a linear map whose weight is a matrix of numbers (GPT-2 stores it transposed)."""
    known = isinstance(part, nn.Linear) or type(part).__name__ == "Conv1D"
    return known and part.weight.ndim == 2 and part.weight.is_floating_point()


def _into_linear(part: Any, tap: Tap, found: Affine) -> Float[Tensor, "outputs"]:
    """Write an affine map of what a linear one takes or gives into its weight; returns what its bias then is."""
    transposed = not isinstance(part, nn.Linear)
    weight = (_double(part.weight).T if transposed else _double(part.weight)).clone()  # [outputs, inputs]
    bias = weight.new_zeros(len(weight)) if part.bias is None else _double(part.bias).clone()
    columns = slice(None) if tap.columns is None else tap.columns
    if tap.end == "in":
        bias += weight[:, columns] @ found.shift
        weight[:, columns] += weight[:, columns] @ found.left @ found.right
    else:
        weight[columns] = found.turn(weight[columns])
        bias[columns] = found.turn(bias[columns, None])[:, 0] + found.shift / tap.scale
    if found.moves:
        part.weight = _like(weight.T if transposed else weight, part.weight)
    return bias


def _by_site(model: TextModel, edits: Sequence[Edit]) -> dict[Site, Affine]:
    """One map for each site to write at: constants at `resid.k` go to what block k adds last."""
    maps: dict[Site, Affine] = {}
    for edit in edits:
        one = affine(edit)
        maps[edit.site] = maps[edit.site].then(one) if edit.site in maps else one
    stream = {site: maps.pop(site) for site in sorted(maps) if site.kind == "resid"}
    sources = dict(maps)
    for site, found in stream.items():
        if found.moves:
            _check_projected(model, site, found, sources)
        last = Site("mlp", site.block)
        if last not in model.anatomy.taps:
            raise ModelError(
                f"what block {site.block} adds last to the stream is not known here: edit {site} in a scope"
            )
        constant = Affine(found.left[:, :0], found.right[:0], found.shift)
        maps[last] = maps[last].then(constant) if last in maps else constant
        sources[site] = constant
    return maps


def _check_projected(model: TextModel, site: Site, found: Affine, maps: Mapping[Site, Affine]) -> None:
    """Refuse a map of the stream unless all that was added to the stream so far is such that it changes nothing."""
    added = [Site("embed"), *(Site(kind, block) for block in range(site.block + 1) for kind in SUBLAYERS)]
    for source in [one for one in added if one in model.anatomy.taps]:
        if source not in maps or not maps[source].kept_by(found):
            raise ModelError(
                f"a map of the stream at {site} fits no weights, for norms stand between: put the same projection, "
                f"to='zero', at embed and all attn and mlp up to block {site.block} (missing at {source})"
            )
    if early := [
        one for one in maps if one.kind == "resid" and bool((found.right @ maps[one].shift).abs().max() > _NEAR)
    ]:
        raise ModelError(f"the map at {site} undoes what is added at {early[0]}, and no weights do that: use a scope")


def _double(weight: Tensor) -> Tensor:
    return weight.detach().to("cpu", torch.float64)


def _like(value: Tensor, weight: Tensor) -> nn.Parameter:
    return nn.Parameter(value.to(weight.device, weight.dtype).contiguous(), requires_grad=weight.requires_grad)


def _check_same(model: TextModel, edits: Sequence[Edit], module: Any, force: bool) -> None:
    """Refuse to give a name to what does not say what the edited model says: blocks may do more than add."""
    apart, largest = 0.0, 0.0
    with torch.no_grad():
        for text in PROBES:
            ids = torch.tensor([model.tokenizer(text)["input_ids"]], device=model.device)
            with model.edit(*edits, force=force):
                wanted = model.module(input_ids=ids, use_cache=False)[0].float()
            found = module(input_ids=ids, use_cache=False)[0].float()
            apart, largest = max(apart, float((found - wanted).abs().max())), max(largest, float(wanted.abs().max()))
    if not apart <= _LIMITS.get(model.dtype, _ROUNDING) * largest:
        raise ModelError(
            f"baked, {model.name} says something else than edited (logits {apart / largest:.1%} of the largest "
            "apart): its blocks do more than add to the stream, or the edit is too strong for its dtype; use a scope"
        )
