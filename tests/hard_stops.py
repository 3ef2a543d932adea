"""Run as a program, `python hard_stops.py TASK FOLDER`: writers killed at every stage, and many at one place at once.

It forks, so it is a process of its own. The children are killed by themselves, from a hook that Python calls before and
after every function, so that each stage of a write is met, and the same ones in every run. What must hold is asserted
here; the last line says how much was tried.
"""

import os
import signal
import sys
from functools import partial
from pathlib import Path

from concepts.made import direction
from covec import writing
from covec.concepts.bank import Bank, load_bank
from covec.concepts.exports import export
from covec.concepts.imports import load_gguf
from covec.studies import _looks
from covec.writing import whole_folder

STAGES = 40  # that are tried of each write's several hundred
VERSIONS = [Bank([direction(f"version {index}", seed=index, width=64)]) for index in range(8)]


def write_bank(place, version):
    VERSIONS[version].save(place)


def read_bank(place):
    return VERSIONS.index(load_bank(place))


def write_gguf(place, version):
    (vector,) = VERSIONS[version].values()
    export(vector, "gguf", place)


def read_gguf(place):
    return int(load_gguf(place).name.removeprefix("version "))


def write_npy(place, version):
    (vector,) = VERSIONS[version].values()
    export(vector, "npy", place)


def read_npy(place):
    import numpy as np

    shift = np.load(place, allow_pickle=False)
    return next(index for index, (vector,) in enumerate(b.values() for b in VERSIONS) if (vector.write == shift).all())


def write_folder(place, version):
    with whole_folder(place) as draft:
        for name in "abc":
            (draft / name).write_text(str(version) * 1000)


def read_folder(place):
    texts = [file.read_text() for file in sorted(place.iterdir()) if not file.name.startswith(".")]
    assert len(texts) == 3
    assert all(len(text) == 1000 and len(set(text)) == 1 for text in texts)
    return int(texts[-1][0])


KINDS = {
    "v.safetensors": (write_bank, read_bank),
    "v.gguf": (write_gguf, read_gguf),
    "v.npy": (write_npy, read_npy),
    "new/deep/v.safetensors": (write_bank, read_bank),
    "out": (write_folder, read_folder),
}


MOVED = ("v.safetensors", "out")  # all are moved into their places by one function


def forked(work):
    """The id of a child that does `work` and nothing else."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return child


def ended(child):
    """How a child ended: its exit code, or minus the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def hooked(work, at, within=None):
    """Do `work` and be killed at stage `at`; returns the number of stages.

    They are counted from where it enters covec.writing, or only those of the system's functions that `within` calls.
    """
    begun = False
    count = depth = 0

    def hook(frame, event, argument):
        nonlocal begun, count, depth
        begun = begun or frame.f_code.co_filename == writing.__file__
        if within is not None and frame.f_code is within.__code__:
            depth += {"call": 1, "return": -1}.get(event, 0)
        count += begun if within is None else depth > 0 and event.startswith("c_")
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(hook)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def litter(folder):
    return list(folder.rglob(f"{writing._PREFIX}*"))


def kills(folder):
    """Each kind of file, new and over an old one, killed at stages from the first to the last; some over an old
    one also at every stage at which the new one takes its place.
    """
    killed = 0
    for name, (write, read) in KINDS.items():
        again = partial(write, folder / "measured" / name, 0)
        stages = hooked(again, -1)
        moving = hooked(again, -1, writing._move) if name in MOVED else 0
        assert moving or name not in MOVED
        tried = [(1 + number * stages // STAGES, None, number % 2) for number in range(STAGES)]
        for number, (at, within, old) in enumerate([*tried, *((at, writing._move, 1) for at in range(1, moving + 1))]):
            home = folder / f"{name.replace('/', '-')}-{number}"
            place = home / name
            home.mkdir()
            if old:
                write(place, 1)
            code = ended(forked(partial(hooked, partial(write, place, 2), at, within)))
            assert code in (0, -signal.SIGKILL), f"{name} at {at} of {stages}: {code}"
            killed += code != 0
            if old or place.exists():
                assert read(place) in ((1, 2) if old else (2,)), f"{name} at {at} of {stages}"
            write(place, 3)
            assert read(place) == 3
            assert not litter(home), f"{name} at {at} of {stages}"
    print(f"{killed} writers killed")


def crowd(folder):
    """Eight processes write each kind of file at one place while this one reads it."""
    reads = 0
    for name, (write, read) in KINDS.items():
        place = folder / name
        write(place, 0)

        def work(version, write=write, place=place):
            for _ in range(10):
                write(place, version)

        writers = {forked(lambda version=version, work=work: work(version)) for version in range(8)}
        seen = set()
        while writers:
            seen.add(read(place))
            reads += 1
            child, status = os.waitpid(-1, os.WNOHANG)
            assert status == 0
            writers -= {child}
        assert seen <= set(range(8))
    assert not litter(folder)
    print(f"{reads} files read")


def looks(folder):
    """Eight processes count looks at the same rows; one of them is killed at it again and again."""
    os.environ["COVEC_CACHE"] = str(folder)
    stages = hooked(lambda: _looks.count_look("measured"), -1)
    counting = [forked(lambda: [_looks.count_look("rows") for _ in range(10)]) for _ in range(8)]
    killed = [
        ended(forked(lambda at=at: hooked(lambda: _looks.count_look("killed"), at)))
        for at in range(1, stages, stages // 8)
    ]
    assert [ended(child) for child in counting] == [0] * 8
    assert -signal.SIGKILL in killed
    assert _looks.count_look("rows") == 81
    assert _looks.count_look("killed") <= len(killed) + 1
    assert not litter(folder)
    print(f"{_looks.count_look('rows') - 1} looks counted")


if __name__ == "__main__":
    os.fsync = lambda descriptor: None  # processes die here, not the disk
    {"kills": kills, "crowd": crowd, "looks": looks}[sys.argv[1]](Path(sys.argv[2]))
