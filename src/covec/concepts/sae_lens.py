"""Dictionaries in the folders that SAE Lens writes: `cfg.json` beside `sae_weights.safetensors`.

Sparse autoencoders of the architectures standard, gated, jumprelu and topk, of version 6 and before. The rules are
those of its own classes; what rescales every activation by itself, or by a number that the folder does not hold, is
refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from covec.concepts.dictionary import Dictionary, Gated
from covec.errors import CovecError, FileError
from covec.models.sites import Site
from covec.reading import ordinary_file, unique_keys

_LONGEST = 2**20  # bytes of cfg.json
_RENAMED = {"hook_point": "hook_name", "hook_point_head_index": "hook_head_index", "activation_fn_str": "activation_fn"}
_PLACES = {  # what stands after `blocks.k.` in the name of a hook
    "hook_resid_post": "resid",
    "hook_attn_out": "attn",
    "hook_mlp_out": "mlp",
    "mlp.hook_post": "neuron",
}
_TENSORS = {
    "standard": ("b_enc",),
    "jumprelu": ("b_enc", "threshold"),
    "topk": ("b_enc",),
    "gated": ("b_gate", "b_mag", "r_mag"),
}


def load_dictionary(folder: str | Path, site: str | Site | None = None) -> Dictionary:
    """The dictionary in a folder that SAE Lens wrote.

    Parameters
    ----------
    site
        Where it reads, in place of what the folder says.

    Raises
    ------
    FileError
        The folder does not hold one, it is damaged, or its kind is not known here.
    """
    folder = Path(folder)
    settings = _settings(folder / "cfg.json")
    path = folder / "sae_weights.safetensors"
    with ordinary_file(path) as file:
        try:
            tensors = {name: tensor.float() for name, tensor in safetensors.torch.load(file.read()).items()}
            found = _dictionary(settings, tensors, folder.name or "dictionary")
        except (CovecError, ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
            raise FileError(f"{path} is no dictionary that can be read here: {error}") from error
    return found if site is None else found.at(site)


def _settings(path: Path) -> dict[str, Any]:
    """What `cfg.json` says, in the words of version 6, its metadata among the rest."""
    with ordinary_file(path, largest=_LONGEST) as file:
        try:
            read = json.loads(file.read().decode(), object_pairs_hook=unique_keys)
        except (ValueError, RecursionError) as error:
            raise FileError(f"{path} is no JSON: {error}") from error
    if not isinstance(read, dict) or not isinstance(read.get("metadata", {}), dict):
        raise FileError(f"{path} is not the settings of a dictionary")
    settings = {_RENAMED.get(key, key): value for key, value in {**read, **read.get("metadata", {})}.items()}
    extra = settings.get("activation_fn_kwargs")
    if settings.get("activation_fn") == "topk" and isinstance(extra, dict):
        settings |= {"architecture": "topk", "k": extra.get("k")}
    return settings


def _dictionary(settings: Mapping[str, Any], tensors: dict[str, Tensor], name: str) -> Dictionary:
    architecture = settings.get("architecture", "standard")
    if architecture not in _TENSORS:
        raise FileError(f"its architecture is {str(architecture)[:50]!r}; known: {', '.join(_TENSORS)}")
    if settings.get("normalize_activations", "none") not in ("none", None, False):
        how = str(settings["normalize_activations"])[:50]
        raise FileError(f"it rescales activations ({how}): fold that into the weights with SAE Lens, and save it again")
    if settings.get("activation_fn", "relu") not in ("relu", "topk"):
        raise FileError(f"its activation is {str(settings['activation_fn'])[:50]!r}; known: relu, topk")
    _check(architecture, tensors)
    decoder, encoder = tensors["W_dec"], tensors["W_enc"]
    if settings.get("rescale_acts_by_decoder_norm"):
        norms = decoder.norm(dim=1).clamp_min(1e-12)
        decoder, encoder = decoder / norms[:, None], encoder * norms
        tensors["b_enc"] = tensors["b_enc"] * norms
    shift = tensors["b_dec"] if settings.get("apply_b_dec_to_input", True) else None
    kept = settings.get("k") if architecture == "topk" else None
    if architecture == "topk" and not (isinstance(kept, int) and 0 < kept <= len(decoder)):
        raise FileError(f"k is a count of at most {len(decoder)} codes, not {str(kept)[:50]!r}")
    centred = bool((settings.get("model_from_pretrained_kwargs") or {}).get("center_writing_weights"))
    rule = Gated(encoder, **_rule(architecture, tensors), keep=kept, shift=shift, centred=centred)
    known = {"name": settings["model_name"]} if isinstance(settings.get("model_name"), str) else {}
    return Dictionary(decoder, rule, tensors["b_dec"], _site(settings), name, known, dict(settings))


def _check(architecture: str, tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are missing, of another shape, not finite, or of a meaning that is not known here."""
    needed = ("W_enc", "W_dec", "b_dec", *_TENSORS[architecture])
    if missing := [name for name in needed if name not in tensors]:
        raise FileError(f"it has no tensor {missing[0]}, which a {architecture} one needs")
    if strange := sorted(tensors.keys() - {*needed, "scaling_factor"}):
        raise FileError(f"it has a tensor {strange[0][:50]!r}, which a {architecture} one has not")
    if "scaling_factor" in tensors and not bool((tensors["scaling_factor"] == 1).all()):
        raise FileError("its codes are rescaled (scaling_factor): fold that into the weights, and save it again")
    if tensors["W_dec"].ndim != 2:
        raise FileError(f"W_dec has shape {list(tensors['W_dec'].shape)}; it must be [codes, width]")
    codes, width = tensors["W_dec"].shape
    wanted = {"W_enc": (width, codes), "W_dec": (codes, width), "b_dec": (width,)}
    for name in needed:
        if tuple(tensors[name].shape) != wanted.get(name, (codes,)):
            raise FileError(f"{name} has shape {list(tensors[name].shape)}, and W_dec {[codes, width]}")
        if not bool(tensors[name].isfinite().all()):
            raise FileError(f"{name} holds a number that is not finite")


def _rule(architecture: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    if architecture == "gated":
        return {"bias": tensors["b_mag"], "gain": tensors["r_mag"].exp(), "gate": tensors["b_gate"]}
    if architecture == "jumprelu":
        return {"bias": tensors["b_enc"], "gate": tensors["b_enc"] - tensors["threshold"]}
    return {"bias": tensors["b_enc"]}


def _site(settings: Mapping[str, Any]) -> Site | None:
    """Where it reads; None where covec has no name for that place."""
    hook = str(settings.get("hook_name", ""))
    if hook == "ln_final.hook_normalized":
        return Site("final")
    found = re.fullmatch(r"blocks\.(\d{1,4})\.(.+)", hook, re.ASCII)
    if found is None:
        return None
    block, place = int(found[1]), found[2]
    if place == "hook_resid_pre":
        return Site("resid", block - 1) if block else Site("embed")
    head = settings.get("hook_head_index")
    if place == "attn.hook_z" and isinstance(head, int):
        return Site("head", block, head)
    return Site(_PLACES[place], block) if place in _PLACES else None
