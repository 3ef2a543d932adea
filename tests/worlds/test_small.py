"""The weights that ship are those that were noted, and damage is told in a line."""

from __future__ import annotations

import hashlib

import pytest
import torch

from covec.errors import ModelError
from covec.worlds import facts, grammar, leanings, records, small
from covec.worlds.train import WORLDS

TRANSFORMERS = {"facts": facts, "grammar": grammar, "leanings": leanings, "records": records}


def test_every_file_is_noted_with_its_hash_and_small() -> None:
    noted = dict(reversed(line.split("  ")) for line in small.SUMS.read_text().splitlines())
    files = {path.name: path for path in small.DATA.glob("*.safetensors")}
    assert set(noted) == set(files) >= {f"{name}.safetensors" for name in WORLDS}
    for name, path in files.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == noted[name]
        assert path.stat().st_size < 4e6


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_the_same_weights_come_again_and_again(name: str) -> None:
    one, other = (TRANSFORMERS[name].model() for _ in range(2))
    assert one.fingerprint == other.fingerprint
    assert not one.module.training


def test_words_are_one_token_each_and_strange_ones_are_unknown() -> None:
    words = ("cat", "dog")
    tokenizer = small.tokenizer(words)
    assert tokenizer("dog cat bird").input_ids == [3, 2, 1]
    assert small.vocabulary(words) == {"<pad>": 0, "<unknown>": 1, "cat": 2, "dog": 3}


def test_what_is_stored_is_read_again_and_damage_is_told(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(small, "DATA", tmp_path)
    monkeypatch.setattr(small, "SUMS", tmp_path / "SHA256SUMS")
    words = ("cat", "dog")

    def fresh():
        return small.transformer(words, width=8, blocks=1, longest=4)

    module = fresh()
    path = small.store("pets", module)
    model = small.shipped("pets", fresh(), words)
    assert all(
        torch.equal(one, other) for one, other in zip(module.parameters(), model.module.parameters(), strict=True)
    )
    path.write_bytes(path.read_bytes()[:-1])
    for broken in ("pets", "others"):
        with pytest.raises(ModelError, match="missing or damaged: install covec again") as caught:
            small.shipped(broken, fresh(), words)
        assert "\n" not in str(caught.value)
