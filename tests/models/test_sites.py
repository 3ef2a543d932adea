"""Addresses round-trip, and patterns choose what they say."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covec.errors import ModelError
from covec.models.sites import BLOCKS, HEADS, PLAIN, BySite, Site, select, summary

addresses = st.one_of(
    st.sampled_from(PLAIN).map(Site),
    st.builds(Site, st.sampled_from(BLOCKS), st.integers(0, 999)),
    st.builds(Site, st.sampled_from(HEADS), st.integers(0, 999), st.integers(0, 99)),
    st.builds(
        lambda parts, end: Site("module", path=".".join(["m", *parts]), end=end),
        st.lists(st.from_regex(r"[A-Za-z0-9_]{1,6}", fullmatch=True), max_size=4),
        st.sampled_from(["in", "out"]),
    ),
)

MODEL = (
    Site("embed"),
    *(Site(kind, block) for block in range(10) for kind in ("resid", "mlp")),
    *(Site("head", block, head) for block in range(10) for head in range(3)),
    Site("final"),
)


@given(addresses)
def test_addresses_round_trip_and_are_safe_in_shells_urls_and_file_names(site: Site) -> None:
    assert Site.parse(str(site)) == site
    assert Site.parse(site) is site
    assert re.fullmatch(r"[A-Za-z0-9_.@]+", str(site))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "resid",
        "resid.",
        "resid.-1",
        "resid.01",
        "resid.x",
        "resid.1.2",
        "head.1",
        "embed.0",
        "a b",
        "a..b",
        "a@up",
        3,
        None,
    ],
)
def test_what_is_no_address_is_refused(text: Any) -> None:
    with pytest.raises(ModelError, match="is not a site"):
        Site.parse(text)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("resid.3", ["resid.3"]),
        ("resid.*", [f"resid.{block}" for block in range(10)]),
        ("resid.7:9", ["resid.7", "resid.8"]),
        ("resid.8:", ["resid.8", "resid.9"]),
        ("resid.:2", ["resid.0", "resid.1"]),
        ("resid.50%", ["resid.5"]),
        ("resid.0%", ["resid.0"]),
        ("resid.100%", ["resid.9"]),
        ("head.2", ["head.2.0", "head.2.1", "head.2.2"]),
        ("head.2.1:", ["head.2.1", "head.2.2"]),
        ("head.8:.0", ["head.8.0", "head.9.0"]),
        ("final, embed,resid.1", ["embed", "resid.1", "final"]),
        (["resid.1", Site("resid", 0), "resid.0:2"], ["resid.0", "resid.1"]),
        ("features.7@in, resid.1", ["resid.1", "features.7@in"]),
    ],
)
def test_patterns_choose_in_the_models_order(pattern: str | list[str | Site], expected: list[str]) -> None:
    assert [str(site) for site in select(pattern, MODEL)] == expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("resid.10", r"no site 'resid.10' in this model; it has embed, resid.0..9, mlp.0..9, head.0..9.0..2, final"),
        ("attn.*", "no site 'attn"),
        ("resid.9:3", "no site"),
        ("resid.101%", "no site"),
        ("resid.1-3", "is not a site pattern"),
        ("resid.1.2", "takes a block alone"),
        ("", "no sites were named"),
        ([], "no sites were named"),
        (3, "3 is not a site"),
        (None, "None is not a site"),
        (["resid.1", 3], "3 is not a site"),
    ],
)
def test_a_pattern_that_chooses_nothing_is_refused(pattern: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        select(pattern, MODEL)


def test_a_summary_names_every_kind_once() -> None:
    assert summary(MODEL) == "embed, resid.0..9, mlp.0..9, head.0..9.0..2, final"
    assert summary([Site("resid", 3), Site("head", 0, 0), Site("head", 0, 1)]) == "resid.3, head.0.0..1"


@pytest.mark.parametrize("kind", ["resid.3", "layers.3", "head.3.0", "", "Resid"])
def test_a_site_is_not_made_of_a_whole_address(kind: str) -> None:
    with pytest.raises(ModelError, match="is no kind of site"):
        Site(kind)


@pytest.mark.parametrize("text", ["resid.3", "head.3.0", "embed", "features.7@in"])
def test_what_a_prompt_shows_would_make_the_site_again(text: str) -> None:
    assert repr(Site.parse(text)) == f"Site.parse({text!r})"


def test_what_was_found_at_a_site_is_found_by_its_address() -> None:
    found = BySite({Site("resid", 3): "there"})
    assert found["resid.3"] == found[Site("resid", 3)] == "there"
    with pytest.raises(ModelError, match=r"nothing was kept at 'resid\.4'; there are resid\.3"):
        found["resid.4"]
