"""Run as a program, `python reloaded.py FILE`: what vectors do, to the bit, in a process that has their file alone."""

import json
import sys

import torch

from covec.concepts.bank import load_bank
from covec.worlds.toys import toy


def edits(vector):
    """Every way in which a vector steers."""
    yield vector.add(1.5)
    if len(vector.parts) > 1:
        yield vector.ablate(to="zero")
        return
    yield vector.add(-0.5, position="last+generated")
    yield vector.ablate()
    yield vector.set_coordinate(0.5)
    if vector.calibration:
        yield vector.to_probability(0.9, below=False)


def answers(bank, world):
    """Texts, and bits of scores and of next-token logits, for every vector and every edit of it."""
    model, inputs = world.model, list(world.neutral[:6])
    found = {}
    for name, vector in bank.items():
        vector.check_model(model.describe())
        rows = model.capture(inputs, sites=list(vector.parts), position="last")
        scores = [part.score(rows[site]).view(torch.int32).tolist() for site, part in vector.parts.items()]
        texts = [model.generate(inputs[:2], edits=[[*made]] * 2, max_new_tokens=4) for made in edits(vector)]
        logits = []
        for made in edits(vector):
            with model.edit(*made):
                logits.append(
                    model.capture(inputs, sites=["final"], position="last")["final"].view(torch.int32).tolist()
                )
        found[name] = [scores, texts, logits]
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)

    def refuse(event, arguments):
        if event == "pickle.find_class":
            raise AssertionError(f"the file was read with pickle: {arguments}")

    world = toy(0, read=True)
    sys.addaudithook(refuse)
    bank = load_bank(sys.argv[1])
    json.dump(answers(bank, world), sys.stdout)
