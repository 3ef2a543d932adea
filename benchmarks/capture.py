"""The race of capture: the last token's activations at one middle site and at all."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

import torch
from race import Heat, Local, Wanted, race
from texts import pairs
from workers import Remote, Worker, versions

import covec
from covec.models.batching import TOKEN_BUDGET, pack, pad
from covec.models.embedded import fetch

PEERS = ("steering-vectors", "nnsight", "transformer-lens", "interp-engine")
NAME, PAIRS, BATCH, MIDDLE, ROUNDS = "smollm2-135m", 16, 16, 15, 6
TOLERANCE = {"float32": 1e-3, "bfloat16": 6e-2}
ABOUT = f"""The activations of the last token after one block or all, of {2 * PAIRS} texts of 5 to 40 words. The floor
is the least that has to be done: the embedding and the blocks up to the last one asked for, called by hand on the
batches that covec would make, already tokenised; no cache, no head. Peers get the texts in batches of {BATCH}, in their
order, as their documentation shows it. What transformers returns of the last block comes after the last norm: it is
compared at the others."""


def main() -> None:
    """One site and all, in float32 with all peers, in bfloat16 without."""
    examples = pairs(PAIRS)
    texts = [text for side in zip(*examples, strict=True) for text in side]
    exact, short = (covec.load(NAME, dtype=dtype, device="cpu") for dtype in TOLERANCE)
    blocks = {"one": [MIDDLE], "all": list(range(exact.blocks))}
    settings = {
        "model": str(fetch(NAME)), "dtype": "float32", "pairs": examples, "texts": texts, "batch": BATCH,
        "block": MIDDLE, "blocks": exact.blocks,
    }  # fmt: skip
    with ExitStack() as scope:
        workers = [scope.enter_context(Worker(peer, settings)) for peer in PEERS]
        heats = [
            Heat(
                f"{NAMES[asked]}, float32",
                [
                    *own(exact, texts, blocks[asked]),
                    *(Remote(worker.peer, worker, asked) for worker in workers),
                ],
                TOLERANCE["float32"],
                wanted=[Wanted("covec", "floor", at_most=1.03)],
                rounds=ROUNDS,
            )
            for asked in blocks
        ]
        heats += [in_bfloat16(short, exact, texts, blocks[asked], NAMES[asked]) for asked in blocks]
        race("capture", "Capture", ABOUT, heats, versions(workers))


NAMES = {"one": "the site in the middle", "all": "all sites"}


def in_bfloat16(short, exact, texts, blocks, name) -> Heat:
    """The same in bfloat16, beside float32, and the matrix products alone in both."""
    told = {model: f", {str(model.dtype).removeprefix('torch.')}" for model in (short, exact)}
    long = Local(f"covec{told[exact]}", own(exact, texts, blocks)[0].work)
    return Heat(
        f"{name}{told[short]}",
        own(short, texts, blocks),
        TOLERANCE["bfloat16"],
        "Of the work of a pass only the matrix products are quicker in bfloat16; norms, rotations and attention cost "
        "what they cost in float32.",
        [long, *(Local(f"products alone{told[model]}", products(model, texts, blocks)) for model in (exact, short))],
        [Wanted("covec", "floor", at_most=1.03), Wanted(long.name, "covec", at_least=2)],
        ROUNDS,
        arithmetic=partial(most, long.name),
    )


def most(long, took) -> str:
    """The largest ratio of float32 to bfloat16 that leaves what is between the products as it is."""
    whole, (slow, quick) = took[long], (took[f"products alone, {dtype}"] for dtype in TOLERANCE)
    return (
        f"The most there is, with what is between the products as in float32: {whole:.3g} s / ({whole:.3g} s - "
        f"{slow:.3g} s + {quick:.3g} s) = {whole / (whole - slow + quick):.2f}."
    )


def products(model, texts, blocks):
    """The matrix products of the floor and nothing else."""
    linear = [
        part
        for block in model.anatomy.blocks[: max(blocks) + 1]
        for part in block.modules()
        if isinstance(part, torch.nn.Linear)
    ]
    sizes = [ids.numel() for _, ids, _ in batches(model, texts)]
    inputs = {
        (size, part.in_features): torch.ones(size, part.in_features, dtype=model.dtype)
        for size in sizes
        for part in linear
    }

    @torch.no_grad()
    def run() -> None:
        for size in sizes:
            for part in linear:
                part(inputs[size, part.in_features])

    return run


def own(model, texts, blocks) -> list[Local]:
    """covec, the floor, and plain transformers."""
    sites = [f"resid.{block}" for block in blocks]
    return [
        Local("covec", lambda: model.capture(texts, sites, "last").rows),
        Local("floor", partial(floor, model, batches(model, texts), blocks)),
        Local("transformers", partial(plain, model, texts, blocks)),
    ]


def batches(model, texts):
    """Batches as covec makes them, with the index of each row's last token."""
    tokens = model.tokenize(texts)
    lengths = [len(item.ids) for item in tokens]
    made = []
    for rows in pack(lengths, TOKEN_BUDGET):
        ids = pad(tokens, rows, pad_id=model.pad_id, masked=False, device=model.device).ids
        made.append((rows, ids, torch.tensor([lengths[row] - 1 for row in rows])))
    return made


@torch.no_grad()
def floor(model, batches, blocks):
    """The blocks up to the last one of `blocks`, called by hand."""
    body, kept = model.module.model, {block: [] for block in blocks}
    for _, ids, last in batches:
        hidden, each = body.embed_tokens(ids), torch.arange(len(ids))
        turned = body.rotary_emb(hidden, torch.arange(ids.shape[1])[None])
        for index, block in enumerate(body.layers[: max(blocks) + 1]):
            hidden = block(hidden, attention_mask=None, position_embeddings=turned)
            if index in kept:
                kept[index].append(hidden[each, last])
    order = torch.tensor([row for rows, *_ in batches for row in rows]).argsort()
    return {f"resid.{block}": torch.cat(found)[order] for block, found in kept.items()}


@torch.no_grad()
def plain(model, texts, blocks):
    """What transformers' documentation says: all hidden states of a whole pass; the last one comes after the norm."""
    kept = {block: [] for block in blocks if block < model.blocks - 1}
    tokenizer = model.tokenizer
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    for first in range(0, len(texts), BATCH):
        batch = tokenizer(texts[first : first + BATCH], return_tensors="pt", padding=True, padding_side="right")
        states = model.module(**batch, output_hidden_states=True).hidden_states
        last = batch["attention_mask"].sum(1) - 1
        for block, found in kept.items():
            found.append(states[block + 1][torch.arange(len(last)), last])
    return {f"resid.{block}": torch.cat(found) for block, found in kept.items()}


if __name__ == "__main__":
    main()
