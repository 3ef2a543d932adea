import pytest

from covec.worlds.relations import RELATIONS, SOLVED, relation


@pytest.mark.parametrize("name", RELATIONS)
def test_every_fact_is_asked_once_and_none_is_told(name):
    found = relation(name)
    subjects = [subject for subject, _ in found.facts]
    assert len(set(subjects)) == len(subjects)
    assert len(found.objects) >= 4
    assert found.solved.count("\n") == SOLVED
    for concept in found.objects:
        examples = found.examples(concept).check()
        assert examples.name == concept
        assert 4 <= examples.labels.sum() <= 11
        for text, (start, end), (subject, called), label in zip(
            examples.inputs, examples.spans, found.facts, examples.labels, strict=True
        ):
            assert text[start:end] == subject
            assert subject not in found.solved
            assert label == (called == concept)
