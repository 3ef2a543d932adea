"""Pictures of shapes in which everything is known, and a small vision transformer with a head for each thing to tell.

One to three equal shapes stand in one corner of a noisy grey ground. Their colour, shape, texture, corner and number
are drawn independently, so that no task helps another by its labels. The network has learned all tasks a little, with
one head each: what is left to learn is left to the encoder.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import ViTConfig, ViTModel

from covec.errors import ExamplesError
from covec.progress import Progress, silent
from covec.worlds import small

ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "colour": ("red", "green", "blue", "yellow", "magenta", "cyan"),
    "shape": ("circle", "square", "triangle", "cross"),
    "texture": ("plain", "striped", "dotted", "chequered"),
    "position": ("upper left", "upper right", "lower left", "lower right"),
    "count": ("one", "two", "three"),
}
PAIR = "colour and shape"  # a sixth task: both at once
TASKS: Mapping[str, int] = {**{name: len(values) for name, values in ATTRIBUTES.items()}, PAIR: 24}  # classes of each
SIZE, PATCH, WIDTH, BLOCKS = 48, 8, 64, 4
_COLOURS = torch.tensor(
    [[0.9, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.2, 0.9], [0.9, 0.8, 0.1], [0.9, 0.1, 0.8], [0.1, 0.8, 0.9]]
)
_CELL = SIZE // 4  # a corner has four cells, each with a shape or none
_NOISE = 0.08  # standard deviation of every pixel
_STEPS, _ROWS, _RATE = 500, 32, 2e-3
_ENOUGH = 0.6  # accuracy from which on a task is not trained further: a network that knows a little of all


@dataclass(frozen=True)
class Scenes:
    """Pictures, the number of each attribute's value, and the pixels on which a shape stands."""

    images: Float[Tensor, "n 3 48 48"]
    values: dict[str, Int[Tensor, "n"]]
    masks: Bool[Tensor, "n 48 48"]

    def __len__(self) -> int:
        return len(self.images)

    def labels(self, task: str) -> Int[Tensor, "n"]:
        """The right class of every picture in a task; those of `PAIR` count shapes within colours."""
        if task == PAIR:
            return self.values["colour"] * len(ATTRIBUTES["shape"]) + self.values["shape"]
        return self.values[task]


def scenes(n: int, /, seed: int = 0, **fixed: str | Sequence[str]) -> Scenes:
    """`n` pictures; the same arguments make the same bits.

    Parameters
    ----------
    fixed
        For an attribute the value or values that it may have: `colour="red"`, `shape=("circle", "square")`.

    Raises
    ------
    ExamplesError
        There is no such attribute or value.
    """
    rng = np.random.default_rng(seed)
    allowed = {name: _allowed(name, fixed.pop(name, values)) for name, values in ATTRIBUTES.items()}
    if fixed:
        raise ExamplesError(f"shapes have no {min(fixed)}; they have {', '.join(ATTRIBUTES)}")
    values = {name: torch.from_numpy(rng.choice(numbers, n)) for name, numbers in allowed.items()}
    cells = torch.from_numpy(rng.permuted(np.tile(np.arange(4), (n, 1)), axis=1)[:, :3])
    jitter = torch.from_numpy(rng.uniform(-1, 1, (n, 3, 2))).float()
    radius = torch.from_numpy(rng.uniform(4.2, 5.4, (n, 3))).float()
    ground = torch.from_numpy(rng.uniform(0.3, 0.6, (n, 1, 1, 1))).float()
    noise = torch.from_numpy(rng.standard_normal((n, 3, SIZE, SIZE), dtype=np.float32))
    return _drawn(values, cells, jitter, radius, ground + _NOISE * noise)


def _allowed(name: str, values: str | Sequence[str]) -> list[int]:
    known = ATTRIBUTES[name]
    listed = (values,) if isinstance(values, str) else tuple(values)
    if not listed or (strange := [value for value in listed if value not in known]):
        raise ExamplesError(f"no {name} {strange[0] if listed else ''!r}; there are {', '.join(known)}")
    return [known.index(value) for value in listed]


