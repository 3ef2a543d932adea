"""Moments of a stream: in memory, or in a folder from which an interrupted run goes on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from covec.activations import shards, sheets
from covec.activations.identity import CONTENT, identity
from covec.activations.moments import Moments
from covec.activations.stream import Done, Labels, Window, stream
from covec.errors import FileError, ModelError
from covec.models.batching import TOKEN_BUDGET
from covec.models.positions import Position, warn_of_bare
from covec.models.sites import BySite, Site
from covec.models.text import TextModel
from covec.models.tokens import Input, Span
from covec.progress import Progress, silent

CHECKPOINT_SECONDS = 20.0  # of work that a killed run may lose
_FILE = f"moments{sheets.ENDING}"


@dataclass
class Tally:
    """The moments of what was read of a stream, a site each.

    Parameters
    ----------
    inputs, read, fallbacks
        Number of inputs, of their tokens, and of inputs without content, of which the last token was read.
    seen
        Digest of the inputs.
    resumed
        Number of inputs that earlier runs had read when the last one began.
    """

    moments: BySite[Moments] = field(default_factory=BySite)
    inputs: int = 0
    read: int = 0
    fallbacks: int = 0
    seen: str = Done().seen
    resumed: int = 0

    def take_in(self, window: Window, **options: bool) -> None:
        """Add the rows of `window`; `options` are those of `Moments`."""
        labels = window.row_labels
        for site, rows in window.activations.rows.items():
            if site not in self.moments:
                self.moments[site] = Moments(rows.shape[1], **options)
            self.moments[site].update(rows, sets=labels)
        self.inputs += len(window.inputs)
        self.read += window.read
        self.fallbacks += window.activations.fallbacks
        self.seen = window.seen

    def save(self, path: Path, *, of: str) -> None:
        """Write all of it to one file, whole or not at all; `of` is the digest of the ledger beside it."""
        tensors: dict[str, Tensor] = {}
        documents: dict[str, Any] = {}
        for site, moments in self.moments.items():
            own, documents[str(site)] = moments.state()
            tensors |= {f"{site}/{name}": tensor for name, tensor in own.items()}
        counts = {name: getattr(self, name) for name in ("inputs", "read", "fallbacks", "seen")}
        sheets.save(path, tensors, {**counts, "moments": documents}, of=of)

    @classmethod
    def load(cls, path: Path, *, of: str) -> Tally:
        """What `save` wrote, bit for bit; raises `FileError` where the file is damaged, or of something else."""
        sheet = sheets.Sheet(path, of=of)
        try:
            document = sheet.document
            found = {
                Site.parse(site): Moments.from_state(sheet.tensors(f"{site}/"), own)
                for site, own in document["moments"].items()
            }
            return cls(BySite(found), *(document[name] for name in ("inputs", "read", "fallbacks", "seen")))
        except (LookupError, TypeError, ValueError, ModelError) as error:
            raise sheet.damaged() from error


def moments(
    model: TextModel,
    inputs: Iterable[Input],
    sites: str | Site | Sequence[str | Site] = "resid.*",
    position: str | Position = "content/none",
    **options: Any,
) -> BySite[Moments]:
    """Moments of what `inputs`, a stream of any length, show at each of `sites`: see `tally` for the options."""
    return tally(model, inputs, sites, position, **options).moments


def tally(
    model: TextModel,
    inputs: Iterable[Input],
    sites: str | Site | Sequence[str | Site] = "resid.*",
    position: str | Position = "content/none",
    *,
    labels: Labels | None = None,
    spans: Iterable[Span | None] | None = None,
    covariance: bool = True,
    per_label: bool = False,
    folder: str | Path | None = None,
    batch_tokens: int = TOKEN_BUDGET,
    progress: Progress = silent,
) -> Tally:
    """Moments of a stream in one pass; the memory it takes does not grow with the stream.

    Parameters
    ----------
    inputs, sites, position, labels, spans
        As in `covec.activations.stream.stream`. Without pooling every token is a row, and has the label of its input.
        `Finder.fit_moments` takes the labels True and False of the set without a name.
    covariance, per_label
        What to keep: see `Moments`.
    folder
        Where to keep the moments, so that a run that is killed goes on when it is started again, and ends in the same
        bits; a finished one is read. None keeps them in memory alone.

    Raises
    ------
    CovecError
        An input cannot be read, the position selects nothing, or the folder belongs to something else.
    """
    addresses, chosen = model.select(sites), Position.parse(position)
    keep = {"covariance": covariance, "per_label": per_label}
    given: dict[str, Any] = {"labels": labels, "spans": spans, "batch_tokens": batch_tokens, "progress": progress}
    if folder is None:
        found = Tally()
        for window in stream(model, inputs, addresses, chosen, **given):
            found.take_in(window, **keep)
        return _checked(found, chosen)
    folder = Path(folder)
    made_of = identity("moments", model, addresses, chosen, labels, covariances=keep)
    with shards.in_hand(folder, made_of, "another folder"):
        path, own, written = folder / _FILE, shards.digest(made_of), time.monotonic()
        found = Tally.load(path, of=own) if path.exists() else Tally()
        complete, found.resumed = shards.read_ledger(folder).get("inputs") == found.inputs, found.inputs
        done = Done(found.inputs, found.seen, complete, folder)
        for window in stream(model, inputs, addresses, chosen, done=done, **given):
            found.take_in(window, **keep)
            if time.monotonic() - written > CHECKPOINT_SECONDS:
                found.save(path, of=own)
                written = time.monotonic()
        if not complete:
            _checked(found, chosen).save(path, of=own)
            shards.write_ledger(folder, {**made_of, "inputs": found.inputs})
    return found


def load_moments(folder: str | Path) -> BySite[Moments]:
    """The moments in a folder that `tally` finished.

    Raises
    ------
    FileError
        There are none, they are not finished, or they are damaged.
    """
    ledger = shards.read_ledger(Path(folder))
    if ledger.get(CONTENT) != "moments":
        raise FileError(f"{folder} holds no moments; check the path")
    if "inputs" not in ledger:
        raise FileError(f"the capture into {folder} was interrupted: run it again, and it goes on")
    return Tally.load(Path(folder) / _FILE, of=shards.digest(ledger)).moments


def _checked(found: Tally, position: Position) -> Tally:
    """Itself, where there were rows; tells of inputs without content."""
    if not found.moments:
        raise ModelError(f"position {position} selects nothing in any input")
    warn_of_bare(found.fallbacks)
    return found
