"""Conceptualization: cosines with names, and sets of concepts that grow as the paper's algorithm says."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from covec.concepts.packaged import concept_graph, neutral_texts
from covec.errors import CovecError
from covec.name.conceptualization import (
    Conceptualization,
    all_concepts,
    conceptualize,
    grow,
    layer_encoder,
    named,
)

GRAPH = {"a": ("ab", "ac", "ad"), "b": ("bc", "bd"), "ab": ("abc", "a"), "c": ()}


def by_letters(texts):
    """How often each letter occurs behind the first word."""
    bodies = [text.removeprefix("About ") for text in texts]
    counts = torch.tensor([[body.count(letter) + 1e-3 for letter in "abcdef"] for body in bodies])
    return torch.nn.functional.normalize(counts, dim=1)


def test_a_text_is_its_cosines_with_the_names_at_the_same_site(tiny):
    concepts, texts = ("big cats", "sea_mammals", "rain"), ["A dull film: two hours!", "Water boils at 100 degrees."]
    centre = tiny.capture(neutral_texts(), "resid.1", "mean")["resid.1"].mean(0)
    rows, names = (
        torch.nn.functional.normalize(tiny.capture(given, "resid.1", "mean")["resid.1"] - centre, dim=1)
        for given in (texts, ["About big cats", "About sea mammals", "About rain"])
    )
    found = conceptualize(texts, concepts, layer_encoder(tiny, "resid.1"))
    torch.testing.assert_close(found, rows @ names.T, rtol=0, atol=1e-5)


def test_the_concept_that_shows_most_is_opened_first():
    """Of the top, a shows most in texts of a; half of its three children are two, in their order."""
    assert grow(["aa", "aab"], GRAPH, by_letters, 5, top=["a", "b"]) == ("a", "b", "ab", "ac", "abc")


def test_concepts_grow_from_those_that_are_nobodys_children():
    assert grow(["bb"], {"b": ("bc",), "d": ("df",)}, by_letters, 3) == ("b", "d", "bc")


def test_labels_count_a_fifth():
    """c is the nearest to texts of both classes; a and b to one each, in which they show far more."""
    graph = {"a": ("af",), "b": ("bf",), "c": ("cf",)}
    texts, labels = ["cab", "cba", "aaaa", "bbbb"], [0, 1, 0, 1]
    assert grow(texts, graph, by_letters, 4, labels=labels)[3] in {"af", "bf", "cf"}
    scores = conceptualize(texts, ["a", "b", "c"], by_letters)
    nearest = scores.argmax(1)
    share = torch.tensor([len({labels[row] for row in range(4) if nearest[row] == one}) / 2 for one in range(3)])
    best = int((0.8 * scores.mean(0) + 0.2 * share).argmax())
    assert grow(texts, graph, by_letters, 4, labels=labels)[3] == ["af", "bf", "cf"][best]


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), unique=True), min_size=1),
    st.integers(1, 8),
)
def test_any_graph_ends_and_gives_different_concepts_of_it(graph, size):
    """Cycles, loops and graphs without a top end, too (K-12 of the card: nothing is opened twice)."""
    chosen = grow(["ab", "cd"], graph, by_letters, size, top=[next(iter(graph))])
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= set(all_concepts(graph))
    assert len(chosen) <= max(size, 1)


def test_without_texts_or_a_top_nothing_grows():
    with pytest.raises(CovecError, match="grow from texts and from a top"):
        grow([], GRAPH, by_letters, 5)
    with pytest.raises(CovecError, match="grow from texts and from a top"):
        grow(["a"], {"a": ("b",), "b": ("a",)}, by_letters, 5)


def test_a_direction_is_named_by_its_nearest_concepts(tiny):
    concepts = ("pets", "taxes", "opera")
    rows = layer_encoder(tiny, "resid.1")(named(concepts))
    (names,) = Conceptualization(concepts=concepts).name(tiny, rows[1:2], "resid.1")
    assert names[0] == ("taxes", pytest.approx(1.0, abs=1e-5))


def test_the_graph_that_comes_with_covec_is_a_tree_of_two_levels():
    graph = concept_graph()
    assert len(graph) == 14
    assert all(len(children) == 11 for children in graph.values())
    assert len(all_concepts(graph)) == 14 * 12
