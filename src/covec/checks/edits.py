"""The contract of edits as pure functions on activations; `editing.py` holds them to what they do in a model."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import pkgutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

import covec.edits
from covec import registry
from covec.checks import editing
from covec.checks._check import Check, Law, checks, refusal
from covec.checks._edit import WIDTH, Subject, applied, planted
from covec.checks.expected import EDITS
from covec.concepts.bank import load_vector
from covec.concepts.vector import ConceptVector
from covec.detect.bag_of_dims import FlipSigns, PushSigns
from covec.edits.algebra import Edit, Replace
from covec.edits.attenuation import Attenuate, attenuate
from covec.edits.blend import Blend
from covec.edits.flow import Flow, start
from covec.edits.joint import set_scores
from covec.edits.norms import AddKeepingNorm
from covec.edits.programs import within_limits
from covec.edits.scope import flatten
from covec.edits.soft_concept import MixSoftConcept
from covec.edits.trainable import TrainableAdd
from covec.errors import CovecError
from covec.models.positions import Position
from covec.statistics.densities import Densities

_NEAR = 1e-5  # of the largest entry: float32 sums of a few hundred terms along other paths
_HALF = 3e-2  # what bfloat16 may cost


def attenuation(vector: ConceptVector) -> Attenuate:
    """Units attenuated by what rows about the class means of `vector` say of them."""
    part, rng = vector.parts[vector.site], np.random.default_rng(0)
    means = [mean.numpy() for mean in (part.mean_positive, part.mean_negative) if mean is not None]
    rows = np.stack(means).repeat(40, 0) + 3 * vector.scale * rng.standard_normal((80, part.width))
    densities = Densities.of(rows, np.repeat([0, 1], 40))
    fingerprint = vector.model.get("fingerprint")
    return attenuate(vector.site, densities, 0, range(8), width=part.width, fingerprint=fingerprint)


def softly(vector: ConceptVector) -> MixSoftConcept:
    """Soft concepts of random tables of the size of a model in which `vector` has its scale."""
    generator = torch.Generator().manual_seed(0)
    embeddings, head = (torch.randn(9, len(vector.direction), generator=generator) for _ in range(2))
    return MixSoftConcept(site=vector.site, embeddings=embeddings * vector.scale, head=head / vector.scale)


def flowing(vector: ConceptVector) -> Flow:
    """An untrained flow, as strong as `vector`, for a concept in two words."""
    part, size = vector.parts[vector.site], float(vector.write.norm())
    words = torch.randn(1, 2, part.width, generator=torch.Generator().manual_seed(0))
    return Flow(site=vector.site, words=words, counts=(2,), unit=size, **start(part.width))


MAKERS: dict[str, Callable[..., Any]] = {
    "add": lambda vector, strength=1.0: vector.add(strength),
    "ablate": lambda vector: vector.ablate(),
    "ablate to zero": lambda vector: vector.ablate(to="zero"),
    "set coordinate": lambda vector: vector.set_coordinate(0.7),
    "set scores": lambda vector: set_scores(vector, 0.7),
    "within limits": lambda vector: within_limits([vector], [0.6], [True]),
    "add keeping the norm": lambda vector: AddKeepingNorm(
        site=vector.site, shift=vector.write, fingerprint=vector.model.get("fingerprint")
    ),
    "lower probability": lambda vector: vector.to_probability(0.3),
    "raise probability": lambda vector: vector.to_probability(0.7, below=False),
    "attenuate": attenuation,
    "flip signs": lambda vector: FlipSigns(site=vector.site, pattern=vector.direction.sign()),
    "push signs": lambda vector: PushSigns(site=vector.site, signs=vector.direction.sign(), gain=0.1),
    "flow": flowing,
    "trainable add": lambda vector: TrainableAdd(site=vector.site, shift=vector.write),
    "blend": lambda vector: Blend(site=vector.site, value=vector.parts[vector.site].mean_positive, share=0.4),
    "mix soft concept": softly,
    "replace": lambda vector: Replace(site=vector.site, value=vector.parts[vector.site].mean_positive),
}


def activations(*shape: int, seed: int = 0) -> Float[Tensor, "rows tokens d"]:
    """Random activations as large as those that a vector is made of, and none of them zero."""
    return 3 * torch.randn(*(shape or (3, 5, WIDTH)), generator=torch.Generator().manual_seed(seed))


def _layouts() -> list[Tensor]:
    """The same kind of activations laid out in memory in every way: whole, transposed, sliced, and one row for all."""
    d = WIDTH
    sliced = activations(3, 10, 2 * d)[:, ::2, :d]
    return [activations(), activations(5, 3, d).transpose(0, 1), sliced, activations(1, 1, d).expand(3, 5, d)]


def nothing_given_is_changed(subject: Subject) -> None:
    """Activations, edit and vector are to the bit what they were, however the activations lie in memory."""
    vector = planted()
    edits, before = subject.edits(vector), copy.deepcopy(vector)
    for h in _layouts():
        kept = h.clone()
        applied(edits, h)
        assert torch.equal(h, kept)
    assert edits == subject.edits(before)
    assert vector.identical(before)


def form_is_kept(subject: Subject) -> None:
    """What comes out has the shape, type and device of what went in, also where there are no tokens."""
    d, devices = WIDTH, ["cpu", "meta", *(["cuda"] if torch.cuda.is_available() else [])]
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        for shape in ((3, 5, d), (1, 1, d), (2, 0, d)):
            for device in devices:
                h = activations(*shape).to(device, dtype)
                found = subject.apply(h)
                assert (found.shape, found.dtype, found.device) == (h.shape, h.dtype, h.device)


def layout_in_memory_does_not_matter(subject: Subject) -> None:
    """Transposed, sliced and expanded activations come out as whole ones do."""
    for h in _layouts():
        _close(subject.apply(h), subject.apply(h.clone(memory_format=torch.contiguous_format)))


def tokens_do_not_see_one_another(subject: Subject) -> None:
    """A token alone comes out as it does in a batch."""
    h = activations()
    together = subject.apply(h)
    for row in range(3):
        _close(subject.apply(h[row : row + 1]), together[row : row + 1])
        for token in range(5):
            _close(subject.apply(h[row : row + 1, token : token + 1]), together[row : row + 1, token : token + 1])


def bfloat16_is_enough(subject: Subject) -> None:
    """bfloat16 activations, small beside what is added, come out as float32 ones do, to 3e-2 of the largest entry."""
    h = (0.01 * activations()).bfloat16()
    _close(subject.apply(h).float(), subject.apply(h.float()), _HALF)


def gradients_flow(subject: Subject) -> None:
    """The gradient is the slope: along a random direction it says how far a small step moves what comes out."""
    h, ahead, across = (activations(seed=seed) for seed in range(3))
    given = h.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((subject.apply(given) * across).sum(), given)
    step = 1e-2
    moved = subject.apply(h + step * ahead).double() - subject.apply(h - step * ahead).double()
    slope, wanted = (gradient.double() * ahead).sum(), (moved * across).sum() / (2 * step)
    size = gradient.double().norm() * ahead.double().norm()
    assert size > 0, "the gradient is zero"
    assert abs(slope - wanted) <= 1e-3 * size, (float(slope), float(wanted))


def scale_of_the_model_does_not_matter(subject: Subject) -> None:
    """Where activations, class means and direction are seven times as large, so is what comes out (K-6, K-30)."""
    h = activations()
    _close(subject.apply(7 * h, planted(size=7)), 7 * subject.apply(h))


def twice_is_once(subject: Subject) -> None:
    """Done again, it changes nothing more."""
    once = subject.apply(activations())
    _close(subject.apply(once), once)


def a_saved_vector_makes_the_same_edit(subject: Subject) -> None:
    """Of a vector that was saved and loaded come equal edits, and the same bits out of them."""
    with tempfile.TemporaryDirectory() as folder:
        planted().save(Path(folder) / "vector")
        loaded = load_vector(Path(folder) / "vector")
    assert subject.edits(loaded) == subject.edits()
    assert torch.equal(subject.apply(activations(), loaded), subject.apply(activations()))


def edits_are_values(subject: Subject) -> None:
    """Edits are frozen; equal where their fields are, with equal hashes; at another position they differ."""
    for edit, again in zip(subject.edits(), subject.edits(), strict=True):
        assert type(edit).__name__ in repr(edit)
        assert edit == again, "made again of the same vector it is another"
        assert hash(edit) == hash(again)
        assert edit != dataclasses.replace(edit, position=Position("last"))
        assert edit != "an edit"
        try:
            edit.fingerprint = "another"  # type: ignore[misc]
        except dataclasses.FrozenInstanceError:
            continue
        raise AssertionError("a field of it can be set")


def strength_of_zero_is_nothing(subject: Subject) -> None:
    """At strength 0 every bit stays as it is."""
    for dtype in (torch.float32, torch.bfloat16):
        h = activations().to(dtype)
        assert torch.equal(subject.apply(h, strength=0.0), h)


def opposite_strengths_cancel(subject: Subject) -> None:
    """One strength and then its opposite is nothing."""
    h = activations()
    for strength in (0.5, 3.0):
        _close(subject.apply(subject.apply(h, strength=strength), strength=-strength), h)


def strength_is_the_rise_of_the_score(subject: Subject) -> None:
    """Strength s raises the score by s, wherever an activation stands; strengths after one another add up."""
    vector, h = planted(), activations()
    before = vector.score(h.flatten(0, 1))
    for strength in (-2.0, 0.5, 1.0):
        moved = vector.score(subject.apply(h, strength=strength).flatten(0, 1))
        torch.testing.assert_close(moved - before, torch.full_like(before, strength), rtol=0, atol=1e-3)
    _close(subject.apply(subject.apply(h, strength=1.0), strength=2.0), subject.apply(h, strength=3.0))


def strengths_that_are_no_numbers_are_refused(subject: Subject) -> None:
    """One line for a strength that is NaN or infinite."""
    for wrong in (float("nan"), float("inf")):
        refusal(partial(subject.edits, strength=wrong))


LAWS: tuple[Law, ...] = (
    nothing_given_is_changed,
    form_is_kept,
    layout_in_memory_does_not_matter,
    tokens_do_not_see_one_another,
    bfloat16_is_enough,
    gradients_flow,
    scale_of_the_model_does_not_matter,
    twice_is_once,
    a_saved_vector_makes_the_same_edit,
    edits_are_values,
    *editing.LAWS,
)
OF_STRENGTHS: tuple[Law, ...] = (
    strength_of_zero_is_nothing,
    opposite_strengths_cancel,
    strength_is_the_rise_of_the_score,
    strengths_that_are_no_numbers_are_refused,
)


def edit_checks(make: str | Callable[..., Any], expected_failures: Mapping[str, str] | None = None) -> list[Check]:
    """The checks of an edit: a name in `MAKERS`, or a function that makes edits of a concept vector.

    Raises
    ------
    CovecError
        There is no such name.
    """
    if isinstance(make, str) and make not in MAKERS:
        raise CovecError(f"no edit {make!r}; known: {', '.join(MAKERS)}")
    subject = Subject(make, MAKERS[make]) if isinstance(make, str) else Subject(getattr(make, "__name__", "edit"), make)
    laws = (*LAWS, *OF_STRENGTHS) if subject.has_strength else LAWS
    return checks("edit", subject.name, laws, subject, {**EDITS.get(subject.name, {}), **(expected_failures or {})})


def it_is_made_somewhere(kind: type[Edit]) -> None:
    """Every class of edits is made by one of `MAKERS`, so that none goes unchecked."""
    made = {type(edit) for make in MAKERS.values() for edit in flatten([make(planted())])}
    assert kind in made, f"say in covec.checks.edits.MAKERS how {kind.__name__} is made"


def discovered() -> list[Check]:
    """The checks of every class of edits that covec has."""
    found = [check for name in MAKERS for check in edit_checks(name)]
    return [*found, *(Check("edit", kind.__name__, it_is_made_somewhere, kind) for kind in edit_classes())]


def edit_classes() -> list[type[Edit]]:
    """The classes of edits in covec that change something: those of the room of edits, and those of its methods."""
    for module in pkgutil.iter_modules(covec.edits.__path__, "covec.edits."):
        importlib.import_module(module.name)
    for verb in registry.VERBS:
        for name in registry.names(verb):
            registry.get(verb, name)
    kinds = [kind for kind in _below(Edit) if kind.__module__.startswith("covec.") and not kind.observes]
    kinds = [kind for kind in kinds if kind.apply is not Edit.apply]  # what only says what others are to be
    return sorted(kinds, key=lambda kind: kind.__name__)


def _below(kind: type[Edit]) -> Iterator[type[Edit]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


def _close(found: Tensor, wanted: Tensor, near: float = _NEAR) -> None:
    largest = float(wanted.detach().abs().max()) if wanted.numel() else 0.0
    torch.testing.assert_close(found, wanted, rtol=0, atol=near * largest)
