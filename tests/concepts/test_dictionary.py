"""Dictionaries, and the folders of SAE Lens."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from covec.checks import check_vector
from covec.concepts.dictionary import Dictionary, Gated
from covec.concepts.sae_lens import load_dictionary
from covec.errors import CovecError, FileError

WIDTH, CODES = 6, 10


def drawn(seed=0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    tensors = {"W_enc": normal(WIDTH, CODES), "W_dec": normal(CODES, WIDTH), "b_dec": normal(WIDTH)}
    return tensors, normal, normal(20, WIDTH)


def saved(folder, tensors, **said):
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / "sae_weights.safetensors")
    (folder / "cfg.json").write_text(json.dumps(said))
    return folder


def test_exact_codes_of_a_hand_made_one():
    made = Dictionary(torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), Gated(torch.eye(2, 3), torch.zeros(3)))
    assert made.encode(torch.tensor([[3.0, -1.0]])).tolist() == [[3.0, 0.0, 0.0]]
    assert made.decode(torch.tensor([[1.0, 2.0, 1.0]])).tolist() == [[3.0, 3.0]]
    assert (len(made), made.width) == (3, 2)


def standard(tensors, X):
    return torch.relu((X - tensors["b_dec"]) @ tensors["W_enc"] + tensors["b_enc"])


def test_a_plain_one(tmp_path):
    tensors, normal, X = drawn()
    tensors["b_enc"] = normal(CODES)
    found = load_dictionary(
        saved(tmp_path / "sae", tensors, architecture="standard", metadata={"hook_name": "blocks.4.hook_resid_pre"})
    )
    torch.testing.assert_close(found.encode(X), standard(tensors, X))
    codes = found.encode(X)
    torch.testing.assert_close(found.decode(codes), codes @ tensors["W_dec"] + tensors["b_dec"])
    assert (str(found.site), found.name) == ("resid.3", "sae")


def test_jumprelu_drops_what_stays_below_its_threshold(tmp_path):
    tensors, normal, X = drawn(1)
    tensors |= {"b_enc": normal(CODES), "threshold": normal(CODES).abs()}
    found = load_dictionary(saved(tmp_path, tensors, architecture="jumprelu"))
    values = (X - tensors["b_dec"]) @ tensors["W_enc"] + tensors["b_enc"]
    torch.testing.assert_close(found.encode(X), torch.relu(values) * (values > tensors["threshold"]))


def test_a_gated_one(tmp_path):
    tensors, normal, X = drawn(2)
    tensors |= {"b_gate": normal(CODES), "b_mag": normal(CODES), "r_mag": normal(CODES)}
    found = load_dictionary(saved(tmp_path, tensors, architecture="gated", apply_b_dec_to_input=False))
    opened = X @ tensors["W_enc"] + tensors["b_gate"] > 0
    size = torch.relu(X @ (tensors["W_enc"] * tensors["r_mag"].exp()) + tensors["b_mag"])
    torch.testing.assert_close(found.encode(X), opened * size)


@pytest.mark.parametrize("rescaled", [False, True])
def test_topk_keeps_the_largest(tmp_path, rescaled):
    tensors, normal, X = drawn(3)
    tensors["b_enc"] = normal(CODES)
    said = {"architecture": "topk", "k": 3, "rescale_acts_by_decoder_norm": rescaled}
    found = load_dictionary(saved(tmp_path, tensors, **said))
    norms = tensors["W_dec"].norm(dim=1) if rescaled else torch.ones(CODES)
    values = ((X - tensors["b_dec"]) @ tensors["W_enc"] + tensors["b_enc"]) * norms
    kept = values.topk(3).indices
    wanted = torch.zeros_like(values).scatter(1, kept, values.gather(1, kept).relu())
    torch.testing.assert_close(found.encode(X), wanted)
    torch.testing.assert_close(found.decode(wanted), wanted / norms @ tensors["W_dec"] + tensors["b_dec"])


def test_settings_of_before_version_6(tmp_path):
    tensors, normal, X = drawn(4)
    tensors |= {"b_enc": normal(CODES), "scaling_factor": torch.ones(CODES)}
    found = load_dictionary(
        saved(
            tmp_path,
            tensors,
            hook_point="blocks.0.hook_resid_pre",
            activation_fn_str="topk",
            activation_fn_kwargs={"k": 2},
            model_name="gpt2-small",
            normalize_activations=False,
            model_from_pretrained_kwargs={"center_writing_weights": True},
        )
    )
    values = standard(tensors, X - X.mean(1, keepdim=True))
    assert ((found.encode(X) != 0).sum(1) <= 2).all()
    torch.testing.assert_close(found.encode(X).amax(1), values.amax(1))
    assert (str(found.site), found.model) == ("embed", {"name": "gpt2-small"})


@pytest.mark.parametrize(
    ("said", "site"),
    [
        ({"hook_name": "blocks.7.hook_resid_post"}, "resid.7"),
        ({"hook_name": "blocks.7.hook_mlp_out"}, "mlp.7"),
        ({"hook_name": "blocks.7.hook_attn_out"}, "attn.7"),
        ({"hook_name": "blocks.7.mlp.hook_post"}, "neuron.7"),
        ({"hook_name": "blocks.7.attn.hook_z", "hook_head_index": 2}, "head.7.2"),
        ({"hook_name": "ln_final.hook_normalized"}, "final"),
        ({"hook_name": "blocks.7.hook_resid_mid"}, "None"),
        ({}, "None"),
    ],
)
def test_hooks_are_sites(tmp_path, said, site):
    tensors, normal, _ = drawn()
    tensors["b_enc"] = normal(CODES)
    folder = saved(tmp_path, tensors, metadata=said)
    assert str(load_dictionary(folder).site) == site
    assert str(load_dictionary(folder, "resid.2").site) == "resid.2"


@pytest.mark.parametrize(
    ("change", "said", "words"),
    [
        ({}, {"architecture": "temporal"}, "architecture is 'temporal'; known: standard"),
        ({}, {"normalize_activations": "layer_norm"}, "rescales activations"),
        ({}, {"activation_fn": "tanh-relu"}, "activation is 'tanh-relu'"),
        ({"b_enc": None}, {}, "no tensor b_enc"),
        ({"W_enc": torch.zeros(CODES, WIDTH)}, {}, r"W_enc has shape \[10, 6\]"),
        ({"b_dec": torch.full((WIDTH,), float("nan"))}, {}, "b_dec holds a number that is not finite"),
        ({"W_skip": torch.zeros(WIDTH, WIDTH)}, {}, "has a tensor 'W_skip'"),
        ({"scaling_factor": torch.full((CODES,), 2.0)}, {}, "codes are rescaled"),
        ({}, {"architecture": "topk", "k": 11}, "k is a count of at most 10"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(tmp_path, change, said, words):
    tensors, normal, _ = drawn()
    tensors = {**tensors, "b_enc": normal(CODES), **change}
    folder = saved(tmp_path, {name: one for name, one in tensors.items() if one is not None}, **said)
    with pytest.raises(FileError, match=words) as caught:
        load_dictionary(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"k": 1, "k": 2}', '{"metadata": 3}', "[" * 100_000])
def test_broken_settings_are_told_in_one_line(tmp_path, text):
    tensors, normal, _ = drawn()
    saved(tmp_path, tensors | {"b_enc": normal(CODES)})
    (tmp_path / "cfg.json").write_text(text)
    with pytest.raises(FileError, match="cfg.json"):
        load_dictionary(tmp_path)


def test_missing_and_cut_off_files(tmp_path):
    with pytest.raises(FileError, match="there is no file"):
        load_dictionary(tmp_path / "nowhere")
    tensors, normal, _ = drawn()
    saved(tmp_path, tensors | {"b_enc": normal(CODES)})
    weights = tmp_path / "sae_weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(FileError, match="no dictionary that can be read"):
        load_dictionary(tmp_path)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), keep=st.integers(1, CODES))
def test_rows_stand_alone_and_codes_are_sparse_and_not_negative(seed, keep):
    tensors, normal, X = drawn(seed)
    made = Dictionary(tensors["W_dec"], Gated(tensors["W_enc"], normal(CODES), keep=keep), tensors["b_dec"])
    codes = made.encode(X)
    torch.testing.assert_close(torch.cat([made.encode(row[None]) for row in X]), codes)
    assert (codes >= 0).all()
    assert ((codes > 0).sum(1) <= keep).all()


def test_an_atom_is_a_concept_vector():
    tensors, _, X = drawn(5)
    made = Dictionary(tensors["W_dec"], Gated(tensors["W_enc"], torch.zeros(CODES)), tensors["b_dec"], site="resid.2")
    vector = made.vector(3, X)
    check_vector(vector)
    codes = made.encode(X)[:, 3]
    torch.testing.assert_close(vector.write, codes[codes > 0].mean() * tensors["W_dec"][3])
    assert float(vector.score(tensors["b_dec"][None])) == pytest.approx(0, abs=1e-5)
    assert vector.scale_from == "codes"


def test_bad_input():
    tensors, _, X = drawn()
    made = Dictionary(tensors["W_dec"], Gated(tensors["W_enc"], torch.full((CODES,), -99.0)), name="mine")
    for call, words in (
        (lambda: made.encode(X[:, :3]), r"encodes activations \[n, 6\]"),
        (lambda: made.decode(X), r"decodes codes \[n, 10\]"),
        (lambda: made.vector(10, X), "has atoms 0 to 9"),
        (lambda: made.vector(0, X), "no site"),
        (lambda: made.at("resid.0").vector(0, X), "none of these 20 activations holds atom 0"),
        (lambda: Dictionary(X[0], made.encoder), r"give \[k, d\]"),
        (lambda: Dictionary(tensors["W_dec"], made.encoder, X[0, :2]), "the offset has shape"),
        (lambda: Dictionary(tensors["W_dec"] / 0, made.encoder), "not finite"),
    ):
        with pytest.raises(CovecError, match=words):
            call()
