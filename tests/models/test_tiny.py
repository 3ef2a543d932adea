from __future__ import annotations

import pytest
import torch

from tiny import FAMILIES, tiny_model


@pytest.mark.parametrize("family", FAMILIES)
def test_same_seed_same_bits_and_logits_that_depend_on_the_seed(family: str) -> None:
    (first, tokenizer), (again, _), (other, _) = tiny_model(family), tiny_model(family), tiny_model(family, seed=1)
    ids = tokenizer("The hotel: Köln", return_tensors="pt").input_ids
    with torch.no_grad():
        logits = [module(ids).logits for module in (first, again, other)]
    assert torch.equal(logits[0], logits[1])
    assert not torch.allclose(logits[0], logits[2], atol=0.1)


@pytest.mark.parametrize(("bos", "expected"), [("none", None), ("zero", 0), ("one", 1)])
def test_the_bos_is_where_it_was_asked_for(bos: str, expected: int | None) -> None:
    module, tokenizer = tiny_model("qwen3", bos=bos)  # type: ignore[arg-type]
    ids = tokenizer("The hotel").input_ids
    assert tokenizer.bos_token_id == module.config.bos_token_id == expected
    assert ids.count(expected) == (expected is not None)
    assert tokenizer.decode(ids, skip_special_tokens=True) == "The hotel"
