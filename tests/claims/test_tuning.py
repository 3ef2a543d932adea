"""A tuned copy writes its texts more readily, and its base stays as it was."""

import pytest
import torch

from covec.activations.fluency import surprise
from covec.claims._autoencoder import sparse_encoder
from covec.claims._tuning import tuned
from covec.models.text import TextModel
from tiny import tiny_model

TEXTS = ["The hotel was clean.", "Water boils at 100 degrees.", "The people were kind."]


@pytest.fixture(scope="module")
def base():
    return TextModel(*tiny_model("llama"), name="base")


def test_texts_become_likelier_and_the_base_stays(base):
    before = [weight.clone() for weight in base.module.parameters()]
    made = tuned(base, TEXTS, steps=20, blocks=1, rows=2, rate=1e-2)
    assert all(map(torch.equal, base.module.parameters(), before))
    assert not [weight for weight in made.module.parameters() if weight.grad is not None]
    starts, rests = zip(*((text[:3], text[3:]) for text in TEXTS), strict=True)
    assert surprise(made, starts, rests)[0].sum() < 0.8 * surprise(base, starts, rests)[0].sum()


def test_only_the_last_blocks_are_its_own(base):
    made = tuned(base, TEXTS, steps=1, blocks=1)
    shared = {id(weight) for weight in base.module.parameters()}
    for number, block in enumerate(made.anatomy.blocks):
        own = [id(weight) not in shared for weight in block.parameters()]
        assert all(own) if number == made.blocks - 1 else not any(own)
    assert torch.equal(made.capture(TEXTS, "resid.0")["resid.0"], base.capture(TEXTS, "resid.0")["resid.0"])


def test_codes_are_few_and_tell_rows_apart():
    generator = torch.Generator().manual_seed(0)
    atoms = torch.nn.functional.normalize(torch.randn(6, 16, generator=generator), dim=1)
    rows = atoms[torch.arange(600) % 6] + 0.05 * torch.randn(600, 16, generator=generator)
    encode = sparse_encoder(rows, 24, steps=300)
    codes = encode(rows)
    assert codes.shape == (600, 24)
    assert float(codes.min()) >= 0
    assert float((codes > 0.1).float().mean()) < 0.5
    alike = torch.cosine_similarity(codes[0], codes[6], dim=0)
    assert alike > torch.cosine_similarity(codes[0], codes[1], dim=0)
