"""The claim of output-centric descriptions: what a vector does to the output names its effect better than what it fires
on, and both together are the best of both (2501.08319).

Vectors of twenty kinds of things in the embedded model, after blocks 10, 20 and 26; and random directions of the last
stream, whose words are known. Rules rest on blocks 10 and 20: near the end what the unembedding reads is by
construction what comes out.

Where the card leaves a choice: a description is ten words. Its output score is how often it finds the steered texts of
its own vector among those of two others: the texts in which its words are likeliest to come next, as the plain model
reads them. Texts are sampled from the paper's three openings at its temperature, 12 tokens each instead of 25, steered
by 0.25 and 0.5 nats a token towards the vector, as a description holds the words of that side. Its input score is how
often sentences with its words reach a higher activation than the same sentences with random words. MaxAct takes the
words of highest activation in a corpus; the union is five words of MaxAct and five of TokenChange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from covec.claims import Claim, ClaimFigure
from covec.claims._figures import above, at_least, mean_figure, shown
from covec.concepts.packaged import neutral_prompts, neutral_texts
from covec.edits.algebra import Add
from covec.models.load import load
from covec.models.sites import Site
from covec.models.text import TextModel
from covec.models.vocabulary import Vocabulary
from covec.name.output_centric_descriptions import Change, by_word
from covec.statistics.figure import Figure
from covec.worlds.things import FRAMES, KINDS, about, framed

PROMPTS = ("The explanation is simple:", "I think", "We")
NATS, TEMPERATURE, WORDS = (0.25, 0.5), 0.75, 10
CHANCE, MARGIN, PRECISION = 1 / 3, 0.15, 0.9  # the numbers of the rules
Describe = Callable[[Site], list[list[str]]]  # the words of every kind's vector


@dataclass(frozen=True)
class _Setting:
    """How much of everything the full and the reduced claim take."""

    kinds: int = 20
    known: int = 10  # sentences a kind that its vector is found in
    corpus: tuple[int, int] = (6, 60)  # sentences a kind, and neutral texts, among which MaxAct looks
    blocks: tuple[int, ...] = (10, 20, 26)
    required: tuple[int, ...] = (10, 20)
    tokens: int = 12
    texts: int = 16
    draws: int = 20
    planted: int = 5


REDUCED = _Setting(3, 2, (2, 4), (26, 28), (26,), 3, 4, 3, 1)


def claim(reduced: bool = False) -> Claim:
    """Run it."""
    setting = REDUCED if reduced else _Setting()
    task = _Task(load("smollm2-135m", dtype="float32"), setting)
    return Claim("output-centric-descriptions", (*_scores(task), _planted(task)))


class _Task:
    """The model, vectors of all kinds at the sites, and their descriptions."""

    def __init__(self, model: TextModel, setting: _Setting) -> None:
        self.model, self.setting, self.vocabulary = model, setting, Vocabulary(model)
        self.sites = [Site("resid", block) for block in setting.blocks]
        self.kinds = KINDS[: setting.kinds]
        texts = [text for kind in self.kinds for text in about(kind, setting.known)]
        rows = model.capture(texts, self.sites, "mean")
        self.directions: dict[Site, Tensor] = {}
        for site in self.sites:
            means = rows[site].reshape(len(self.kinds), -1, model.width).mean(1)
            others = (means.sum(0) - means) / (len(means) - 1)
            self.directions[site] = torch.nn.functional.normalize(means - others, dim=1)
        self.ways: Mapping[str, Describe] = {
            "MaxAct": self.max_act,
            "VocabProj": lambda site: self.words(self.vocabulary.logits(self.directions[site] * model.width**0.5)),
            "TokenChange": self.token_change,
        }
        self.changes = {site: Change(model, site, neutral_prompts()[: setting.texts]) for site in self.sites}
        self.amounts = {
            site: [change.amount(direction, NATS[0]) for direction in self.directions[site]]
            for site, change in self.changes.items()
        }

    def words(self, logits: Float[Tensor, "k v"]) -> list[list[str]]:
        """The words that move up most."""
        words, weights = list(self.vocabulary.words), by_word(self.vocabulary, logits)
        return [[words[place] for place in row] for row in weights.topk(WORDS, dim=1).indices.tolist()]

    def token_change(self, site: Site) -> list[list[str]]:
        """The words that adding each vector to neutral text turns up."""
        pairs = zip(self.directions[site], self.amounts[site], strict=True)
        return self.words(torch.stack([self.changes[site].of(*pair) for pair in pairs]))

    @cached_property
    def _read(self) -> tuple[dict[Site, Tensor], list[str]]:
        """Activations of a corpus, token by token, and the word that each token is (empty where it is none)."""
        few, neutral = self.setting.corpus
        texts = [text for kind in self.kinds for text in about(kind, few, unseen=True)] + [*neutral_texts()[:neutral]]
        rows = self.model.capture(texts, self.sites, "content/none")
        assert rows.tokens is not None
        assert rows.offsets is not None
        by_id = {index: word for word, ids in self.vocabulary.words.items() for index in ids}
        words = []
        for text, (start, end) in enumerate(zip(rows.offsets[:-1], rows.offsets[1:], strict=True)):
            ids = self.model.tokenize([texts[text]])[0].ids
            words += [by_id.get(ids[int(place)], "") for place in rows.tokens[start:end]]
        return {site: rows[site] for site in self.sites}, words

    def max_act(self, site: Site) -> list[list[str]]:
        """The words of highest activation in the corpus."""
        rows, words = self._read
        found = []
        for direction in self.directions[site]:
            order = torch.argsort(rows[site] @ direction, descending=True).tolist()
            found.append(list(dict.fromkeys(words[place] for place in order if words[place]))[:WORDS])
        return found


def _scores(task: _Task) -> Iterator[ClaimFigure]:
    """Output and input scores of every way to describe, kind by kind."""
    output: dict[tuple[str, int], np.ndarray] = {}
    inner: dict[tuple[str, int], np.ndarray] = {}
    for site in task.sites:
        said = {name: describe(site) for name, describe in task.ways.items()}
        halves = zip(said["MaxAct"], said["TokenChange"], strict=True)
        said["union"] = [_union(fired, changed) for fired, changed in halves]
        likely = _likely(task, site)
        for name, descriptions in said.items():
            output[name, site.block] = _output(task, descriptions, likely)
            inner[name, site.block] = _input(task, descriptions, site)
    blocks = task.setting.required
    how = f"mean over kinds, blocks {', '.join(map(str, blocks))}"

    def figure(scores: Mapping[tuple[str, int], np.ndarray], name: str, over: Sequence[int] = blocks) -> Figure:
        null = CHANCE if scores is output else 0.5
        return mean_figure(np.mean([scores[name, block] for block in over], axis=0), how, null=null)

    out, into = ({name: figure(scores, name) for name in (*task.ways, "union")} for scores in (output, inner))
    best = max(("VocabProj", "TokenChange"), key=lambda name: out[name].value)
    yield above(f"output score: {best} against MaxAct", out[best], out["MaxAct"])
    yield above(f"output score: {best} against chance", out[best], CHANCE, MARGIN)
    for name in task.ways:
        yield shown(f"output score of {name}", out[name], CHANCE)
    yield at_least("input score: MaxAct against VocabProj", into["MaxAct"], into["VocabProj"])
    lowest = {name: min(out[name].value, into[name].value) for name in out}
    rivals = max(lowest[name] for name in task.ways)
    worse = Figure(lowest["union"], n=len(task.kinds), how=f"the lower of output and input score, {how}")
    yield at_least("the union's lower score against the others'", worse, rivals)
    early, late = (figure(output, "VocabProj", [block]) for block in (task.sites[0].block, task.sites[-1].block))
    yield above(f"VocabProj's output score: block {task.sites[-1].block} against {task.sites[0].block}", late, early)


def _union(fired: Sequence[str], changed: Sequence[str]) -> list[str]:
    """Ten words, one of each side in turn."""
    turns = [word for pair in zip(fired, changed, strict=False) for word in pair]
    return list(dict.fromkeys(turns))[:WORDS]


def _likely(task: _Task, site: Site) -> Float[Tensor, "kinds v"]:
    """How likely every token is to come next in texts that were steered along each vector, as the plain model reads."""
    model, prompts, edits = task.model, list[str](), list[list[Add]]()
    for direction, amount in zip(task.directions[site], task.amounts[site], strict=True):
        for nats in NATS:  # the divergence grows with the square of the amount
            shift = amount * (nats / NATS[0]) ** 0.5 * direction
            prompts += PROMPTS
            edits += [[Add(site=site, shift=shift)]] * len(PROMPTS)
    options = {"do_sample": True, "temperature": TEMPERATURE, "max_new_tokens": task.setting.tokens}
    written = model.generate(prompts, edits=edits, seed=site.block, **options)
    texts = [prompt + text for prompt, text in zip(prompts, written, strict=True)]
    each = len(NATS) * len(PROMPTS)
    return torch.stack([_next(model, texts[start : start + each]) for start in range(0, len(texts), each)])


def _next(model: TextModel, texts: Sequence[str]) -> Float[Tensor, "v"]:
    """Mean log-probability of every token to come next, over texts that begin with the prompts in turn."""
    whole = [model.tokenizer(text)["input_ids"] for text in texts]
    begun = [len(model.tokenizer(prompt)["input_ids"]) for prompt in PROMPTS] * len(NATS)
    ids = torch.full((len(whole), max(map(len, whole))), model.pad_id)
    for row, one in enumerate(whole):
        ids[row, : len(one)] = torch.tensor(one)
    with torch.no_grad():  # padding stands on the right, where a causal model's other tokens do not see it
        logits = model.module(input_ids=ids.to(model.device), use_cache=False).logits.float().cpu()
    rows = [logits[row, start - 1 : len(whole[row])] for row, start in enumerate(begun)]
    return torch.cat(rows).log_softmax(1).mean(0)


def _output(task: _Task, descriptions: list[list[str]], likely: Float[Tensor, "kinds v"]) -> np.ndarray:
    """How often each description finds the texts of its own vector among those of two others."""
    ids = [[index for word in words for index in task.vocabulary.words[word]] for words in descriptions]
    found = torch.stack([likely[:, one].mean(1) for one in ids]).numpy()  # [descriptions, texts of kinds]
    kinds, rng = len(descriptions), np.random.default_rng(0)
    scores = np.empty(kinds)
    for kind in range(kinds):
        others = np.delete(np.arange(kinds), kind)
        pairs = [rng.choice(others, 2, replace=False) for _ in range(task.setting.draws)]
        scores[kind] = np.mean([found[kind, kind] > found[kind, pair].max() for pair in pairs])
    return scores


def _input(task: _Task, descriptions: list[list[str]], site: Site) -> np.ndarray:
    """How often five sentences with words of a description reach a higher activation than with random words."""
    rng, draws = np.random.default_rng(1), max(2, task.setting.draws // 4)
    everything = list(task.vocabulary.words)
    random = [[str(word) for word in rng.choice(everything, WORDS, replace=False)] for _ in range(draws)]
    texts = [
        framed(words[2 * k], words[2 * k + 1], k) for words in (*descriptions, *random) for k in range(len(FRAMES))
    ]
    rows = task.model.capture(texts, site, "content/none")
    assert rows.offsets is not None
    projected = (rows[site] @ task.directions[site].T).numpy()
    highest = np.maximum.reduceat(projected, rows.offsets[:-1].numpy()).reshape(-1, len(FRAMES), len(descriptions))
    means = highest.mean(1)  # [descriptions and random ones, vectors]
    return np.array(
        [np.mean(means[kind, kind] > means[len(descriptions) :, kind]) for kind in range(len(descriptions))]
    )


def _planted(task: _Task) -> ClaimFigure:
    """Directions turned at random in the last stream, whose bias of the logits is known from the weights."""
    site = Site("resid", task.model.blocks - 1)
    change = Change(task.model, site, neutral_prompts()[: task.setting.texts])
    drawn = torch.randn(task.setting.planted, task.model.width, generator=torch.Generator().manual_seed(2))
    directions = torch.nn.functional.normalize(drawn, dim=1)
    known = task.words(task.vocabulary.logits(directions * task.model.width**0.5))
    found = task.words(torch.stack([change.of(one, change.amount(one, NATS[0])) for one in directions]))
    shares = [len(set(one) & set(other)) / WORDS for one, other in zip(known, found, strict=True)]
    return at_least(
        "precision of TokenChange on planted words", mean_figure(shares, "mean over planted sets"), PRECISION
    )