def _drawn(
    values: dict[str, Tensor],
    cells: Int[Tensor, "n 3"],
    jitter: Float[Tensor, "n 3 2"],
    radius: Float[Tensor, "n 3"],
    images: Float[Tensor, "n 3 48 48"],
) -> Scenes:
    """Draw the shapes one after the other onto the ground."""
    grid = torch.arange(SIZE) + 0.5
    masks = torch.zeros(len(images), SIZE, SIZE, dtype=torch.bool)
    corner = torch.stack([values["position"] % 2, values["position"] // 2], -1) * 2
    colours = _COLOURS[values["colour"]][:, :, None, None]
    for index in range(3):
        cell = torch.stack([cells[:, index] % 2, cells[:, index] // 2], -1)
        centre = (corner + cell + 0.5) * _CELL + 0.5 * jitter[:, index]
        x = (grid[None, None, :] - centre[:, 0, None, None]) / radius[:, index, None, None]
        y = (grid[None, :, None] - centre[:, 1, None, None]) / radius[:, index, None, None]
        x, y = torch.broadcast_tensors(x, y)
        inside = _inside(x, y, values["shape"]) & (values["count"] >= index)[:, None, None]
        light = _texture(x, y, values["texture"])[:, None]
        images = torch.where(inside[:, None], images * 0.1 + 0.9 * colours * light, images)
        masks |= inside
    return Scenes(images.clamp(0, 1), values, masks)


def _inside(x: Tensor, y: Tensor, shape: Tensor) -> Bool[Tensor, "n 48 48"]:
    """Where a shape of radius 1 covers the plane; all have about the same area."""
    wide, tall = x.abs(), y.abs()
    kinds = torch.stack(
        [
            x.square() + y.square() < 0.9,
            torch.maximum(wide, tall) < 0.84,
            (tall < 1) & (wide < 0.55 * (y + 1.05)),
            (torch.minimum(wide, tall) < 0.4) & (torch.maximum(wide, tall) < 1.1),
        ],
        1,
    )
    return kinds[torch.arange(len(x)), shape]


def _texture(x: Tensor, y: Tensor, texture: Tensor) -> Float[Tensor, "n 48 48"]:
    """How light a shape is at every place."""
    across, along = torch.sin(2 * math.pi * x), torch.sin(2 * math.pi * y)
    kinds = torch.stack(
        [
            torch.ones_like(x),
            (along > 0).float(),
            ((across > 0) & (along > 0)).float(),
            (across * along > 0).float(),
        ],
        1,
    )
    return 0.4 + 0.6 * kinds[torch.arange(len(x)), texture]


class Network(nn.Module):
    """A vision transformer and, on what its first token shows, a linear head for every task."""

    def __init__(self) -> None:
        super().__init__()
        config = ViTConfig(
            image_size=SIZE,
            patch_size=PATCH,
            hidden_size=WIDTH,
            num_hidden_layers=BLOCKS,
            num_attention_heads=4,
            intermediate_size=2 * WIDTH,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.encoder: Any = ViTModel(config, add_pooling_layer=False)
        self.heads = nn.ModuleDict({name: nn.Linear(WIDTH, classes) for name, classes in TASKS.items()})

    def features(self, images: Float[Tensor, "n 3 48 48"]) -> Float[Tensor, "n d"]:
        """What the heads read."""
        found: Tensor = self.encoder(pixel_values=2 * images - 1).last_hidden_state[:, 0]
        return found

    def forward(self, images: Float[Tensor, "n 3 48 48"], task: str) -> Float[Tensor, "n classes"]:
        """The logits of one task."""
        logits: Tensor = self.heads[task](self.features(images))
        return logits


def network() -> Network:
    """The small vision transformer, with its shipped weights; it needs no gradients."""
    return small.filled("shapes", Network()).eval().requires_grad_(False)


def accuracy(module: Callable[..., Tensor], shown: Scenes, task: str) -> float:
    """Share of pictures whose class in `task` is named."""
    with torch.no_grad():
        return float((module(shown.images, task).argmax(1) == shown.labels(task)).float().mean())


def trained(progress: Progress = silent, steps: int = _STEPS) -> Network:
    """Train it anew on all tasks at once: some minutes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = Network()
        optimiser = torch.optim.AdamW(module.parameters(), lr=_RATE, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, _RATE, total_steps=steps, pct_start=0.1)
        known = dict.fromkeys(TASKS, 0.0)
        with progress("training", steps) as bar:
            for step in range(steps):
                shown = scenes(_ROWS, seed=10_000_000 + step)
                features, losses = module.features(shown.images), [torch.zeros(())]
                for task, head in module.heads.items():
                    logits, labels = head(features), shown.labels(task)
                    known[task] += 0.1 * (float((logits.argmax(1) == labels).float().mean()) - known[task])
                    if known[task] < _ENOUGH:
                        losses.append(cross_entropy(logits, labels))
                optimiser.zero_grad()
                (torch.stack(losses).sum() + 0 * features.sum()).backward()
                optimiser.step()
                schedule.step()
                bar.advance(1)
    module.zero_grad()
    return module.eval()
