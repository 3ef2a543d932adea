from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, ViTConfig, ViTModel
from transformers.utils import logging

import covec
from covec.errors import CovecError
from covec.models import load as room
from covec.models.hardware import choose_dtype
from covec.models.load import load, reread
from tiny import FAMILIES, tiny_model


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to which a tiny Llama and its tokenizer were saved."""
    folder = tmp_path_factory.mktemp("saved") / "llama"
    for part in tiny_model("llama"):
        part.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


def _configure(folder: Path, **settings: object) -> None:
    config = json.loads((folder / "config.json").read_text()) | settings
    (folder / "config.json").write_text(json.dumps(config))


def _refused(match: str, *arguments, **options) -> None:
    with pytest.raises(CovecError, match=match) as error:
        load(*arguments, **options)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 450


# Models that load


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_is_read_as_it_was_saved(family, tmp_path):
    module, tokenizer = tiny_model(family)
    module.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = load(tmp_path, dtype="float32")
    assert (model.name, model.source, model.dtype) == (str(tmp_path), str(tmp_path), torch.float32)
    assert not model.module.training
    ids = tokenizer("The hotel was clean", return_tensors="pt").input_ids
    with torch.no_grad():
        assert torch.equal(model.module(ids).logits, module(ids).logits)
    assert model.tokenizer("Köln 12").input_ids == tokenizer("Köln 12").input_ids
    assert model.fingerprint == covec.load(module, tokenizer).fingerprint


def test_the_dtype_is_that_of_the_hardware_unless_it_is_named(saved):
    assert load(saved).dtype == choose_dtype("auto", torch.device("cpu"))
    for dtype in (torch.float32, torch.bfloat16):
        assert load(str(saved), dtype=dtype).dtype == dtype
    assert load(saved, dtype="float32").fingerprint == load(saved, dtype="bfloat16").fingerprint


@pytest.mark.parametrize("architecture", [BertForMaskedLM, BertForSequenceClassification])
def test_an_encoder_is_read_too(architecture, tmp_path):
    _, tokenizer = tiny_model("llama")
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48
    )
    module = architecture(config).eval()
    module.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = load(tmp_path, dtype="float32")
    assert not model.causal
    ids = tokenizer("The hotel", return_tensors="pt").input_ids
    with torch.no_grad():
        expected = module.bert(ids).last_hidden_state
        assert torch.equal(getattr(model.module, "bert", model.module)(ids).last_hidden_state, expected)


def test_a_live_model_is_taken_as_it_is():
    module, tokenizer = tiny_model("gpt2")
    weights = {name: weight.data_ptr() for name, weight in module.named_parameters()}
    model = load(module.bfloat16(), tokenizer)
    assert model.module is module
    assert model.tokenizer is tokenizer
    assert model.source is None
    assert model.dtype == torch.bfloat16
    assert weights.keys() == dict(module.named_parameters()).keys()
    assert load(module, tokenizer, device="cpu", dtype="bfloat16").module is module


def test_the_tokenizer_may_come_from_elsewhere(saved, folder):
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    _, tokenizer = tiny_model("llama")
    assert load(folder, tokenizer).tokenizer is tokenizer
    assert load(folder, str(saved)).tokenizer.get_vocab() == tokenizer.get_vocab()
    module, _ = tiny_model("llama")
    assert load(module, saved).tokenizer.get_vocab() == tokenizer.get_vocab()


def test_the_hub_is_asked_for_what_is_needed(saved, monkeypatch):
    asked = []

    def download(name, **options):
        asked.append((name, tuple(options["allow_patterns"])))
        return str(saved)

    monkeypatch.setattr(room, "snapshot_download", download)
    model = load("someone/model")
    assert (model.name, model.source) == ("someone/model", str(saved))
    assert [name for name, _ in asked] == ["someone/model"]
    assert not any(pattern.endswith((".bin", ".pt", "*")) for pattern in asked[0][1])


def test_transformers_keeps_its_voice_after_a_quiet_load(saved):
    before = (logging.get_verbosity(), logging.is_progress_bar_enabled())
    load(saved)
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


# Reading again in another dtype


def test_the_same_model_can_be_read_again_in_float32(saved):
    model = load(saved, dtype="bfloat16")
    again = reread(model, torch.float32)
    assert again is not None
    expected = load(saved, dtype="float32")
    assert (again.dtype, again.name, again.source) == (torch.float32, model.name, model.source)
    for name, weight in again.module.state_dict().items():
        assert torch.equal(weight, expected.module.state_dict()[name])
    assert again.fingerprint == model.fingerprint
    assert again.tokenizer is model.tokenizer


def test_what_is_no_longer_as_it_was_saved_cannot_be_read_again(saved):
    assert reread(load(*tiny_model("llama")), torch.float32) is None
    model = load(saved, dtype="bfloat16")
    next(model.module.parameters()).data[0, 0] += 1
    assert reread(model, torch.float32) is None
    quantised = load(saved, dtype="bfloat16")
    quantised.config.quantization_config = {"quant_method": "some"}
    assert reread(quantised, torch.float32) is None


# Bad input


@pytest.mark.parametrize("source", ["", 42, None, ["smollm2-135m"]])
def test_what_is_no_source_is_refused(source):
    _refused("give a name, a folder, an id of the Hub or a live", source)


def test_a_name_too_long_for_a_file_is_no_model():
    _refused("no model 'aaa", "a" * 300)


def test_a_folder_without_a_model_is_refused(tmp_path, folder):
    _refused("has no config.json", tmp_path)
    (folder / "config.json").unlink()
    _refused("has no config.json", folder)
    _refused("is a file", folder / "tokenizer.json")


def test_half_written_files_are_refused(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    _refused(r"cannot read .*[iI]ncomplete", folder)
    weights.unlink()
    _refused(r"cannot read .*no file named model.safetensors", folder)
    (folder / "config.json").write_text('{"model_type": ')
    _refused(r"cannot read .*not a valid JSON", folder)


def test_weights_that_do_not_fit_are_refused_and_never_made_up(folder, tmp_path):
    module, tokenizer = tiny_model("llama")
    module.model.save_pretrained(tmp_path / "headless")
    tokenizer.save_pretrained(tmp_path / "headless")
    assert not load(tmp_path / "headless", device="cpu", dtype="float32").has_head
    _configure(tmp_path / "headless", architectures=["LlamaForCausalLM"])
    _refused("is not whole: 1 weights are missing .*lm_head.weight", tmp_path / "headless")
    _configure(folder, hidden_size=64)
    _refused("is not whole: 39 weights", folder)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_missing_tokenizer_is_named(family, tmp_path):
    """transformers makes one up for some families: without a vocabulary, every text is no token at all."""
    module, _ = tiny_model(family)
    module.save_pretrained(tmp_path)
    _refused("has no tokenizer that can be read", tmp_path)
    _refused("comes without its tokenizer: give it", module)


def test_what_is_no_text_model_is_refused(tmp_path, folder):
    ViTModel(
        ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    ).save_pretrained(tmp_path / "image")
    _refused(r"\(vit\) is no text model", tmp_path / "image")
    _configure(folder, model_type="bart", is_encoder_decoder=True, architectures=["BartForConditionalGeneration"])
    _refused(r"\(bart\) is an encoder-decoder: .* reads its encoder", folder)
    _configure(folder, model_type="nothing-known")
    _refused(r"cannot read .*`nothing-known`", folder)
    _refused("is no transformers model", torch.nn.Linear(2, 2), "tokenizer")


def test_code_that_comes_with_a_model_is_not_run(folder):
    (folder / "configuration_own.py").write_text("raise SystemExit('code of the model ran')")
    _configure(folder, model_type="own", auto_map={"AutoConfig": "configuration_own.Own"})
    _refused("brings its own code; if you trust it", folder)
    with pytest.raises(SystemExit, match="code of the model ran"):
        load(folder, trust_remote_code=True)


def test_a_live_model_is_not_moved():
    module, tokenizer = tiny_model("llama")
    _refused("taken as it is, torch.float32 on cpu", module, tokenizer, dtype="bfloat16")
    assert next(module.parameters()).dtype == torch.float32


def test_hardware_and_dtypes_that_are_not_there_are_refused(saved):
    _refused("no device 'cuda:99'", saved, device="cuda:99")
    _refused("no dtype 'int3'", saved, dtype="int3")


def _raised(kind: type[BaseException]) -> BaseException:
    error = kind.__new__(kind)
    error.args = ("told by the Hub\nin two lines",)
    return error


@pytest.mark.parametrize(
    ("kind", "match"),
    [
        (HFValidationError, "no folder here and no id of the Hub"),
        (GatedRepoError, "is gated: ask for access"),
        (RepositoryNotFoundError, "on the Hub, or a private one"),
        (LocalEntryNotFoundError, r"not in the Hugging Face cache, and there is no network"),
        (HfHubHTTPError, "cannot fetch smollm-135m from the Hub: .*; try again later"),
        (OSError, "cannot fetch smollm-135m from the Hub: told by the Hub in two lines; try again later"),
    ],
)
def test_every_refusal_of_the_hub_is_one_line(monkeypatch, kind, match):
    def download(*_: object, **__: object) -> str:
        raise _raised(kind)

    monkeypatch.setattr(room, "snapshot_download", download)
    _refused(match, "smollm-135m")
    if kind in (HFValidationError, RepositoryNotFoundError, LocalEntryNotFoundError):
        _refused(r"did you mean smollm2-135m\?", "smollm-135m")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory\nTried to allocate"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory: you tried"),
        OSError(12, "Cannot allocate memory"),
    ],
)
def test_a_model_that_does_not_fit_says_so(saved, monkeypatch, error):
    def read(*_: object) -> None:
        raise error

    monkeypatch.setattr(room, "_module", read)
    _refused("does not fit into memory, whatever the batch budget: load it in bfloat16", saved)
