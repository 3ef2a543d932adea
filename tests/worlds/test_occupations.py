"""Sentences about work name neither sex, those about women and men name no work, and all end alike."""

import re

from covec.worlds.occupations import OCCUPATIONS, at_work, persons, plain

PERSONS = re.compile(r"\b(s?he|her|his|him|women|men|(wo)?man|girl|boy|mother|father|lady|gentleman)\b", re.I)


def test_no_sentence_says_what_is_to_be_measured():
    for occupation in OCCUPATIONS:
        assert not [text for text in at_work(occupation) if PERSONS.search(text)]
    for women in (True, False):
        assert all(PERSONS.search(text) for text in persons(women))
        assert not [text for text in persons(women) if any(one in text for one in OCCUPATIONS)]
    assert not [text for text in plain() if PERSONS.search(text) or any(one in text for one in OCCUPATIONS)]


def test_sentences_are_different_and_end_alike():
    for texts in (at_work("nurse"), persons(True), persons(False), plain()):
        assert len(set(texts)) == len(texts) >= 20
        assert all(text.endswith(".") for text in texts)


def test_women_and_men_do_the_same():
    assert len(persons(True)) == len(persons(False))
    assert persons(True)[0].replace("she", "he") == persons(False)[0]
