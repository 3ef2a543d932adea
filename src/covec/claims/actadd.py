"""ActAdd's claim: one pair of prompts at the front of a text makes its topic likelier, and little else (2308.10248).

The pair is " weddings" and " " in the embedded model; texts begin with a neutral sentence, to whose first tokens the
difference is added. Block (6 to 14) and coefficient (1, 2, 4) are those under which wedding words of ten other
sentences gain most, among those that cost unrelated ones at most 0.1 nats. Measured is the log-probability of one word
a sentence, which is a word of weddings, or is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch

from covec.activations.fluency import surprise
from covec.claims import Claim, ClaimFigure
from covec.claims._figures import at_least, mean_figure, shown
from covec.edits.algebra import Add
from covec.models.load import load
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.statistics.figure import Figure
from covec.steer.actadd import ActAdd

PAIR, PREFIX = (" weddings", " "), "Here is the text that you asked for. "
GAIN, LOSS, RECALL = 0.15, 0.1, 0.05  # the numbers of the rules
_WEDDINGS = """
The couple exchanged their vows;She walked down the aisle;He had asked her to marry;
The guests threw rice at the bride;They spent a week on their honeymoon;The ring was made of gold for the groom;
The dress was long and white, fit for a bride;The priest said that they were husband and wife;
The hall was booked for the reception;Her sister was the maid of honor;After the ceremony they kissed;
The invitations said that they would be married;The band played while the newlyweds danced;
His brother was the best man at the wedding;They cut the cake together as husband and wife;
She threw the bouquet;The church was full of flowers for the ceremony;They were engaged last year;
He bought her a diamond ring;The father of the bride;A toast was made to the newlyweds;
They have been happily married;They signed the marriage;The photographer took pictures of the bride;
She tried on another wedding;Their parents had planned the wedding;He wrote a speech for the reception;
The flower girl walked before the bride;The hotel had a suite for their honeymoon;
In June they will celebrate their wedding;They chose the church for the ceremony;
The veil covered the face of the bride;Everybody cried when they said their vows;
The proposal came as a surprise and she said yes to marriage;The tailor made a suit for the groom;
On the table stood a cake for the wedding;The bridesmaids helped the bride;She kept her name after the marriage;
The wedding was followed by a long honeymoon;Two rings lay on the altar
"""
_OTHERS = """
The engine of the car was repaired;The river runs down to the sea;He opened the window;
The train was late by an hour;The farmer fed the cows;Water boils at a hundred degrees;
She put the book back on the shelf;The dog barked at the door;The bridge was closed for repairs;
He wrote a letter to the editor;The storm damaged the roof;The soup needs more salt;
The children played in the garden;The shop opens at nine;The doctor looked at the patient;
The road leads to the village;They climbed the mountain;The computer was turned off;
The museum shows old paintings;He paid the bill;The ship sailed across the ocean;The team won the game;
The clock on the wall;The bird built a nest;She planted a tree;The teacher explained the lesson;
The milk is in the fridge;The cat slept on the sofa;He lost the key;The lamp is on the table;
The snow fell all night;The baker sells bread;The plane landed at the airport;The river froze in winter;
The judge read the sentence;The student passed the exam;The fire burned the house;The mechanic changed the oil;
The hunter saw a deer;The king lived in a castle
"""
_CAPITALS = """
France Paris;Italy Rome;Spain Madrid;Germany Berlin;Austria Vienna;Poland Warsaw;Greece Athens;Norway Oslo;
Sweden Stockholm;Portugal Lisbon;Hungary Budapest;Ireland Dublin;Russia Moscow;China Beijing;Japan Tokyo;
Egypt Cairo;Cuba Havana;Peru Lima;Kenya Nairobi;Iran Tehran;Iraq Baghdad;Belgium Brussels;Finland Helsinki;
Denmark Copenhagen;Turkey Ankara;Canada Ottawa;Chile Santiago;Colombia Bogota;Venezuela Caracas;Ukraine Kiev;
Romania Bucharest;Bulgaria Sofia;Serbia Belgrade;Croatia Zagreb;Syria Damascus;Lebanon Beirut;Thailand Bangkok;
Vietnam Hanoi;Pakistan Islamabad;Indonesia Jakarta
"""
Pairs = tuple[tuple[str, ...], tuple[str, ...]]  # what stands before a word, and the words


@dataclass(frozen=True)
class _Setting:
    """Sentences that choose and test, the grid, random draws, capitals, sentences of the averaged difference."""

    choosing: int = 10
    testing: int = 30
    blocks: tuple[int, ...] = (6, 8, 10, 12, 14)
    coefficients: tuple[float, ...] = (1.0, 2.0, 4.0)
    randoms: int = 10
    capitals: int = 40


REDUCED = _Setting(2, 4, (6, 12), (2.0,), 2, 4)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    model = load("smollm2-135m", dtype="float32")
    bench = _Bench(model, setting)
    edits, how = bench.chosen()
    return Claim("actadd", (*_on_topic(bench, edits, how), *_off_topic(bench, edits)))


def _pairs(texts: str) -> Pairs:
    split = [text.strip().rpartition(" ") for text in texts.replace("\n", "").split(";")]
    return tuple(PREFIX + begun for begun, _, _ in split), tuple(f" {word}" for _, _, word in split)


class _Bench:
    """How likely the last words of sentences are under edits."""

    def __init__(self, model: TextModel, setting: _Setting) -> None:
        self.model, self.setting = model, setting
        self.weddings, self.others = _pairs(_WEDDINGS), _pairs(_OTHERS)
        first, last = setting.choosing, setting.choosing + setting.testing
        self.known, self.unseen = slice(first), slice(first, last)

    def likely(self, pairs: Pairs, rows: slice, edits: Sequence[Any] = ()) -> np.ndarray:
        """Log-probability a token of each word."""
        with self.model.edit(*edits):
            nats, counts = surprise(self.model, pairs[0][rows], pairs[1][rows])
        return -nats / counts

    def gain(self, pairs: Pairs, rows: slice, edits: Sequence[Any]) -> np.ndarray:
        """By how much edits make each word likelier."""
        return self.likely(pairs, rows, edits) - self.likely(pairs, rows)

    def chosen(self) -> tuple[tuple[Any, ...], str]:
        """Edits of the best block and coefficient on the sentences that choose."""
        best: tuple[float, tuple[Any, ...], str] | None = None
        for block, coefficient in product(self.setting.blocks, self.setting.coefficients):
            edits = ActAdd(PAIR, block).fit(self.model).edits(coefficient)
            gain = float(self.gain(self.weddings, self.known, edits).mean())
            kept = float(self.gain(self.others, self.known, edits).mean()) >= -LOSS
            if kept and (best is None or gain > best[0]):
                best = gain, edits, f"before block {block}, coefficient {coefficient:g}"
        if best is None:  # all of the grid costs too much: the weakest edit
            block, coefficient = self.setting.blocks[0], min(self.setting.coefficients)
            return ActAdd(PAIR, block).fit(self.model).edits(coefficient), f"before block {block}, {coefficient:g}"
        return best[1], best[2]


def _on_topic(bench: _Bench, edits: tuple[Any, ...], how: str) -> Iterator[ClaimFigure]:
    gain = bench.gain(bench.weddings, bench.unseen, edits)
    figure = mean_figure(gain, f"nats a token of wedding words, {how}")
    yield at_least("gain of wedding words", figure, GAIN)
    drawn = [
        float(bench.gain(bench.weddings, bench.unseen, _random(edits, seed)).mean())
        for seed in range(bench.setting.randoms)
    ]
    best = Figure(max(drawn), n=len(drawn), how="highest of random tensors of the same norm at every token")
    yield ClaimFigure("gain against random tensors", figure, best, "above the baseline", figure.value > best.value)
    later = tuple(replace(edit, position=Position(str(int(edit.position.select) + 2))) for edit in edits)
    found = mean_figure(bench.gain(bench.weddings, bench.unseen, later), "the same two tokens later")
    yield shown("gain where the tensor stands inside the prefix", found, figure)
    averaged = _averaged(bench, edits)
    found = mean_figure(
        bench.gain(bench.weddings, bench.unseen, averaged), "of the choosing sentences, of the same norms"
    )
    yield shown("gain of a difference of means at the same tokens", found, figure)


def _off_topic(bench: _Bench, edits: tuple[Any, ...]) -> Iterator[ClaimFigure]:
    loss = mean_figure(-bench.gain(bench.others, bench.unseen, edits), "nats a token of the last words")
    yield ClaimFigure("loss on unrelated sentences", loss, LOSS, "at most the baseline", loss.value <= LOSS)
    countries = [entry.split() for entry in _CAPITALS.replace("\n", "").split(";")][: bench.setting.capitals]
    prompts = [f"{PREFIX}The capital of {country} is the city of" for country, _ in countries]
    ids = [bench.model.tokenizer(f" {capital}", add_special_tokens=False)["input_ids"][0] for _, capital in countries]
    recalled = []
    for own in ((), edits):
        hits = []
        with bench.model.edit(*own), torch.no_grad():
            for prompt, wanted in zip(prompts, ids, strict=True):
                read = bench.model.tokenizer(prompt, return_tensors="pt").input_ids
                hits.append(wanted in bench.model.module(read).logits[0, -1].topk(10).indices)
        recalled.append(float(np.mean(hits)))
    change = Figure(abs(recalled[1] - recalled[0]), n=len(ids), how=f"P@10 of capitals, {recalled[0]:.2f} unsteered")
    yield ClaimFigure("change of recall", change, RECALL, "at most the baseline", change.value <= RECALL)


def _random(edits: Sequence[Any], seed: int) -> tuple[Add, ...]:
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(len(edit.shift), generator=generator) for edit in edits]
    return tuple(
        replace(edit, shift=one * edit.shift.norm() / one.norm()) for edit, one in zip(edits, drawn, strict=True)
    )


def _averaged(bench: _Bench, edits: Sequence[Any]) -> tuple[Add, ...]:
    """The difference of the means of both kinds of sentences that choose, where and as long as the pair's."""
    site: Site = edits[0].site
    both = [[part[bench.known] for part in pairs] for pairs in (bench.weddings, bench.others)]
    texts = [[begun + word for begun, word in zip(*pairs, strict=True)] for pairs in both]
    rows = [bench.model.capture(each, site)[site] for each in texts]
    difference = rows[0].mean(0) - rows[1].mean(0)
    unit = difference / difference.norm()
    return tuple(replace(edit, shift=unit * edit.shift.norm()) for edit in edits)
