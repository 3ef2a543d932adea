"""The one trainer: AdamW on the tensors of edits, and on nothing else.

Gradients are asked for by name, so that none is left on the model, whose weights no step touches. A step depends on its
number, the seed and the tensors alone: training that goes on from a checkpoint gives the bits of one that never
stopped.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import safetensors
import torch
from safetensors.torch import load, save
from torch import Tensor

from covec.edits.trainable import TrainableEdit
from covec.errors import CovecError, FileError, ModelError
from covec.progress import Progress, silent
from covec.writing import whole_file

E = TypeVar("E", bound=TrainableEdit)
_STATE = ("step", "exp_avg", "exp_avg_sq")  # what AdamW remembers of a tensor


class Objective(Protocol):
    """What edits are trained for."""

    @property
    def digest(self) -> str:
        """Of the data and all that it was made with: a checkpoint of another objective is refused."""
        ...

    def loss(self, edits: Sequence[TrainableEdit], step: int) -> Tensor:
        """The loss of `edits` on the rows of `step`, the same rows for the same step."""
        ...


@dataclass(frozen=True)
class Settings:
    """How to train.

    Parameters
    ----------
    steps
        Steps at most.
    rate
        Of AdamW; it rises over `warmup` steps, and with `cosine` falls to nothing at the end.
    decay
        Weight decay.
    clip
        The longest that the gradient of all tensors together may be.
    check_every
        Steps between two looks at the validation loss, and between two checkpoints.
    patience
        Looks in a row without a lower validation loss after which training stops.
    """

    steps: int = 100
    rate: float = 1e-2
    decay: float = 0.0
    clip: float = 1.0
    warmup: int = 0
    cosine: bool = False
    check_every: int = 20
    patience: int = 3

    def __post_init__(self) -> None:
        counts = {"steps": self.steps, "check_every": self.check_every, "patience": self.patience}
        if low := next((name for name, count in counts.items() if count < 1), None):
            raise CovecError(f"training takes {low} of at least 1, not {counts[low]}")
        for name, value, least in (("rate", self.rate, 0.0), ("clip", self.clip, 0.0), ("decay", self.decay, -1.0)):
            if not (math.isfinite(value) and value > least):
                raise CovecError(f"training takes a finite {name} above {least:g}, not {value}")

    def rate_at(self, step: int) -> float:
        """The rate of a step."""
        rise = min(1.0, (step + 1) / self.warmup) if self.warmup else 1.0
        fall = (1 + math.cos(math.pi * step / self.steps)) / 2 if self.cosine else 1.0
        return self.rate * rise * fall


@dataclass(frozen=True)
class Trained(Generic[E]):
    """Trained edits: those of the lowest validation loss, where there was one, else the last.

    `losses` has one a step, `checks` the validation losses by the number of steps before them.
    """

    edits: tuple[E, ...]
    losses: tuple[float, ...]
    checks: dict[int, float]


def train(
    edits: Sequence[E],
    objective: Objective,
    settings: Settings | None = None,
    *,
    validation: Objective | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress = silent,
) -> Trained[E]:
    """Train `edits` together.

    Parameters
    ----------
    validation
        Whose loss decides when to stop and which tensors to keep; all of its rows are those of step 0.
    checkpoint
        A file that is written every `check_every` steps, whole or not at all; where it is there, training goes on.

    Raises
    ------
    CovecError
        There is nothing to train.
    ModelError
        The loss is no number.
    FileError
        The checkpoint is damaged, or of another training.
    """
    settings = settings or Settings()
    run = _Run(tuple(edits), objective, settings, validation)
    if checkpoint is not None and Path(checkpoint).exists():
        run.restore(Path(checkpoint))
    with progress("training", settings.steps) as bar:
        bar.advance(run.step)
        while run.step < settings.steps and not run.stopped:
            run.advance()
            bar.advance()
            if run.step % settings.check_every == 0 or run.step == settings.steps:
                run.look()
                if checkpoint is not None:
                    run.store(Path(checkpoint))
    return run.result()


class _Run(Generic[E]):
    """The state of a training between two steps."""

    def __init__(
        self, edits: tuple[E, ...], objective: Objective, settings: Settings, validation: Objective | None
    ) -> None:
        self.edits, self.objective, self.settings, self.validation = edits, objective, settings, validation
        named = {
            f"{place}.{name}": value for place, edit in enumerate(edits) for name, value in edit.parameters().items()
        }
        if not named:
            raise CovecError("there is nothing to train: give an edit with parameters")
        self.leaves = {name: value.detach().clone().requires_grad_() for name, value in named.items()}
        self.optimiser = torch.optim.AdamW(list(self.leaves.values()), lr=settings.rate, weight_decay=settings.decay)
        self.step, self.stopped, self.worse = 0, False, 0
        self.losses: list[float] = []
        self.checks: dict[int, float] = {}
        self.best: dict[str, Tensor] = {}
        self.key = self._key()

    def advance(self) -> None:
        """One step."""
        with torch.enable_grad():
            loss = self.objective.loss(self._made(self.leaves), self.step)
            gradients = torch.autograd.grad(loss, list(self.leaves.values()), allow_unused=True)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise ModelError(
                f"the loss of step {self.step + 1} is {value}: lower the rate, or load the model in float32"
            )
        for leaf, gradient in zip(self.leaves.values(), gradients, strict=True):
            leaf.grad = torch.zeros_like(leaf) if gradient is None else gradient
        torch.nn.utils.clip_grad_norm_(list(self.leaves.values()), self.settings.clip)
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.rate_at(self.step)
        self.optimiser.step()
        self.losses.append(value)
        self.step += 1

    def look(self) -> None:
        """Measure the validation loss; keep what lowers it, and stop after a while in which nothing did."""
        if self.validation is None or self.step in self.checks:
            return
        with torch.no_grad():
            value = float(self.validation.loss(self._made(self.leaves), 0))
        if value < min(self.checks.values(), default=math.inf):
            self.best, self.worse = {name: leaf.detach().clone() for name, leaf in self.leaves.items()}, 0
        else:
            self.worse += 1
        self.checks[self.step] = value
        self.stopped = self.worse >= self.settings.patience

    def result(self) -> Trained[E]:
        values = self.best or {name: leaf.detach().clone() for name, leaf in self.leaves.items()}
        return Trained(self._made(values), tuple(self.losses), dict(self.checks))

    def store(self, path: Path) -> None:
        """Write the whole state to `path`."""
        tensors = {f"best/{name}": value for name, value in self.best.items()}
        for name, leaf in self.leaves.items():
            tensors[f"value/{name}"] = leaf.detach()
            tensors |= {f"{part}/{name}": self.optimiser.state[leaf][part] for part in _STATE}
        told = {"key": self.key, "step": self.step, "worse": self.worse, "stopped": self.stopped}
        told |= {"losses": self.losses, "checks": list(self.checks.items())}
        with whole_file(path) as draft:
            draft.write_bytes(
                save({name: value.contiguous() for name, value in tensors.items()}, {"run": json.dumps(told)})
            )

    def restore(self, path: Path) -> None:
        """Go on from `path`, to the bit."""
        with suppress(OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError):
            told, tensors = _read(path)
            if told["key"] != self.key:
                raise FileError(
                    f"{path} is of another training (other edits, data, model or settings): name another file, or "
                    "remove it"
                )
            for name, leaf in self.leaves.items():
                with torch.no_grad():
                    leaf.copy_(tensors[f"value/{name}"])
                self.optimiser.state[leaf] = {part: tensors[f"{part}/{name}"] for part in _STATE}
            self.best = {name: tensors[f"best/{name}"] for name in self.leaves if f"best/{name}" in tensors}
            self.step, self.worse, self.stopped = told["step"], told["worse"], told["stopped"]
            self.losses, self.checks = told["losses"], {int(step): value for step, value in told["checks"]}
            return
        raise FileError(f"{path} is no checkpoint, or a damaged one: name another file, or remove it")

    def _made(self, values: dict[str, Tensor]) -> tuple[E, ...]:
        """The edits, with these tensors."""
        return tuple(
            edit.with_parameters({name: values[f"{place}.{name}"] for name in edit.parameters()})
            for place, edit in enumerate(self.edits)
        )

    def _key(self) -> str:
        """Of all that a checkpoint must have in common with a training that goes on from it."""
        whole = hashlib.sha256(json.dumps(asdict(self.settings), sort_keys=True).encode())
        said = [self.objective.digest, "" if self.validation is None else self.validation.digest]
        for text in (*said, *map(repr, self.edits), *(str(edit.fingerprint) for edit in self.edits)):
            whole.update(text.encode())
        for name, leaf in self.leaves.items():
            whole.update(
                f"{name} {leaf.dtype}".encode() + leaf.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
            )
        return whole.hexdigest()


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    return json.loads(header["__metadata__"]["run"]), load(content)
