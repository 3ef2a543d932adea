"""The contract of edits that are trained, held on a toy that reads what is planted in it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from covec.activations.answers import Answered
from covec.checks._check import Check, Law, checks, refusal
from covec.checks._unchanged import unchanged
from covec.checks.edits import edit_classes
from covec.checks.steering import world
from covec.edits.flow import flow
from covec.edits.objectives import NextToken
from covec.edits.trainable import TrainableEdit, zero_shifts
from covec.edits.training import Settings, Trained, train
from covec.errors import CovecError
from covec.models.text import TextModel
from covec.writing import whole_file

SETTINGS = Settings(steps=12, rate=3e-2, check_every=4)

# How untrained edits of each kind are made in a model.
TRAINABLE: dict[str, Callable[[TextModel], Sequence[TrainableEdit]]] = {
    "trainable add": lambda model: zero_shifts(model, ["resid.0", "mlp.1"], world(True).neutral),
    "flow": lambda model: [flow(model, "resid.0", ["good0 good1"], world(True).neutral)],
}


@dataclass(frozen=True)
class Subject:
    """The edits under test: a function that makes them, untrained."""

    name: str
    make: Callable[[TextModel], Sequence[TrainableEdit]]

    def edits(self) -> tuple[TrainableEdit, ...]:
        """Untrained ones for the toy."""
        return tuple(self.make(world(True).model))

    def trained(self, settings: Settings = SETTINGS, **options: Any) -> Trained[TrainableEdit]:
        """Trained to write texts with good words."""
        return train(self.edits(), objective(), settings, **options)


def objective(part: int = 0) -> NextToken:
    """What texts with good words say next; those of another part are other ones."""
    made = world(True)
    texts = made.examples.positive[16 * part : 16 * (part + 1)]
    return NextToken(Answered.whole(made.model, texts), rows=8)


def training_lowers_the_loss(subject: Subject) -> None:
    """Training lowers the loss, of texts that it has seen and of texts that it has not."""
    before, after = subject.edits(), subject.trained().edits
    for part in (0, 1):
        held = objective(part)
        with torch.no_grad():
            first, last = (float(held.loss(edits, 0)) for edits in (before, after))
        assert last < first, (part, first, last)


def gradients_reach_only_its_parameters(subject: Subject) -> None:
    """Every parameter has a gradient; no weight of the model gets one, and none needs more than it did."""
    module, edits = world(True).model.module, subject.trained().edits  # trained: at the start some may have none
    leaves = [
        {name: value.detach().clone().requires_grad_() for name, value in edit.parameters().items()} for edit in edits
    ]
    needed = [weight.requires_grad for weight in module.parameters()]
    made = tuple(edit.with_parameters(values) for edit, values in zip(edits, leaves, strict=True))
    flat = [value for values in leaves for value in values.values()]
    gradients = torch.autograd.grad(objective().loss(made, 0), flat)
    assert all(bool(gradient.isfinite().all() and gradient.any()) for gradient in gradients)
    assert all(weight.grad is None for weight in module.parameters())
    assert [weight.requires_grad for weight in module.parameters()] == needed


def same_seed_same_bits(subject: Subject) -> None:
    """Trained twice it has the same bits, whatever the state of the global random generators."""
    found = []
    for state in (1, 2):
        torch.manual_seed(state)
        found.append(subject.trained())
    assert _bits(found[0].edits) == _bits(found[1].edits)
    assert found[0].losses == found[1].losses


def what_goes_on_equals_what_never_stopped(subject: Subject) -> None:
    """Stopped after some steps and gone on with from its checkpoint, it has the bits of one that never stopped."""
    whole = subject.trained(validation=objective(1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        with suppress(_StoppedError):
            train(subject.edits(), _Stopping(objective(), 6), SETTINGS, validation=objective(1), checkpoint=path)
        assert path.exists()
        again = subject.trained(validation=objective(1), checkpoint=path)
        settings = replace(SETTINGS, rate=1e-3)
        refusal(lambda: subject.trained(settings, validation=objective(1), checkpoint=path))
        cut = path.read_bytes()[:200]
        with whole_file(path) as draft:
            draft.write_bytes(cut)
        refusal(lambda: subject.trained(validation=objective(1), checkpoint=path))
    assert _bits(again.edits) == _bits(whole.edits)
    assert (again.losses, again.checks) == (whole.losses, whole.checks)


def the_model_is_left_as_it_was(subject: Subject) -> None:
    """No weight, gradient, hook or output of the model is another one after training, nor after training that fails."""
    made = world(True)
    with unchanged(made):
        subject.trained()
        with suppress(_StoppedError):
            train(subject.edits(), _Stopping(objective(), 2), SETTINGS)


def untrained_edits_are_left_as_they_were(subject: Subject) -> None:
    """Training gives new edits; those that it began with keep their bits, and the new ones hold no graph."""
    edits = subject.edits()
    before = _bits(edits)
    after = train(edits, objective(), SETTINGS).edits
    assert _bits(edits) == before
    assert _bits(after) != before
    assert not any(value.requires_grad for edit in after for value in edit.parameters().values())


LAWS: tuple[Law, ...] = (
    training_lowers_the_loss,
    gradients_reach_only_its_parameters,
    same_seed_same_bits,
    what_goes_on_equals_what_never_stopped,
    the_model_is_left_as_it_was,
    untrained_edits_are_left_as_they_were,
)


class _StoppedError(Exception):
    """What ends a training in its midst."""


@dataclass(frozen=True)
class _Stopping:
    """An objective that ends the training after some steps."""

    objective: NextToken
    after: int

    @property
    def digest(self) -> str:
        return self.objective.digest

    def loss(self, edits: Sequence[TrainableEdit], step: int) -> torch.Tensor:
        if step == self.after:
            raise _StoppedError
        return self.objective.loss(edits, step)


def _bits(edits: Sequence[TrainableEdit]) -> list[tuple[str, bytes]]:
    named = [(name, value.detach()) for edit in edits for name, value in edit.parameters().items()]
    return [(name, value.contiguous().view(torch.uint8).numpy().tobytes()) for name, value in named]


def training_checks(
    make: str | Callable[[TextModel], Sequence[TrainableEdit]], expected_failures: Mapping[str, str] | None = None
) -> list[Check]:
    """The checks of edits that are trained: a name in `TRAINABLE`, or a function that makes them for a model."""
    if isinstance(make, str) and make not in TRAINABLE:
        raise CovecError(f"no trainable edit {make!r}; known: {', '.join(TRAINABLE)}")
    named = (make, TRAINABLE[make]) if isinstance(make, str) else (getattr(make, "__name__", "edit"), make)
    return checks("training", named[0], LAWS, Subject(*named), expected_failures or {})


def it_is_made_somewhere(kind: type[TrainableEdit]) -> None:
    """Every class of edits that are trained is made by one of `TRAINABLE`, so that none goes unchecked."""
    model = world(True).model
    made = {type(edit) for make in TRAINABLE.values() for edit in make(model)}
    assert kind in made, f"say in covec.checks.training.TRAINABLE how {kind.__name__} is made"


def discovered() -> list[Check]:
    """The checks of every class of edits that are trained."""
    found = [check for name in TRAINABLE for check in training_checks(name)]
    return [*found, *(Check("training", kind.__name__, it_is_made_somewhere, kind) for kind in _classes())]


def _classes() -> Iterator[type[TrainableEdit]]:
    return (kind for kind in edit_classes() if issubclass(kind, TrainableEdit) and kind.trained)
