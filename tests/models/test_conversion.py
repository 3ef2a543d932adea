from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gguf import GGUFWriter
from transformers import AutoModelForCausalLM, AutoTokenizer

from covec.models.conversion import convert
from covec.progress import silent
from tiny_gguf import write_gguf


class _Counting:
    steps = 0.0

    def advance(self, n: float = 1) -> None:
        self.steps += n


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, object, object]:
    folder = tmp_path_factory.mktemp("gguf")
    module, tokenizer = write_gguf(folder / "tiny.gguf")
    bar = _Counting()
    convert(folder / "tiny.gguf", folder / "model", bar)
    assert bar.steps == 3
    return folder / "model", module, tokenizer


def test_the_weights_are_the_same_bits(converted):
    folder, module, _ = converted
    read = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    expected = module.state_dict()
    assert read.state_dict().keys() == expected.keys()
    assert all(torch.equal(weight, expected[name]) for name, weight in read.state_dict().items())
    assert read.lm_head.weight is read.model.embed_tokens.weight


def test_the_configuration_computes_the_same_logits(converted):
    folder, module, tokenizer = converted
    ids = tokenizer("The hotel was clean", return_tensors="pt").input_ids
    with torch.no_grad():
        read = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        assert torch.equal(read(ids).logits, module(ids).logits)
    assert (read.config.bos_token_id, read.config.eos_token_id, read.config.pad_token_id) == (1, 2, 0)
    assert read.generation_config.eos_token_id == 2


def test_the_tokenizer_takes_every_digit_on_its_own(converted):
    folder, _, given = converted
    read = AutoTokenizer.from_pretrained(folder)
    assert read.convert_ids_to_tokens(read("at\n\n100").input_ids)[-3:] == ["1", "0", "0"]
    assert read.decode(read("Der Zug <eos> 12 ☃").input_ids) == "Der Zug <eos> 12 ☃"
    chat = [{"role": "user", "content": "Water boils"}]
    render = {"tokenize": False, "add_generation_prompt": True}
    assert read.apply_chat_template(chat, **render) == given.apply_chat_template(chat, **render)
    assert read.model_max_length == 128


def test_another_architecture_is_refused(tmp_path):
    writer = GGUFWriter(tmp_path / "other.gguf", "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with silent("") as bar, pytest.raises(ValueError, match="mamba"):
        convert(tmp_path / "other.gguf", tmp_path / "model", bar)
    assert not (tmp_path / "model").exists()
