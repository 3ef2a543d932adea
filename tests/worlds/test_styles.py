"""Texts in three styles."""

import pytest

from covec.worlds.styles import FACTUAL, STYLES, SUBJECTIVE, styled


@pytest.mark.parametrize("style", STYLES)
def test_texts_differ_and_end_alike(style):
    texts = styled(style, 200)
    assert len(set(texts)) == 200
    assert not any("{" in text for text in texts)
    assert all(text.endswith(".") for text in texts)
    assert styled(style, 200) == texts
    assert not set(texts) & set(styled(style, 50, seed=1))


def test_styles_share_no_text_and_prompts_come_in_equal_numbers():
    assert len({text for style in STYLES for text in styled(style, 80)}) == 240
    assert len(set(SUBJECTIVE)) == len(set(FACTUAL)) == 15
    with pytest.raises(KeyError):
        styled("modern", 1)
