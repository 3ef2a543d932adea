"""Texts of a domain are of that domain, all different, and the same each time."""

import ast
import re

from covec.worlds.domains import DOMAINS, texts_of


def test_texts_are_different_and_the_same_each_time():
    for domain in DOMAINS:
        texts = texts_of(domain, 100)
        assert len(set(texts)) == 100
        assert texts_of(domain, 50) == texts[:50]
        assert texts_of(domain, 50, seed=1) != texts[:50]


def test_sums_are_right_and_code_is_code():
    for text in texts_of("sums", 50):
        sums = re.findall(r"(\d+) \+ (\d+) = (\d+)", text)
        assert len(sums) == 3
        assert all(int(one) + int(other) == int(total) for one, other, total in sums)
    for text in texts_of("code", 50):
        assert isinstance(ast.parse(text).body[0], ast.FunctionDef)
