"""Pictures and captions of the same things, and a small transformer that tells from examples what is asked of them.

A thing has a colour, a shape, a place and a ground. It is shown as a picture of four patches, or told by a caption of
four words; behind either stands `:`, and one of the four attributes is the answer. Which one, only the examples before
it tell, or its name at the beginning: `. patch3 patch0 patch61 patch0 : circle ...`, `colour red northwest dotted
circle : red`. In training all that stands in one text is of one kind: pictures, or captions.

Patches are pixels with noise, and what the network reads of one is a linear map of them, folded into its table of
embeddings once it is trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from covec.concepts.examples import Examples
from covec.errors import ExamplesError
from covec.models.text import TextModel
from covec.progress import Progress, silent
from covec.worlds import small

ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "colour": ("red", "green", "blue", "yellow"),
    "shape": ("circle", "square", "triangle", "cross"),
    "place": ("northwest", "northeast", "southwest", "southeast"),
    "ground": ("plain", "striped", "dotted", "chequered"),
}
TASKS = tuple(ATTRIBUTES)
KINDS = ("picture", "caption")
ASK, START = ":", "."
SIDE, SEEN = 6, 3  # pixels of a patch's side, and noisy renderings of each
Thing = tuple[int, int, int, int]  # the number of its colour, shape, place and ground

_COLOURS = np.array([[0.9, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.9], [0.9, 0.8, 0.1]])
_NOISE = 0.05
_THINGS = tuple(product(*(range(len(values)) for values in ATTRIBUTES.values())))
_PATCHES = [(None, None, ground) for ground in range(4)] + list(product(range(4), range(4), range(4)))
_CODE = {patch: SEEN * place for place, patch in enumerate(_PATCHES)}
WORDS = (
    *(f"patch{code}" for code in range(SEEN * len(_PATCHES))),
    *(word for values in ATTRIBUTES.values() for word in values),
    *TASKS,
    ASK,
    START,
)
SHOTS = 4
_THING = len(ATTRIBUTES) + 2  # words of a thing and its answer
LONGEST = 1 + (SHOTS + 1) * _THING
STEPS, _ROWS = 1600, 48
_NAMED = 0.25  # how often a text begins with the name of the attribute


@cache
def things() -> tuple[tuple[Thing, ...], tuple[Thing, ...]]:
    """Those that are trained on, and a fifth of all that never are."""
    order = np.random.default_rng(0).permutation(len(_THINGS))
    return tuple(_THINGS[one] for one in order[51:]), tuple(_THINGS[one] for one in order[:51])


def query(thing: Thing, kind: str, rng: np.random.Generator) -> str:
    """The thing as a picture or as a caption, and what asks: an answer follows."""
    if kind not in KINDS:
        raise ExamplesError(f"a thing is shown as {' or '.join(KINDS)}, not {kind!r}")
    words = _picture(thing, rng) if kind == "picture" else _caption(thing, rng)
    return " ".join((*words, ASK))


def answer(thing: Thing, task: str) -> str:
    """The value of the attribute that is asked for."""
    return ATTRIBUTES[task][thing[TASKS.index(task)]]


def prompt(
    task: str | None, shown: Sequence[Thing], asked: Thing, kind: str, rng: np.random.Generator, *, named: bool = False
) -> str:
    """A text that shows `task` by examples, or by its name, and asks for it in another thing."""
    start = task if named and task is not None else START
    examples = [f"{query(one, kind, rng)} {answer(one, task)}" for one in shown if task is not None]
    return " ".join((start, *examples, query(asked, kind, rng)))


def examples(task: str, kind: str, count: int, seed: int = 0) -> Examples:
    """Prompts that show `task` by examples of known things, and as many that ask for the same and whose examples are
    answered by any attribute; the column `answer` has what is asked for.
    """
    rng, known = np.random.default_rng(seed), things()[0]
    texts, answers = [], []
    for _ in range(count):
        *shown, asked = (known[one] for one in rng.choice(len(known), SHOTS + 1, replace=False))
        for tasks in ([task] * SHOTS, rng.choice(TASKS, SHOTS)):
            rows = [f"{query(one, kind, rng)} {answer(one, str(of))}" for one, of in zip(shown, tasks, strict=True)]
            texts.append(" ".join((START, *rows, query(asked, kind, rng))))
        answers += [answer(asked, task)] * 2
    return Examples(tuple(texts), np.arange(2 * count) % 2 == 0, extra={"answer": tuple(answers)}, name=task)


def patches() -> Float[np.ndarray, "patches pixels"]:
    """The pixels of every patch that there is, in the order of its number."""
    rng = np.random.default_rng(0)
    clean = np.stack([_drawn(*patch) for patch in _PATCHES]).repeat(SEEN, 0)
    return np.asarray(clean + _NOISE * rng.standard_normal(clean.shape), dtype=np.float32)


def trained(steps: int = STEPS, *, progress: Progress = silent) -> TextModel:
    """The small transformer, trained: fifteen steps a second."""
    rng = np.random.default_rng(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = small.transformer(WORDS, width=64, blocks=4, longest=LONGEST)
        parametrize.register_parametrization(module.model.embed_tokens, "weight", _Seeing())
        small.train(module, lambda: _draw(rng), steps=steps, progress=progress)
    parametrize.remove_parametrizations(module.model.embed_tokens, "weight")
    return TextModel(module, small.tokenizer(WORDS), name="world-pictures")


class _Seeing(nn.Module):
    """A table of embeddings of which the rows of patches are a linear map of their pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.pixels = torch.from_numpy(patches())
        self.seen = slice(2, 2 + len(self.pixels))  # behind the padding and the unknown word

    def forward(self, table: Float[Tensor, "words d"]) -> Float[Tensor, "words d"]:
        """The first rows of patches, as many as there are pixels, hold the map; the rest of those are not used."""
        weights = table[self.seen][: self.pixels.shape[1]]
        return torch.cat([table[: self.seen.start], self.pixels @ weights, table[self.seen.stop :]])


