"""Stores: nothing repeated, nothing lost, nothing of another model; a killed capture ends like an uninterrupted one."""

from __future__ import annotations

import itertools
import json
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock

import covec
from covec import registry
from covec.activations import shards, stream
from covec.activations.identity import CONTENT
from covec.activations.store import ActivationStore, load_store, write_store
from covec.errors import BudgetError, CovecError, ExamplesError, FileError, ModelError
from covec.models.text import TextModel
from streams import LABELS, TEXTS, content, interrupting, killed_and_resumed
from tiny import tiny_model


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "WINDOW_TOKENS", 150)
    monkeypatch.setattr(stream, "_AT_ONCE", 7)


@pytest.fixture
def llama() -> TextModel:
    return TextModel(*tiny_model("llama"), name="tiny")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "made" / "store"


@pytest.mark.parametrize("position", ["content/none", "last", "mean", "from-12/none"])
def test_a_store_holds_what_capture_gives(tiny: TextModel, folder: Path, position: str) -> None:
    store = tiny.store(iter(TEXTS), folder, ["resid.0", "resid.1", "head.1.1"], position, labels=iter(LABELS))
    rows = tiny.capture(TEXTS, ["resid.0", "resid.1", "head.1.1"], position)
    found = store.activations()
    assert len(list(folder.glob("*.safetensors"))) > 3
    assert (len(store), store.rows, store.complete) == (60, len(rows["resid.0"]), True)
    assert store.labels() == LABELS
    assert store.read == sum(len(item.ids) for item in tiny.tokenize(TEXTS))
    assert found.sites == rows.sites
    for site in rows.sites:
        assert torch.allclose(found[site], rows[site], rtol=0, atol=1e-4 * float(rows[site].abs().max()))
    if rows.offsets is None:
        assert store.offsets is None
    else:
        assert torch.equal(store.offsets, rows.offsets)
        assert torch.equal(found.offsets, rows.offsets)
        assert torch.equal(found.tokens, rows.tokens)


def test_rows_are_read_where_they_lie(llama: TextModel, folder: Path) -> None:
    """By site, by index, by split, by shard; float32 rows are the file's own memory."""
    store = llama.store(TEXTS, folder, "resid.*", labels=LABELS)
    whole = store.activations()
    index = np.random.default_rng(0).integers(0, store.rows, 50)
    assert torch.equal(store.at("resid.2", index), whole["resid.2"][torch.from_numpy(index)])
    train = np.arange(60) % 2 == 0
    part = store.activations("resid.1,resid.3", where=train)
    assert [str(site) for site in part.sites] == ["resid.1", "resid.3"]
    for place, row in enumerate(np.flatnonzero(train)):
        assert torch.equal(part.of(place, "resid.3"), whole.of(int(row), "resid.3"))
    windows = list(store.windows("resid.1"))
    assert [row for window in windows for row in window.inputs] == list(range(60))
    rows = windows[0].activations["resid.1"]
    assert torch.equal(rows, whole["resid.1"][: len(rows)])
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert str(next(folder.glob("000000000000-*")).resolve()) in maps.read_text()


def test_moments_of_a_store_are_those_of_the_stream_bit_for_bit(llama: TextModel, folder: Path) -> None:
    store = llama.store(TEXTS, folder, ["resid.1", "resid.2"], labels=LABELS)
    kept, streamed = store.moments(), llama.moments(iter(TEXTS), ["resid.1", "resid.2"], labels=iter(LABELS))
    for site in streamed:
        assert torch.equal(kept[site].covariance(), streamed[site].covariance())
        assert all(torch.equal(kept[site].mean(label), streamed[site].mean(label)) for label in (True, False, None))
    train = np.arange(60) < 40
    (moments,) = store.moments("resid.2", where=train).values()
    again = llama.moments(TEXTS[:40], "resid.2", labels=LABELS[:40])
    assert moments.count() == next(iter(again.values())).count()


def test_finders_fit_from_a_store(llama: TextModel, folder: Path) -> None:
    store = llama.store(TEXTS, folder, "resid.2", "mean", labels=["yes" if label else "no" for label in LABELS])
    (moments,) = store.moments(positive="yes").values()
    methods = [registry.get("find", name) for name in registry.names("find")]
    streaming = [method for method in methods if method.entry.needs == "moments"]
    assert streaming
    for method in streaming:
        streamed = method().fit_moments(moments)
        whole = method().fit(store.activations()["resid.2"], LABELS)
        torch.testing.assert_close(streamed.direction_, whole.direction_, rtol=0, atol=1e-4)
    with pytest.raises(ExamplesError, match="labelled 'maybe'"):
        store.moments(positive="maybe")


