"""Sites: closed addresses of the places in a network where activations are read or edited.

The string form round-trips and is safe in shells, URLs and file names. Patterns (`resid.*`, `resid.10:20`,
`resid.50%`) select addresses; only addresses are stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from covec.errors import ModelError

PLAIN = ("embed", "final")
BLOCKS = ("resid", "attn", "mlp", "mixer", "neuron", "block")
HEADS = ("head", "key", "value")
Found = TypeVar("Found")
_DOTTED = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")


@dataclass(frozen=True, slots=True, order=True)
class Site:
    """One address.

    `kind` is one of `embed`, `resid`, `attn`, `mlp`, `mixer`, `neuron`, `head`, `key`, `value`, `final`, `block`, or
    `module` for a dotted path. Blocks count from 0; `resid.k` is the residual stream after block k. `Site.parse` makes
    one of its string.

    Raises
    ------
    ModelError
        There is no such kind.
    """

    kind: str
    block: int = -1
    head: int = -1
    path: str = ""
    end: str = "out"

    def __post_init__(self) -> None:
        if self.kind not in (*PLAIN, *BLOCKS, *HEADS, "module"):
            raise ModelError(f"{self.kind!r} is no kind of site; for a whole address write Site.parse({self.kind!r})")

    def __repr__(self) -> str:
        return f"Site.parse({str(self)!r})"

    def __str__(self) -> str:
        if self.kind == "module":
            return self.path + ("@in" if self.end == "in" else "")
        return ".".join([self.kind, *(str(part) for part in (self.block, self.head) if part >= 0)])

    @classmethod
    def parse(cls, text: str | Site) -> Site:
        """The address written as `text`; raises `ModelError` where it is none."""
        if isinstance(text, Site):
            return text
        if not isinstance(text, str):
            raise ModelError(f"{text!r} is not a site: write an address such as resid.14")
        kind, *rest = text.split(".")
        if kind in PLAIN and not rest:
            return cls(kind)
        if kind in BLOCKS and len(rest) == 1 and _counts(rest):
            return cls(kind, int(rest[0]))
        if kind in HEADS and len(rest) == 2 and _counts(rest):
            return cls(kind, int(rest[0]), int(rest[1]))
        path, _, end = text.partition("@")
        if kind not in (*PLAIN, *BLOCKS, *HEADS) and _DOTTED.fullmatch(path) and end in ("", "in"):
            return cls("module", path=path, end=end or "out")
        raise ModelError(
            f"{text!r} is not a site; write for example resid.12, attn.3, head.3.0, embed or features.7@in"
        )


class BySite(dict[Site, Found]):
    """What was found at each of several sites, by the site or its address: `found["resid.14"]`."""

    def __getitem__(self, site: str | Site) -> Found:
        try:
            return super().__getitem__(Site.parse(site))
        except KeyError:
            raise ModelError(f"nothing was kept at {str(site)!r}; there are {summary(list(self))}") from None


def select(patterns: str | Site | Iterable[str | Site], sites: Sequence[Site]) -> tuple[Site, ...]:
    """The addresses among `sites` that `patterns` (one, several, or comma-separated) choose, in the model's order.

    Modules by dotted path pass through as they are; the model checks them. A pattern that chooses nothing raises.
    """
    if isinstance(patterns, str):
        patterns = [part.strip() for part in patterns.split(",") if part.strip()]
    elif isinstance(patterns, Site) or not isinstance(patterns, Iterable):
        patterns = [patterns]
    chosen: set[Site] = set()
    extra: list[Site] = []
    for pattern in patterns:
        found = _match(pattern, sites)
        known = [site for site in found if site in set(sites)]
        chosen.update(known)
        extra.extend(site for site in found if site not in chosen and site.kind == "module")
        if not known and not (found and found[0].kind == "module"):
            raise ModelError(f"no site {str(pattern)!r} in this model; it has {summary(sites)}")
    if not chosen and not extra:
        raise ModelError(f"no sites were named; this model has {summary(sites)}")
    return (*(site for site in sites if site in chosen), *extra)


def summary(sites: Sequence[Site]) -> str:
    """`sites` in a few words, such as `embed, resid.0..29, head.0..29.0..8, final`."""
    words = []
    for kind in dict.fromkeys(site.kind for site in sites):
        same = [site for site in sites if site.kind == kind]
        parts = [kind, _span([site.block for site in same]), _span([site.head for site in same])]
        words.append(".".join(part for part in parts if part))
    return ", ".join(words)


def _span(numbers: Sequence[int]) -> str:
    """`0..29`, `3` where there is one number, nothing where there are none (-1)."""
    low, high = min(numbers), max(numbers)
    return "" if high < 0 else str(high) if low == high else f"{low}..{high}"


def _match(pattern: str | Site, sites: Sequence[Site]) -> list[Site]:
    if not isinstance(pattern, str):
        return [Site.parse(pattern)]
    kind, _, rest = pattern.partition(".")
    if kind not in (*BLOCKS, *HEADS):
        return [Site.parse(pattern)]
    block, _, head = rest.partition(".")
    blocks = sorted({site.block for site in sites if site.kind == kind})
    wanted = _indices(block, blocks, pattern)
    same = [site for site in sites if site.kind == kind and site.block in wanted]
    if kind in HEADS:
        heads = _indices(head or "*", sorted({site.head for site in same}), pattern)
        same = [site for site in same if site.head in heads]
    elif head:
        raise ModelError(f"{pattern!r} is not a site: {kind} takes a block alone, such as {kind}.3")
    return same


def _indices(text: str, known: Sequence[int], pattern: str) -> set[int]:
    if text in ("*", ""):
        return set(known)
    if re.fullmatch(r"\d+", text):
        return {int(text)}
    if share := re.fullmatch(r"(\d+(?:\.\d+)?)%", text):
        if not known or float(share[1]) > 100:
            return set()
        return {known[min(len(known) - 1, int(float(share[1]) / 100 * len(known)))]}
    if span := re.fullmatch(r"(\d*):(\d*)", text):
        low = int(span[1]) if span[1] else 0
        high = int(span[2]) if span[2] else max(known, default=-1) + 1
        return {index for index in known if low <= index < high}
    raise ModelError(f"{pattern!r} is not a site pattern; write for example resid.*, resid.10:20 or resid.50%")


def _counts(parts: list[str]) -> bool:
    return all(part.isdecimal() and part.isascii() and str(int(part)) == part for part in parts)