def _draw(rng: np.random.Generator) -> small.Drawn:
    """Texts of either kind; to be predicted are the answers."""
    number, known = small.vocabulary(WORDS), things()[0]
    ids = torch.zeros(_ROWS, LONGEST, dtype=torch.long)
    for row in range(_ROWS):
        task, kind = TASKS[rng.integers(len(TASKS))], KINDS[rng.integers(2)]
        drawn = [known[one] for one in rng.choice(len(known), SHOTS + 1, replace=False)]
        text = prompt(task, drawn[:-1], drawn[-1], kind, rng, named=bool(rng.random() < _NAMED))
        words = (*text.split(), answer(drawn[-1], task))
        ids[row] = torch.tensor([number[word] for word in words])
    marks = torch.zeros_like(ids, dtype=torch.bool)
    marks[:, _THING::_THING] = True
    return ids, marks


def _picture(thing: Thing, rng: np.random.Generator) -> list[str]:
    colour, shape, place, ground = thing
    codes = [_CODE[None, None, ground]] * 4
    codes[place] = _CODE[colour, shape, ground]
    return [f"patch{code + one}" for code, one in zip(codes, rng.integers(SEEN, size=4), strict=True)]


def _caption(thing: Thing, rng: np.random.Generator) -> list[str]:
    return [answer(thing, TASKS[place]) for place in rng.permutation(len(TASKS))]


def _drawn(colour: int | None, shape: int | None, ground: int) -> Float[np.ndarray, "pixels"]:
    """The pixels of one patch: a ground in grey, and a shape of a colour upon it."""
    down, right = np.mgrid[:SIDE, :SIDE]
    grey = (np.full((SIDE, SIDE), 0.5), 0.5 * (down % 2), 0.5 * (down % 2) * (right % 2), 0.5 * ((down + right) % 2))
    image = np.repeat(grey[ground][..., None], 3, axis=2)
    if colour is not None and shape is not None:
        y, x = down - (SIDE - 1) / 2, right - (SIDE - 1) / 2
        masks = (
            x**2 + y**2 < 6.6,
            np.maximum(abs(x), abs(y)) < 2,
            (y > -2) & (abs(x) <= (y + 2) / 2),
            np.minimum(abs(x), abs(y)) < 1,
        )
        image[masks[shape]] = _COLOURS[colour]
    return image.reshape(-1)
