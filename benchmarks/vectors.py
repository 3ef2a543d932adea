"""The race of vectors: a concept vector from pairs, at one middle site and at all."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import numpy as np
import torch
from capture import BATCH, MIDDLE, NAME
from race import Heat, Local, Wanted, largest_difference, race
from texts import pairs
from workers import Remote, Worker, versions

import covec
from covec.find.mean_difference import MeanDifference
from covec.find.pca_pairs import PcaPairs
from covec.models.batching import TOKEN_BUDGET, pack
from covec.models.embedded import fetch

PAIRS, FEW = 128, 16
ABOUT = f"""Concept vectors from pairs of texts of 5 to 40 words, read at the last token, in float32; peers in batches
of {BATCH}. The time is that of everything from texts to vectors, tokenising included. How far covec's pass is from the
least that has to be done is a matter of the race of capture."""


def main() -> None:
    """Differences of means at one site and at all, and principal components at all."""
    model = covec.load(NAME, dtype="float32", device="cpu")
    blocks = {"one": [MIDDLE], "all": list(range(model.blocks))}
    many, few = (
        {"model": str(fetch(NAME)), "dtype": "float32", "pairs": pairs(number), "batch": BATCH, "block": MIDDLE}
        for number in (PAIRS, FEW)
    )
    with ExitStack() as scope:
        means, components = (scope.enter_context(Worker(*one)) for one in (("steering-vectors", many), ("repeng", few)))
        heats = [
            Heat(
                f"difference of means, {'the site in the middle' if asked == 'one' else 'all sites'}",
                [
                    Local("covec", partial(differences, model, many["pairs"], blocks[asked])),
                    Remote("steering-vectors", means, f"mean-{asked}"),
                ],
                1e-3,
                f"{PAIRS} pairs.",
                wanted=[Wanted("steering-vectors", "covec", at_least=3.5 if asked == "one" else 2)],
                rounds=5,
                arithmetic=partial(counted, model, many["pairs"], blocks[asked]),
            )
            for asked in blocks
        ]
        heats.append(
            Heat(
                "principal component of the differences, all sites",
                [
                    Local("covec", partial(first_components, model, few["pairs"])),
                    Remote("repeng", components, "components"),
                ],
                1e-3,
                f"{FEW} pairs. repeng reads neither the first block nor, as covec does, the last one before the norm: "
                "compared at the others, and up to the sign, for which repeng counts pairs.",
                distance=up_to_sign,
            )
        )
        race("vectors", "Vectors from pairs", ABOUT, heats, versions([means, components]))


def read(model, examples, blocks):
    """Rows [sites, texts, d], positives first, and their labels."""
    texts = [text for side in zip(*examples, strict=True) for text in side]
    rows = model.capture(texts, [f"resid.{block}" for block in blocks], "last").rows
    return torch.stack(list(rows.values())), [True] * len(examples) + [False] * len(examples)


def differences(model, examples, blocks):
    found = MeanDifference().fit_many(*read(model, examples, blocks))
    shifts = found.mean_positive - found.mean_negative
    return {f"resid.{block}": shift for block, shift in zip(blocks, shifts, strict=True)}


def first_components(model, examples):
    blocks = range(1, model.blocks - 1)
    found = PcaPairs().fit_many(*read(model, examples, blocks), pairs=[*range(len(examples))] * 2)
    return {f"resid.{block}": direction for block, direction in zip(blocks, found.directions, strict=True)}


def counted(model, examples, blocks, _) -> str:
    """What the matrix products alone say: weights times tokens, padding included, of a whole pass and of covec's."""
    sides = [[len(item.ids) for item in model.tokenize(side)] for side in zip(*examples, strict=True)]
    chunks = [side[first : first + BATCH] for side in sides for first in range(0, len(side), BATCH)]
    theirs, lengths = sum(len(chunk) * max(chunk) for chunk in chunks), sides[0] + sides[1]
    ours = sum(len(rows) * max(lengths[row] for row in rows) for rows in pack(lengths, TOKEN_BUDGET))
    block = sum(weight.numel() for weight in model.anatomy.blocks[0].parameters())
    whole, part = block * model.blocks + model.module.lm_head.weight.numel(), block * (max(blocks) + 1)
    return (
        f"By the matrix products, padding included: {theirs:,} tokens x {whole / 1e6:.1f} million weights in whole "
        f"passes over batches as they come, {ours:,} x {part / 1e6:.1f} million in covec's. The ratio is "
        f"{theirs * whole / ours / part:.2f}; if covec padded nothing, {theirs * whole / sum(lengths) / part:.2f}."
    )


def up_to_sign(found, first):
    """The largest difference, each found row turned towards the first one's."""
    turned = {name: row * np.sign(row @ first[name]) for name, row in found.items() if name in first}
    return largest_difference(turned, first)


if __name__ == "__main__":
    main()
