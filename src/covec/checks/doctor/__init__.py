"""The doctor: the engine's laws, run on a user's own model.

Every check compares covec with the model itself: with plain calls, with hooks of its own and with the tokenizer. So it
fails where covec misreads the model, and also where the model does not keep what covec builds on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from jinja2 import TemplateError

from covec.checks.doctor._cache import cache
from covec.checks.doctor._calls import determinism, noop, restore_after_error
from covec.checks.doctor._heads import head_rebuild
from covec.checks.doctor._patient import DoesNotApply, Failed, Patient
from covec.checks.doctor._rows import batch, padding_left, padding_right
from covec.checks.doctor._sites import site_meaning
from covec.checks.doctor._tokens import bos
from covec.errors import CovecError
from covec.models.text import TextModel
from covec.progress import Progress, silent

CHECKS: dict[str, Callable[[Patient], str]] = {
    "padding-left": padding_left,
    "padding-right": padding_right,
    "batch": batch,
    "cache": cache,
    "noop": noop,
    "site-meaning": site_meaning,
    "determinism": determinism,
    "restore-after-error": restore_after_error,
    "bos": bos,
    "head-rebuild": head_rebuild,
}
# What the code or the chat template of a model raises where it does not bear to be called so: that is a finding.
_RAISED = (
    *(CovecError, TemplateError, RuntimeError, ValueError, TypeError, LookupError),
    *(AttributeError, AssertionError, ArithmeticError, ImportError, OSError),
)


@dataclass(frozen=True)
class Finding:
    """One law on one model: whether it holds, and in one line what was measured against which limit."""

    name: str
    passed: bool
    detail: str

    def to_json(self) -> dict[str, Any]:
        """As `covec doctor --json` prints it."""
        return {"name": self.name, "passed": self.passed, "detail": self.detail}


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor found: one check a law, in the order of `CHECKS`."""

    model: str
    dtype: str
    device: str
    checks: tuple[Finding, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether every law holds."""
        return all(check.passed for check in self.checks)

    def __getitem__(self, name: str) -> Finding:
        return {check.name: check for check in self.checks}[name]

    def to_json(self) -> dict[str, Any]:
        """As `covec doctor --json` prints it."""
        return {
            "model": self.model,
            "dtype": self.dtype,
            "device": self.device,
            "passed": self.passed,
            "checks": [check.to_json() for check in self.checks],
            "seconds": round(self.seconds, 2),
        }

    @property
    def headline(self) -> str:
        """The outcome in a line."""
        failed = [check.name for check in self.checks if not check.passed]
        outcome = f"{', '.join(failed)} failed" if failed else f"all {len(self.checks)} checks passed"
        return f"{self.model} ({self.dtype}, {self.device}): {outcome}"

    def __str__(self) -> str:
        lines = [f"  {'yes' if check.passed else 'NO '}  {check.name:<19}  {check.detail}" for check in self.checks]
        return "\n".join([self.headline, *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(check.name)}</td><td>{'passed' if check.passed else '<b>failed</b>'}</td>"
            f'<td style="text-align: left">{escape(check.detail)}</td></tr>'
            for check in self.checks
        )
        return f"<p>{escape(self.headline)}</p><table>{rows}</table>"


def doctor(model: TextModel, *, progress: Progress = silent) -> Diagnosis:
    """Whether the engine's laws hold on `model`, which is left bit-identical.

    Activations must agree to 1e-4 of the row's largest entry in float32; in lower precision three rows in four of every
    text to 3e-2, for there rounding alone may send a token to another expert. A check that does not apply to the model,
    such as `cache` to one that writes no text, passes and says why.

    Raises
    ------
    ModelError
        Where the model is in training mode with dropout at work.
    """
    model.check_settled()
    begun = time.perf_counter()
    patient = Patient(model)
    found = []
    with progress(f"examining {model.name}", len(CHECKS)) as bar:
        for name, examine in CHECKS.items():
            found.append(Finding(name, *_outcome(examine, patient)))
            bar.advance()
    dtype = str(model.dtype).removeprefix("torch.")
    return Diagnosis(model.name, dtype, str(model.device), tuple(found), time.perf_counter() - begun)


def _outcome(examine: Callable[[Patient], str], patient: Patient) -> tuple[bool, str]:
    try:
        return True, examine(patient)
    except DoesNotApply as why:
        return True, f"does not apply: {why}"
    except Failed as finding:
        return False, str(finding)
    except torch.OutOfMemoryError:
        raise
    except _RAISED as error:
        return False, " ".join(f"raised {type(error).__name__}: {error}".split())[:300]
