"""What people paste into a report: everything that covec needs, and what the machine computes with."""

from importlib.metadata import PackageNotFoundError, version

import covec
from covec import versions


def shown(capsys):
    covec.show_versions()
    return dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())


def test_versions_of_all_that_is_needed_are_shown(capsys):
    told = shown(capsys)
    assert told["covec"] == covec.__version__
    assert {name: told[name] for name in ("torch", "transformers", "numpy", "scikit-learn", "safetensors")} == {
        name: version(name) for name in ("torch", "transformers", "numpy", "scikit-learn", "safetensors")
    }
    assert "pytest" not in told


def test_the_machine_is_told(capsys, monkeypatch):
    monkeypatch.setattr("covec.models.hardware.multiplies_bfloat16", lambda device: False)
    told = shown(capsys)
    assert told["device"].split(",")[0] in ("cpu", "cuda")
    assert told["bfloat16"].startswith("emulated")


def test_what_is_not_installed_is_said(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(versions, "version", missing)
    assert versions._version("accelerate") == "not installed"