@pytest.mark.usefixtures("_before_forks")
@pytest.mark.parametrize("seed", range(3))
def test_a_store_killed_at_random_points_ends_in_the_same_bits(
    llama: TextModel, tmp_path: Path, folder: Path, seed: int
) -> None:
    arguments: dict[str, Any] = {"sites": "resid.*", "labels": LABELS}
    llama.store(TEXTS, tmp_path / "whole", **arguments)
    kills = killed_and_resumed(lambda: llama.store(iter(TEXTS), folder, **arguments), seed)
    assert kills > 0
    assert llama.store(TEXTS, folder, **arguments).resumed == 60
    assert content(folder) == content(tmp_path / "whole")


def in_a_child(work: Callable[[], str]) -> str:
    """What `work` gives in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        with suppress(BaseException):
            os.write(writer, work().encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as told:
        said = told.read()
    assert said
    return said


def test_a_run_that_goes_on_reads_only_what_is_left(
    llama: TextModel, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = llama.store(TEXTS, tmp_path / "whole", "resid.1")
    with pytest.raises(KeyboardInterrupt):
        llama.store(interrupting(40), folder, "resid.1")
    assert 0 < len(ActivationStore(folder)) < 40
    done = len(ActivationStore(folder))
    read: list[str] = []
    tokenize = TextModel.tokenize
    monkeypatch.setattr(
        TextModel, "tokenize", lambda self, given, **o: (read.extend(given), tokenize(self, given, **o))[1]
    )
    store = llama.store(TEXTS, folder, "resid.1")
    assert (read, store.resumed) == (TEXTS[done:], done)
    assert content(folder) == content(whole.path)
    read.clear()
    assert llama.store(TEXTS, folder, "resid.1").resumed == 60
    assert not read


def test_an_unfinished_store_serves_only_who_asks_for_a_part(llama: TextModel, folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        llama.store(interrupting(40), folder, "resid.1")
    with pytest.raises(FileError, match="was interrupted: run it again"):
        load_store(folder)
    part = load_store(folder, llama, partial=True)
    assert 0 < len(part) <= 40
    assert len(part.activations()) == len(part)


def test_other_batches_give_the_same_rows(llama: TextModel, tmp_path: Path) -> None:
    one, many = (llama.store(TEXTS, tmp_path / str(size), "resid.2", batch_tokens=size) for size in (1, 4096))
    assert [file.name for file in sorted(one.path.iterdir())] == [file.name for file in sorted(many.path.iterdir())]
    found, expected = one.activations()["resid.2"], many.activations()["resid.2"]
    assert torch.allclose(found, expected, rtol=0, atol=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_numbers_take_half_the_room_and_come_back_as_float32(
    llama: TextModel, tmp_path: Path, dtype: str
) -> None:
    exact = llama.store(TEXTS, tmp_path / "exact", "resid.2").activations()["resid.2"]
    store = llama.store(TEXTS, tmp_path / dtype, "resid.2", dtype=dtype)
    rows = store.activations()["resid.2"]
    assert rows.dtype == torch.float32
    assert torch.equal(rows, exact.to(getattr(torch, dtype)).float())
    assert torch.equal(store.at("resid.2", [3, 1]), rows[[3, 1]])
    sizes = [max(file.stat().st_size for file in path.iterdir()) for path in (tmp_path / "exact", tmp_path / dtype)]
    assert sizes[1] < 0.65 * sizes[0]


# K-13: what a store was made for


def changed_weight(model: TextModel) -> dict[str, Any]:
    with torch.no_grad():
        model.anatomy.blocks[3].mlp.down_proj.weight[0, 0] += 0.5  # above the site that is captured, too
    return {}


def changed_template(model: TextModel) -> dict[str, Any]:
    model.tokenizer.chat_template = "{{ messages }}"
    return {}


def changed_tokens(model: TextModel) -> dict[str, Any]:
    model.tokenizer.add_special_tokens({"additional_special_tokens": ["clean"]})
    return {}


def changed_dtype(model: TextModel) -> dict[str, Any]:
    model.module.to(torch.bfloat16)
    return {}


CHANGES: dict[str, tuple[Callable[[TextModel], dict[str, Any]], str]] = {
    "weight": (changed_weight, "the model changed"),
    "template": (changed_template, "the tokenizer changed"),
    "special tokens": (changed_tokens, "the tokenizer changed"),
    "model's dtype": (changed_dtype, "the model's dtype changed"),
    "position": (lambda _: {"position": "all/none"}, "the position changed"),
    "sites": (lambda _: {"sites": ["resid.0", "resid.1"]}, "the sites changed"),
    "dtype": (lambda _: {"dtype": "float16"}, "the dtype changed"),
    "no labels": (lambda _: {"labels": None}, "the label sets changed"),
    "label": (lambda _: {"labels": [not LABELS[0], *LABELS[1:]]}, "the first 60 inputs changed"),
    "text": (lambda _: {"inputs": [*TEXTS[:-1], "x y"]}, "the first 60 inputs changed"),
    "order": (lambda _: {"inputs": TEXTS[::-1]}, "the first 60 inputs changed"),
    "fewer": (lambda _: {"inputs": TEXTS[:-1], "labels": LABELS[:-1]}, "the first 60 inputs changed"),
    "more": (lambda _: {"inputs": [*TEXTS, "x"], "labels": [*LABELS, True]}, "there were 60, now there are more"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_else_is_served(llama: TextModel, folder: Path, change: str) -> None:
    """The fingerprint is taken anew, although the object's own was known before the weight changed."""
    arguments: dict[str, Any] = {"inputs": TEXTS, "sites": "resid.1", "position": "content/none", "labels": LABELS}
    assert llama.fingerprint
    write_store(llama, folder=folder, **arguments)
    before = content(folder)
    make, message = CHANGES[change]
    arguments |= make(llama)
    with pytest.raises(FileError, match=message) as told:
        write_store(llama, folder=folder, **arguments)
    assert "\n" not in str(told.value)
    assert "delete it, or write to another folder" in str(told.value)
    assert content(folder) == before
    if not make(llama):
        with pytest.raises(FileError, match="was made with another"):
            load_store(folder, llama)


