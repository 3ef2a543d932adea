"""Captions begin alike, and whole ones tell the colour."""

from covec.worlds.captions import NOUNS, beginnings, coloured


def test_every_frame_has_every_noun():
    texts = beginnings()
    assert len(texts) == len(set(texts)) == 25 * len(NOUNS)
    assert [text.split()[-1] for text in texts[: len(NOUNS)]] == list(NOUNS)


def test_whole_captions_go_on_from_the_noun_with_its_one_colour():
    texts = coloured(200)
    assert all(text.startswith(f"{start}, which was ") for text, start in zip(texts, beginnings(), strict=True))
    colours = {(start.split()[-1], text.split()[-3]) for text, start in zip(texts, beginnings(), strict=True)}
    assert len(colours) == len(NOUNS)
    assert len(coloured(3)) == 3
