"""Files and folders appear whole or not at all, whatever happens meanwhile."""

import errno
import os
import shutil
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from covec import writing
from covec.errors import FileError
from covec.writing import whole_file, whole_folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_the_block_ends(tmp_path):
    with whole_file(tmp_path / "deep" / "a.txt") as draft:
        draft.write_text("one")
        assert not (tmp_path / "deep").exists()
    assert (tmp_path / "deep" / "a.txt").read_text() == "one"
    assert names(tmp_path) == ["deep"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there(tmp_path, error):
    (tmp_path / "a.txt").write_text("before")
    with pytest.raises(error), whole_file(tmp_path / "a.txt") as draft:
        draft.write_text("half")
        raise error
    with pytest.raises(error), whole_folder(tmp_path / "out") as draft:
        (draft / "b.txt").write_text("half")
        raise error
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "before"


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    with pytest.raises(FileError, match="No such file"), whole_file(tmp_path / "a.txt"):
        pass
    assert not names(tmp_path)


def test_a_folder_keeps_its_other_files(tmp_path):
    out = tmp_path / "out"
    (out / "deep").mkdir(parents=True)
    (out / "mine.txt").write_text("mine")
    (out / "b.txt").write_text("old")
    (out / "deep" / "mine.txt").write_text("mine")
    with whole_folder(out) as draft:
        (draft / "b.txt").write_text("new")
        (draft / "deep").mkdir()
        (draft / "deep" / "c.txt").write_text("new")
    found = {str(path.relative_to(out)): path.read_text() for path in out.rglob("*.txt")}
    assert found == {"mine.txt": "mine", "b.txt": "new", "deep/mine.txt": "mine", "deep/c.txt": "new"}
    assert names(tmp_path) == ["out"]


def test_a_new_folder_appears_with_its_parents_and_all_its_files_at_once(tmp_path, monkeypatch):
    moves = []
    monkeypatch.setattr(os, "replace", lambda *pair, really=os.replace: (moves.append(pair), really(*pair)))
    with whole_folder(tmp_path / "x" / "out") as draft:
        for name in "abc":
            (draft / name).write_text("new")
        assert not (tmp_path / "x").exists()
    assert names(tmp_path / "x" / "out") == ["a", "b", "c"]
    assert len(moves) == 1


def test_a_folder_that_another_process_made_meanwhile_takes_the_file(tmp_path):
    with whole_file(tmp_path / "x" / "y" / "mine.txt") as draft:
        draft.write_text("mine")
        (tmp_path / "x" / "y").mkdir(parents=True)
        (tmp_path / "x" / "y" / "theirs.txt").write_text("theirs")
    assert names(tmp_path / "x" / "y") == ["mine.txt", "theirs.txt"]


def test_a_folder_in_the_place_of_a_file_is_refused_and_nothing_changes(tmp_path):
    out = tmp_path / "out"
    (out / "b.txt").mkdir(parents=True)
    with pytest.raises(FileError, match=r"b\.txt is a folder"), whole_folder(out) as draft:
        (draft / "a.txt").write_text("new")
        (draft / "b.txt").write_text("new")
    assert names(out) == ["b.txt"]


@pytest.mark.parametrize("whole", [whole_file, whole_folder])
def test_a_place_that_cannot_be_written_is_refused_before_work(tmp_path, whole):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    for place in (
        tmp_path / "file" / "under",
        tmp_path / ("a" * 300),
        tmp_path / "a\0b",
        tmp_path / "loop",
        "/proc/none",
    ):
        begun = False
        with pytest.raises(FileError, match="cannot write") as caught, whole(place):
            begun = True
        assert not begun
        assert "\n" not in str(caught.value)
    assert names(tmp_path) == ["file", "loop"]


def test_a_folder_is_called_what_every_library_can_open(tmp_path):
    """A study writes Parquet there, whose library takes UTF-8 names alone; a file of covec's own may have others."""
    with pytest.raises(FileError, match="the name is not UTF-8"), whole_folder(tmp_path / "\udcff"):
        raise AssertionError
    with whole_file(tmp_path / "\udcff") as draft:
        draft.write_text("new")
    assert names(tmp_path) == ["\udcff"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(FileError, match="cannot write"), whole_file(tmp_path / "a.txt"):
        pass


def test_kinds_are_not_confused(tmp_path):
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="is a folder"), whole_file(tmp_path):
        pass
    with pytest.raises(FileError, match="is a file"), whole_folder(tmp_path / "file"):
        pass
    for device in (tmp_path / "pipe", "/dev/null"):
        with pytest.raises(FileError, match="is no ordinary file"), whole_file(device) as draft:
            draft.write_text("would take the place of the device")
    assert not Path("/dev/null").is_file()


def test_a_link_stays_and_what_it_points_to_is_written(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to("far/new.txt")
    (tmp_path / "out").symlink_to("far")
    with whole_file(tmp_path / "link") as draft:
        draft.write_text("one")
    with whole_folder(tmp_path / "out") as draft:
        (draft / "other.txt").write_text("two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "out").is_symlink()
    assert names(tmp_path / "far") == ["new.txt", "other.txt"]


def orphan(folder, name=f"{writing._PREFIX}a1b2c3d4"):
    (folder / name / "draft").mkdir(parents=True)
    (folder / name / "lock").touch()
    (folder / name / "draft" / "a.txt").write_text("half")
    return folder / name


def test_what_a_killed_process_left_is_removed_by_the_next_write(tmp_path):
    left = orphan(tmp_path)
    (tmp_path / f"{writing._PREFIX}b").mkdir()  # killed before it had a lock
    with whole_file(tmp_path / "b.txt") as draft:
        assert not left.exists()
        draft.write_text("new")
    assert names(tmp_path) == ["b.txt"]


def test_what_was_left_above_folders_that_appeared_is_removed_too(tmp_path):
    """A writer that is killed after its rename, where it made the target's folders, leaves its scratch above them."""
    left = orphan(tmp_path)
    (tmp_path / "new" / "deep").mkdir(parents=True)
    with whole_file(tmp_path / "new" / "deep" / "b.txt") as draft:
        draft.write_text("new")
    assert not left.exists()


def test_what_a_living_writer_needs_is_left_alone(tmp_path):
    with whole_file(tmp_path / "a.txt") as one, whole_folder(tmp_path) as two, whole_file(tmp_path / "a.txt") as three:
        one.write_text("one")
        (two / "b.txt").write_text("two")
        three.write_text("three")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.txt": "one", "b.txt": "two"}


def test_folders_of_others_are_left_alone(tmp_path):
    mine = orphan(tmp_path)
    (mine / "letter.txt").write_text("mine")
    (tmp_path / f"{writing._PREFIX}file").write_text("mine")
    elsewhere = orphan(tmp_path / "elsewhere", "kept")
    (elsewhere / "lock").unlink()
    (tmp_path / f"{writing._PREFIX}link").symlink_to(elsewhere)
    before = names(tmp_path)
    with whole_file(tmp_path / "b.txt") as draft:
        draft.write_text("new")
    assert names(tmp_path) == sorted([*before, "b.txt"])
    assert (mine / "letter.txt").exists()
    assert (elsewhere / "draft" / "a.txt").exists()
    assert not (elsewhere / "lock").exists()


def test_a_scratch_folder_taken_for_an_orphan_at_birth_is_made_again(tmp_path, monkeypatch):
    made = []

    def snatched(really=tempfile.mkdtemp, **options):
        made.append(really(**options))
        if len(made) == 1:
            shutil.rmtree(made[0])
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", snatched)
    with whole_file(tmp_path / "a.txt") as draft:
        draft.write_text("one")
    assert names(tmp_path) == ["a.txt"]


def test_many_writers_of_one_file_do_not_meet(tmp_path):
    failures = []

    def write(letter):
        try:
            for _ in range(20):
                with whole_file(tmp_path / "a.txt") as draft:
                    draft.write_text(letter * 5000)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abcdef"]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        text = (tmp_path / "a.txt").read_text() if (tmp_path / "a.txt").exists() else "a" * 5000
        assert len(set(text)) == 1
        assert len(text) == 5000
    for thread in threads:
        thread.join()
    assert not failures
    assert names(tmp_path) == ["a.txt"]


@contextmanager
def broken(monkeypatch, call, at):
    """A scope in which the call number `at` of the system fails for want of room."""
    module, _, name = call.rpartition(".")
    count = iter(range(1000))
    really = getattr(__import__(module), name)

    def fail(*arguments, **options):
        if next(count) == at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return really(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(call, fail)
        yield


@pytest.mark.parametrize("call", ["os.mkdir", "io.open", "os.fsync", "os.replace", "tempfile.mkdtemp"])
@pytest.mark.parametrize("place", ["a.txt", "deep/er/a.txt"])
def test_wherever_the_room_ends_what_was_there_stays(tmp_path, monkeypatch, call, place):
    (tmp_path / "a.txt").write_text("before")
    outcomes = []
    for at in range(12):
        with broken(monkeypatch, call, at):
            try:
                with whole_file(tmp_path / place) as draft:
                    draft.write_text("new")
                outcomes.append("written")
            except FileError as error:
                outcomes.append(str(error))
        if outcomes[-1] == "written":
            assert (tmp_path / place).read_text() == "new"
            break
        assert names(tmp_path) == ["a.txt"]
        assert (tmp_path / "a.txt").read_text() == "before"
    *refusals, last = outcomes
    assert refusals
    assert all("No space left on device" in line for line in refusals)
    assert last == "written"


def test_a_full_disk_stops_a_folder_in_one_line_and_other_errors_keep_their_names(tmp_path):
    with pytest.raises(FileError, match=r"cannot write .*out: No space"), whole_folder(tmp_path / "out") as draft:
        (draft / "a.txt").write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(ConnectionError), whole_folder(tmp_path / "out"):
        raise ConnectionError
    assert not names(tmp_path)
