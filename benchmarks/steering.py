"""The race of steering: greedy text under shifts at one site and at all, different ones a row, and the hooks alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial

import torch
from capture import MIDDLE, NAME
from race import Difference, Heat, Local, Wanted, race
from texts import pairs
from transformers import DynamicCache
from workers import Remote, Worker, versions

import covec
from covec.edits.algebra import Add
from covec.models.embedded import fetch
from covec.models.positions import Position
from covec.models.sites import Site

PEERS = ("steering-vectors", "nnsight")
TOKENS, ROWS, FEW_TOKENS, STEPS = 16, 32, 8, 500
STRENGTH, PROMPT = 0.5, list(range(100, 112))
ABOUT = f"""Greedy continuations of {TOKENS} tokens in float32 while a shift is added to the output of one block or of
all, at every token. The texts must be the same, token for token. Beside them stands the same without steering."""


def main() -> None:
    """One site and all, a batch of 1 and of 8; 32 rows with 32 shifts; the hooks alone."""
    model = covec.load(NAME, dtype="float32", device="cpu")
    prompts = [text.rstrip(".") for text, _ in pairs(ROWS)]
    made = torch.Generator().manual_seed(0)
    shifts = STRENGTH * torch.randn(ROWS, model.width, generator=made)
    blocks = {"one": [MIDDLE], "all": list(range(model.blocks))}
    settings = {
        "model": str(fetch(NAME)), "prompts": prompts, "shifts": shifts.tolist(), "block": MIDDLE,
        "blocks": model.blocks, "dtype": "float32", "tokens": TOKENS, "few": FEW_TOKENS,
    }  # fmt: skip
    with ExitStack() as scope:
        workers = [scope.enter_context(Worker(peer, settings)) for peer in PEERS]
        heats = [
            Heat(
                f"{'one site' if asked == 'one' else 'all sites'}, batch of {size}",
                [
                    Local("covec", partial(steered, model, prompts[:size], edits(shifts[:1], blocks[asked])[0])),
                    *(Remote(worker.peer, worker, f"{asked}-{size}") for worker in workers),
                ],
                0,
                beside=[Local("transformers, not steered", partial(steered, model, prompts[:size], []))],
                distance=share_of_tokens,
                rounds=5,
            )
            for size in (1, 8)
            for asked in blocks
        ]
        heats += [different_rows(model, prompts, shifts, workers), hooks(model, shifts, blocks)]
        race("steering", "Steering", ABOUT, heats, versions(workers))


def edits(shifts, blocks):
    """A list of edits a shift, at every token."""
    return [
        [Add(site=Site("resid", block), position=Position("all"), shift=shift) for block in blocks] for shift in shifts
    ]


@torch.no_grad()
def steered(model, prompts, edits):
    """New tokens, by transformers' own generate within a scope."""
    tokens = model.tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    with model.edit(*edits):
        ids = model.module.generate(**tokens, max_new_tokens=TOKENS, do_sample=False, pad_token_id=model.pad_id)
    return ids[:, tokens["input_ids"].shape[1] :]


def share_of_tokens(found, first):
    """Share of the tokens that differ, where the texts are of one length."""
    return max(float((found[name] != first[name]).mean()) for name in first)


def different_rows(model, prompts, shifts, workers) -> Heat:
    """As many shifts as rows: one call where a library can say so, else a call a row."""
    rows, options = edits(shifts, [MIDDLE]), {"max_new_tokens": FEW_TOKENS}
    return Heat(
        f"{ROWS} rows with {ROWS} shifts, one site",
        [
            Local("covec", lambda: model.generate(prompts, edits=rows, **options)),
            *(Remote(worker.peer, worker, "rows") for worker in workers),
        ],
        1 / 16,
        f"{FEW_TOKENS} tokens; texts are compared. steering-vectors has one vector a call: {ROWS} calls. A "
        "row alone and a row in a batch are computed in another order, so that a close choice may fall out otherwise: "
        "two rows may differ.",
        [Local("covec, not steered", lambda: model.generate(prompts, **options))],
        [Wanted("covec", "covec, not steered", at_most=1.05)],
        distance=share_of_tokens,
        rounds=5,
    )


def hooks(model, shifts, blocks) -> Heat:
    """The hooks without the network: one decoding step whose blocks hand on what they get, with and without edits."""
    short = covec.load(NAME, dtype="bfloat16", device="cpu")
    alone = {
        asked: Difference(
            f"hooks alone, {'one site' if asked == 'one' else 'all sites'}",
            step("", model, edits(shifts[:1], blocks[asked])[0], empty=True),
            step("", model, [], empty=True),
        )
        for asked in blocks
    }
    one, every = alone.values()
    whole = [step("a decoding step", model, []), step("a decoding step, bfloat16", short, [])]
    return Heat(
        "the hooks alone",
        [one],
        0,
        f"What edits add to a step of decoding, batch of 1, measured without the network: for {STEPS} steps all blocks "
        "hand on what they get, with edits and without, and the difference counts. It holds everything: finding the "
        "step's plan, calling the hooks, adding the shifts. Beside it stands a whole step, not steered.",
        [every, *whole],
        [Wanted(one.name, whole[0].name, at_most=0.01), Wanted(every.name, whole[0].name, at_most=0.03)],
    )


def step(name, model, edits, *, empty=False) -> Local:
    """One step of decoding after a prompt, under `edits`; an `empty` one runs no block and no head."""
    caches = []

    @contextmanager
    def prompted() -> Iterator[None]:
        with torch.no_grad(), model.edit(*edits):
            caches[:] = [DynamicCache()]
            model.module(torch.tensor([PROMPT]), cache=caches[0])
            with without_blocks(model) if empty else nullcontext():
                yield

    def run() -> None:
        part = model.anatomy.body if empty else model.module
        part(torch.tensor([PROMPT[:1]]), cache=caches[0], use_cache=True)
        if not empty:
            caches[0].crop(-1)

    return Local(name, run, STEPS if empty else STEPS // 50, prompted)


@contextmanager
def without_blocks(model) -> Iterator[None]:
    """All blocks hand on their input."""
    for block in model.anatomy.blocks:
        block.forward = lambda hidden, *_, **__: hidden
    try:
        yield
    finally:
        for block in model.anatomy.blocks:
            del block.forward


if __name__ == "__main__":
    main()
