"""Sites: a name means the place in the network that it says."""

from __future__ import annotations

import torch
from torch import Tensor

from covec.checks.doctor._patient import Failed, Patient, distances, first_tensor, listening
from covec.models.addends import SUBLAYERS, sublayers
from covec.models.sites import Site


def site_meaning(patient: Patient) -> str:
    """`resid.k` is what block k gives, and grows from block to block by what its sublayers give."""
    last = len(patient.blocks) - 1
    if patient.model.blocks != len(patient.blocks):
        raise Failed(f"covec finds {patient.model.blocks} blocks, the configuration has {len(patient.blocks)}")
    sites = [site for site in patient.model.sites if site.kind in ("embed", "resid", "final", *SUBLAYERS)]
    found = patient.model.capture([patient.texts[2]], sites, "all/none")
    entering, states = _hidden_states(patient)
    patient.near("embed and what block 0 takes", found[Site("embed")], entering)
    for depth in patient.depths:
        site = Site("resid", depth)
        patient.near(f"{site} and what block {depth} gives", found[site], patient.alone[2][f"block {depth}"])
    # Hidden states begin with what block 0 takes, but for Mamba's, which begin with what it gives.
    begin = int(bool(states) and patient.measure(distances(states[0], entering)) <= patient.limit)
    for depth in range(last if states else 0):
        name = f"hidden_states[{depth + begin}]"
        patient.near(f"resid.{depth} and {name}", found[Site("resid", depth)], states[depth + begin])
    told = f"resid.0 to resid.{last} are the blocks' outputs"
    ends = [found[site] for site in (Site("resid", last), Site("final")) if site in found.rows]
    ended = [row for row in states[-1:] if row.shape == ends[0].shape]  # OPT's may be projected to another width
    if ended and all(patient.measure(distances(rows, ended[0])) > patient.limit for rows in ends):
        raise Failed(f"hidden_states[-1] is neither resid.{last} nor what follows the final norm")
    if len(ends) == 2:
        if patient.measure(distances(*ends)) <= patient.limit:
            raise Failed(f"resid.{last} is what follows the final norm, and not what the last block gives")
        told += ", before the final norm"
    return f"{told}; {_sums(patient, found.rows)} ({patient.allowed})"


def _hidden_states(patient: Patient) -> tuple[Tensor, list[Tensor]]:
    """What block 0 takes of the third text, and transformers' hidden states where they are whole, each [tokens, d]."""
    ids = torch.tensor([patient.ids[2]], device=patient.model.device)
    with torch.no_grad(), listening({"block 0": patient.blocks[0]}, "in") as heard:
        output = patient.module(input_ids=ids, output_hidden_states=True)
    given = getattr(output, "hidden_states", None) or ()  # code that comes with a model may give none
    states = [first_tensor(state) for state in given]
    if len({state.data_ptr() for state in states}) < len(states):  # blocks that add in place overwrite them
        states = []
    return heard["block 0"][0][0], [state[0].float().cpu() for state in states]


def _sums(patient: Patient, rows: dict[Site, Tensor]) -> str:
    """resid.k - resid.(k-1) = attn.k + mlp.k (or mixer.k), in every block whose sublayers are sites."""
    found = {depth: sublayers(depth, rows) for depth in range(len(patient.blocks))}
    found = {depth: parts for depth, parts in found.items() if parts}
    if not found:
        return "no block has sites for all its sublayers"
    if _norms_the_stream(patient, next(iter(found))):
        return "they norm the stream after they add to it, so it is no sum"
    worst = 0.0
    for depth, parts in found.items():
        before = rows[Site("resid", depth - 1) if depth else Site("embed")]
        what = f"resid.{depth} and the stream before it plus {' + '.join(map(str, parts))}"
        worst = max(worst, patient.near(what, before + sum(rows[part] for part in parts), rows[Site("resid", depth)]))
    return f"{len(found)} of them grow by what their sublayers give, to {worst:.1e}"


def _norms_the_stream(patient: Patient, depth: int) -> bool:
    """Whether what a block gives is what one of its norms gives, as in encoders that norm after they add."""
    block = patient.blocks[depth]
    norms = {name: part for name, part in block.named_modules() if "norm" in f"{name} {type(part).__name__}".lower()}
    with listening({"block": block, **norms}) as heard:
        patient.logits(torch.tensor([patient.ids[2]]))
    return any(torch.equal(rows, heard["block"][0]) for name in norms for rows in heard[name])
