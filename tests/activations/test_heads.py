"""What attention heads write into the stream."""

from __future__ import annotations

import pytest
import torch

from covec.activations.heads import head_write
from covec.errors import ModelError
from covec.models.text import TextModel

TEXTS = ["The hotel was clean", "ice melts"]


def test_all_heads_of_a_block_and_the_bias_are_what_attention_adds(tiny: TextModel) -> None:
    """Also where heads share keys and values (K-21), and where weights lie transposed (GPT-2)."""
    found = tiny.capture(TEXTS, ["head.*", "attn.*"], "last")
    for block in range(tiny.blocks):
        heads = [site for site in found.sites if (site.kind, site.block) == ("head", block)]
        assert len(heads) == 4
        total = torch.stack([head_write(tiny, site, found[site]) for site in heads]).sum(0)
        bias = getattr(tiny.anatomy.tap(heads[0]).module, "bias", None)
        total = total if bias is None else total + bias.detach()
        torch.testing.assert_close(total, found[f"attn.{block}"], rtol=1e-4, atol=1e-4)


def test_it_is_linear(tiny: TextModel) -> None:
    (one, other) = tiny.capture(TEXTS, "head.1.3", "last")["head.1.3"][:, None]
    together = head_write(tiny, "head.1.3", 2 * one - other)
    torch.testing.assert_close(
        together, 2 * head_write(tiny, "head.1.3", one) - head_write(tiny, "head.1.3", other), rtol=1e-4, atol=1e-4
    )


def test_another_site_is_refused(tiny: TextModel) -> None:
    with pytest.raises(ModelError, match=r"attn\.1 is no head"):
        head_write(tiny, "attn.1", torch.zeros(1, 8))
