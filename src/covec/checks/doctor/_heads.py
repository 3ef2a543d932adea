"""Heads: which columns belong to which head, shown by turning one key or value head after the other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from covec.checks.doctor._patient import DoesNotApply, Failed, Patient, first_tensor, listening
from covec.models.anatomy import Tap
from covec.models.sites import Site


def head_rebuild(patient: Patient) -> str:
    """The heads side by side are what the output projection takes, and it makes of them what attention adds."""
    depths = [depth for depth in patient.depths if _heads(patient, "head", depth)]
    if not depths:
        raise DoesNotApply("no block in which heads can be told apart")
    worst = max(_rebuild(patient, depth) for depth in depths)
    groups = max(_turned(patient, depth, kind) for depth in depths for kind in ("key", "value"))
    count = len(_heads(patient, "head", depths[0]))
    told = f"{count} heads make attn.k, to {worst:.1e} ({patient.allowed})"
    if not groups:
        return f"{told}; keys and values, in a fused projection, have no sites"
    return f"{told}; each of {groups} key and value heads feeds its own {count // groups} alone"


def _rebuild(patient: Patient, depth: int) -> float:
    """How far the heads of one block are from what a plain hook sees, or attn.k from what is made of them."""
    heads, attention = _counted(patient, depth), Site("attn", depth)
    projection, tap = patient.model.anatomy.tap(heads[0]).module, patient.model.anatomy.tap(attention)
    if all(part is not projection for part in patient.blocks[depth].modules()):
        raise Failed(f"the heads of block {depth} are read outside it")
    found = patient.model.capture([patient.texts[2]], [*heads, attention], "all/none")
    rebuilt = torch.cat([found[site] for site in heads], 1)
    with listening({"taken": projection}, "in") as heard:
        patient.logits(torch.tensor([patient.ids[2]]))
    far = patient.near(f"heads of block {depth} and what the output projection takes", rebuilt, heard["taken"][0][0])
    with torch.no_grad():
        made = projection(rebuilt.to(next(projection.parameters()).device, patient.model.dtype))
        if all(part is not projection for part in tap.module.modules()):  # a norm of what attention gives
            made = tap.module(made)
    made = made.float().cpu() * tap.scale
    return max(far, patient.near(f"the output projection of the heads and {attention}", made, found[attention]))


def _heads(patient: Patient, kind: str, depth: int) -> list[Site]:
    return [site for site in patient.model.sites if site.kind == kind and site.block == depth]


def _counted(patient: Patient, depth: int) -> list[Site]:
    """The query heads of a block; their number, and that of key and value heads, must be the configuration's."""
    heads = _heads(patient, "head", depth)
    queries = getattr(patient.config, "num_attention_heads", None)
    said = {"head": queries, **dict.fromkeys(("key", "value"), getattr(patient.config, "num_key_value_heads", queries))}
    for kind, number in said.items():
        found = len(_heads(patient, kind, depth))
        if isinstance(number, int) and found and found != number:
            raise Failed(f"block {depth} has {found} {kind} heads, its configuration says {number}")
    return heads


def _turned(patient: Patient, depth: int, kind: str) -> int:
    """Turn the sign of each key or value head in a row of its own: its query heads, and they alone, must change.

    With values they must turn, too. Signs pass through norms, also through those over all heads. Returns the number of
    key or value heads, 0 where there are no such sites.
    """
    sites, heads = _heads(patient, kind, depth), _heads(patient, "head", depth)
    if not sites:
        return 0
    taps = [patient.model.anatomy.tap(site) for site in sites]

    def turn(_: nn.Module, __: Any, output: Any) -> None:
        for row, tap in enumerate(taps):
            first_tensor(output)[row, :, tap.columns or slice(None)] *= -1

    projection = patient.model.anatomy.tap(heads[0]).module
    handle = taps[0].module.register_forward_hook(turn)
    try:
        with listening({"in": projection}, "in") as heard:
            patient.logits(torch.tensor([patient.ids[2]] * (len(sites) + 1)))
    finally:
        handle.remove()
    *turned, usual = heard["in"][0]
    per, bound = len(heads) // len(sites), patient.limit * float(usual.abs().max())
    for row, hidden in enumerate(turned):
        for head, site in enumerate(heads):
            before, after = (_columns(rows, patient.model.anatomy.tap(site)) for rows in (usual, hidden))
            own = head // per == row
            expected = -before if own and kind == "value" else before
            wrong = not (after - expected).abs().max() <= bound
            if torch.equal(after, before) if own and kind == "key" else wrong:
                raise Failed(f"{sites[row]} turned round does not change its query heads alone: see {site}")
    return len(sites)


def _columns(rows: Tensor, tap: Tap) -> Tensor:
    return rows if tap.columns is None else rows[:, tap.columns]
