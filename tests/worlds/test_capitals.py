"""Evidence about capitals says what its kind says."""

from covec.worlds.capitals import KINDS, statements


def test_true_and_false_statements_take_turns_and_every_kind_of_evidence_has_a_text_each():
    found = statements()
    assert len(found.texts) == len(set(found.texts)) == len(found.labels) == 24
    assert found.labels[:4] == (True, False, True, False)
    assert tuple(found.contexts) == KINDS
    assert all(len(texts) == 24 for texts in found.contexts.values())
    assert len(statements(6).texts) == 6


def test_aligned_evidence_names_the_capital_and_conflicting_evidence_the_wrong_city():
    found = statements()
    for text, label, aligned, conflicting, irrelevant in zip(
        found.texts, found.labels, *(found.contexts[kind] for kind in KINDS[:3]), strict=True
    ):
        country, city = text.removeprefix("The capital of ").removesuffix(".").split(" is ")
        assert country in aligned
        assert country in conflicting
        assert country not in irrelevant
        assert (city in aligned) is label
        assert (city in conflicting) is not label