def test_an_interrupted_store_goes_on_with_nothing_else(llama: TextModel, folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        llama.store(interrupting(40), folder, "resid.1")
    with pytest.raises(FileError, match="the position changed"):
        llama.store(TEXTS, folder, "resid.1", "last")
    with pytest.raises(FileError, match="inputs changed"):
        llama.store(["another", *TEXTS[1:]], folder, "resid.1")
    assert llama.store(TEXTS, folder, "resid.1").complete


def test_edits_in_force_are_refused(llama: TextModel, folder: Path) -> None:
    vector = covec.ConceptVector.from_direction(
        "any", "resid.1", torch.ones(32), torch.ones(32), torch.zeros(32), model=llama.describe()
    )
    with llama.edit(vector.add(1.0)), pytest.raises(ModelError, match="edits are in force"):
        llama.store(TEXTS, folder, "resid.1")
    assert not folder.exists()


def test_two_writers_at_once_are_refused(llama: TextModel, folder: Path) -> None:
    folder.mkdir(parents=True)
    with FileLock(folder / "lock"), pytest.raises(FileError, match="another run is writing"):
        llama.store(TEXTS, folder, "resid.1")


def damage_ledger(store: Path) -> None:
    (store / shards.LEDGER).write_text('{"model": "a')


def empty_ledger(store: Path) -> None:
    (store / shards.LEDGER).write_text(json.dumps({CONTENT: "rows"}))


def cut_shard(store: Path) -> None:
    shard = sorted(store.glob("*.safetensors"))[1]
    shard.write_bytes(shard.read_bytes()[:-1])


def flip_bit(store: Path) -> None:
    shard = sorted(store.glob("*.safetensors"))[1]
    data = bytearray(shard.read_bytes())
    data[-9] ^= 1
    shard.write_bytes(data)


def swap_shards(store: Path) -> None:
    first, second, *_ = sorted(store.glob("*.safetensors"))
    first.write_bytes(second.read_bytes())


def lose_shard(store: Path) -> None:
    sorted(store.glob("*.safetensors"))[1].unlink()


def lose_last(store: Path) -> None:
    sorted(store.glob("*.safetensors"))[-1].unlink()


def strange_shard(store: Path) -> None:
    sorted(store.glob("*.safetensors"))[1].write_bytes(b"\x02\0\0\0\0\0\0\0{}")


DAMAGES = {
    damage_ledger: "ledger.json is damaged",
    empty_ledger: "ledger.json is damaged",
    cut_shard: "is damaged: delete it with all that was written after it",
    flip_bit: "is damaged: delete it with all that was written after it",
    swap_shards: "is damaged: delete it with all that was written after it",
    strange_shard: "is damaged: delete it with all that was written after it",
    lose_shard: "lacks the shard that begins with row",
    lose_last: "was interrupted: run it again",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_told_in_one_line(llama: TextModel, folder: Path, damage: Callable[[Path], None]) -> None:
    store = llama.store(TEXTS, folder, "resid.1")
    damage(folder)
    with pytest.raises(FileError, match=DAMAGES[damage]) as told:
        load_store(folder).moments()
    assert "\n" not in str(told.value)
    assert len(store) == 60


def test_what_was_damaged_is_captured_again_to_the_same_bits(llama: TextModel, folder: Path) -> None:
    llama.store(TEXTS, folder, "resid.1")
    before = content(folder)
    for shard in sorted(folder.glob("*.safetensors"))[2:]:
        shard.unlink()
    assert llama.store(TEXTS, folder, "resid.1").complete
    assert content(folder) == before


@pytest.mark.usefixtures("_before_forks")
def test_a_full_disk_is_told_in_one_line_and_the_run_goes_on(llama: TextModel, folder: Path, tmp_path: Path) -> None:
    whole = llama.store(TEXTS, tmp_path / "whole", "resid.*")
    sizes = sorted(file.stat().st_size for file in whole.path.glob("*.safetensors"))

    def in_little_room() -> str:
        resource.setrlimit(resource.RLIMIT_FSIZE, (sizes[-1] - 1, sizes[-1]))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with pytest.raises(FileError, match="cannot write") as told:
            llama.store(TEXTS, folder, "resid.*")
        return str(told.value)

    assert "\n" not in in_a_child(in_little_room)
    assert llama.store(TEXTS, folder, "resid.*").complete
    assert content(folder) == content(whole.path)


def test_folders_that_are_no_stores_are_refused(llama: TextModel, tmp_path: Path, folder: Path) -> None:
    (tmp_path / "photo.jpg").write_text("mine")
    with pytest.raises(FileError, match=r"holds other files, such as photo.jpg"):
        llama.store(TEXTS, tmp_path, "resid.1")
    with pytest.raises(FileError, match="cannot write"):
        llama.store(TEXTS, tmp_path / "photo.jpg" / "store", "resid.1")
    with pytest.raises(FileError, match="is a file; name a folder"):
        llama.store(TEXTS, tmp_path / "photo.jpg", "resid.1")
    with pytest.raises(FileError, match="cannot read"):
        load_store(tmp_path / "missing")
    llama.moments(TEXTS, "resid.1", folder=folder)
    with pytest.raises(FileError, match="holds no activations"):
        load_store(folder)
    with pytest.raises(FileError, match="the choice of rows or moments changed"):
        llama.store(TEXTS, folder, "resid.1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "photo.jpg"]


class Overflowing(torch.nn.Module):
    def forward(self, hidden: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return hidden * 1e6


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "dtype": ({"dtype": "int8"}, "cannot be kept as 'int8'"),
    "site": ({"sites": "resid.9"}, "no site 'resid.9'"),
    "position": ({"position": "40"}, "selects nothing in input 1, which has"),
    "no row": ({"position": "from-120/none"}, "selects nothing in any input"),
    "empty": ({"inputs": []}, "there are no inputs"),
    "text": ({"inputs": "a text"}, r"write \[text\]"),
    "number": ({"inputs": ["a", 3]}, "input 2 is int"),
    "long": ({"inputs": ["a"] * 300 + ["a b " * 200]}, "input 301 has 4"),
    "few labels": ({"labels": [True] * 59}, "the labels end after 59, the inputs go on"),
    "many labels": ({"labels": itertools.repeat(True)}, "the inputs end after 60, the labels go on"),
    "fraction": ({"labels": [0.5] * 60}, "the label of input 1 is 0.5"),
    "no label": ({"labels": [None] * 60}, "the label of input 1 is a NoneType"),
    "mixed": ({"labels": [*LABELS[:-1], "yes"]}, "input 60 has a label of type str, those before bool"),
    "spans": ({"spans": [(0, 3)], "position": "span/mean"}, "the spans end after 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_in_one_line(llama: TextModel, folder: Path, name: str) -> None:
    given, message = BAD[name]
    with pytest.raises(CovecError, match=message) as told:
        write_store(llama, **{"inputs": TEXTS, "folder": folder, "sites": "resid.1", **given})
    assert "\n" not in str(told.value)


def test_what_is_refused_at_once_leaves_nothing(llama: TextModel, folder: Path) -> None:
    with pytest.raises(CovecError):
        llama.store(["a", 3], folder, "resid.1")
    assert not folder.parent.exists()


def test_numbers_beyond_the_dtype_are_refused(llama: TextModel, folder: Path) -> None:
    with torch.no_grad():
        llama.anatomy.blocks[1].mlp.down_proj.weight *= 1e6
    with pytest.raises(ModelError, match="beyond float16, which ends at 65504: keep float32"):
        llama.store(TEXTS, folder, "resid.1", dtype="float16")
    assert llama.store(TEXTS, folder, "resid.1", dtype="bfloat16").complete
    with torch.no_grad():
        llama.anatomy.blocks[1].mlp.down_proj.weight *= float("nan")
    with pytest.raises(ModelError, match="NaN or infinite numbers, from input 1 to"):
        llama.moments(TEXTS, "resid.1")


def test_questions_a_store_cannot_answer_are_refused(llama: TextModel, folder: Path) -> None:
    store = llama.store(TEXTS, folder, "resid.1", labels={"day": [row % 7 for row in range(60)]})
    assert store.labels("day")[:8] == [0, 1, 2, 3, 4, 5, 6, 0]
    for ask, message in (
        (lambda: store.labels(), "no label set ''"),
        (lambda: store.activations("resid.2"), "no site 'resid.2'"),
        (lambda: store.activations(memory_budget=1000), "over the memory budget"),
        (lambda: store.activations(where=np.zeros(60, dtype=bool)), "no input was chosen"),
        (lambda: store.activations(where=np.ones(59, dtype=bool)), "59 choices for 60 inputs"),
        (lambda: store.at("resid.1", [0, store.rows]), "were asked for"),
        (lambda: store.at("resid.1", [-1]), "were asked for"),
        (lambda: store.moments(positive=True), "no label set ''"),
    ):
        with pytest.raises(CovecError, match=message):
            ask()
    assert len(store.at("resid.1", [])) == 0


def test_inputs_without_content_are_told_of_once(llama: TextModel, folder: Path) -> None:
    texts = [chat for row in range(40) for chat in (TEXTS[row], [{"role": "user", "content": ""}])]
    with pytest.warns(UserWarning, match="no content") as told:
        store = llama.store(texts, folder, "resid.1", "mean")
    assert len(told) == 1
    assert store.fallbacks == 40


def test_chats_and_spans_are_kept(llama: TextModel, folder: Path, tmp_path: Path) -> None:
    spans = [(4, 9)] * 60
    store = llama.store(TEXTS, folder, "resid.1", "span/mean", spans=iter(spans))
    rows = llama.capture(TEXTS, "resid.1", "span/mean", spans=spans)["resid.1"]
    assert torch.allclose(store.activations()["resid.1"], rows, atol=1e-5)
    with pytest.raises(FileError, match="inputs changed"):
        llama.store(TEXTS, folder, "resid.1", "span/mean", spans=[(4, 9)] * 59 + [(0, 3)])
    chats = [[{"role": "user", "content": text}] for text in TEXTS]
    assert len(llama.store(chats, tmp_path / "chats", "resid.1", "last")) == 60


def test_the_ledger_is_plain_json_and_all_files_can_be_read_alike(llama: TextModel, folder: Path) -> None:
    llama.store(TEXTS, folder, "resid.1")
    ledger = json.loads((folder / shards.LEDGER).read_text())
    modes = {file.stat().st_mode for file in folder.iterdir() if file.name != "lock"}
    assert len(modes) == 1  # whoever may read the ledger may read the rows
    assert (ledger[CONTENT], ledger["inputs"], ledger["sites"]) == ("rows", 60, ["resid.1"])


def test_a_memory_budget_of_a_store_counts_what_is_chosen(llama: TextModel, folder: Path) -> None:
    store = llama.store(TEXTS, folder, "resid.*", "last")
    some = np.arange(60) < 10
    assert store.activations("resid.1", where=some, memory_budget=10 * 32 * 4).stack().shape == (1, 10, 32)
    with pytest.raises(BudgetError):
        store.activations("resid.1", where=some, memory_budget=10 * 32 * 4 - 1)


OTHERS: dict[str, Callable[[TextModel], dict[str, Any]]] = {
    "another model's": lambda model: {"model": TextModel(*tiny_model("llama", seed=7))},
    "another position's": lambda model: {"position": "mean"},
    "another site's": lambda model: {"sites": ["resid.1", "resid.0"]},
    "another corpus'": lambda model: {"inputs": ["Another text, and a longer one than the rest.", *TEXTS[1:]]},
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_shard_of_another_store_is_refused(llama: TextModel, folder: Path, tmp_path: Path, other: str) -> None:
    asked: dict[str, Any] = {"model": llama, "inputs": TEXTS, "sites": "resid.1", "position": "last"}
    store = write_store(**asked, folder=folder)
    foreign = write_store(**{**asked, **OTHERS[other](llama)}, folder=tmp_path / "other")
    names = {path.name for path in store.path.glob("*.safetensors")}
    shard = sorted(names & {path.name for path in foreign.path.glob("*.safetensors")})[1]
    (folder / shard).write_bytes((foreign.path / shard).read_bytes())
    for again in (lambda: load_store(folder, llama), lambda: write_store(**asked, folder=folder)):
        with pytest.raises(FileError, match="was made from something else than what stands beside it"):
            again()


def test_moments_of_something_else_in_ones_own_folder_are_refused(llama: TextModel, tmp_path: Path) -> None:
    for position in ("last", "mean"):
        llama.moments(TEXTS, "resid.1", position, folder=tmp_path / position)
    (tmp_path / "last" / "moments.safetensors").write_bytes((tmp_path / "mean" / "moments.safetensors").read_bytes())
    with pytest.raises(FileError, match="was made from something else"):
        covec.load_moments(tmp_path / "last")


def test_no_byte_of_a_shards_document_can_be_changed_unnoticed(llama: TextModel, folder: Path) -> None:
    llama.store(TEXTS, folder, "resid.1", labels=LABELS)
    shard = sorted(folder.glob("*.safetensors"))[1]
    whole = shard.read_bytes()
    start = whole.index(b"__metadata__") + 16
    for byte in range(start, whole.index(b"}}", start), 7):
        data = bytearray(whole)
        data[byte] ^= 1
        shard.write_bytes(data)
        with pytest.raises(FileError, match="is damaged"):
            load_store(folder).activations()


@pytest.mark.parametrize("what", ["store", "moments"])
def test_a_run_that_fails_takes_back_no_more_than_it_made(llama: TextModel, folder: Path, what: str) -> None:
    """Another run that writes beside it, into a folder that this one made, keeps what it wrote."""

    def inputs() -> Any:
        llama.store(["The hotel was clean"], folder.parent / "beside", "resid.1")
        yield 3

    with pytest.raises(ExamplesError, match="input 1 is int"):
        if what == "store":
            llama.store(inputs(), folder, "resid.1")
        else:
            llama.moments(inputs(), "resid.1", folder=folder)
    assert not folder.exists()
    assert load_store(folder.parent / "beside", llama).complete


@pytest.mark.parametrize(
    "index", [np.zeros(60, dtype=bool), [0.7, 1.2], [True, False], ["1"], np.zeros((1, 2), dtype=int)], ids=str
)
def test_rows_are_asked_for_by_whole_numbers(llama: TextModel, folder: Path, index: Any) -> None:
    store = llama.store(TEXTS, folder, "resid.1")
    with pytest.raises(ExamplesError, match="by whole numbers"):
        store.at("resid.1", index)
    assert store.at("resid.1", np.array([], dtype=bool)).shape == (0, llama.width)


@pytest.mark.parametrize("where", [np.arange(60), np.ones(60), [0, 1, 2], [True] * 59, [[True] * 60]], ids=str)
def test_inputs_are_chosen_by_true_and_false(llama: TextModel, folder: Path, where: Any) -> None:
    store = llama.store(TEXTS, folder, "resid.1")
    for ask in (store.activations, store.moments, lambda where: list(store.windows(where=where))):
        with pytest.raises(ExamplesError, match="by True and False|choices for 60 inputs"):
            ask(where=where)


def test_a_shard_that_changes_after_it_was_read_is_noticed(llama: TextModel, folder: Path) -> None:
    store = llama.store(TEXTS, folder, "resid.1")
    store.activations()
    flip_bit(folder)
    with pytest.raises(FileError, match="is damaged"):
        store.activations()
