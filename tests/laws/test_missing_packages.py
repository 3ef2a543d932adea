"""K-25: covec imports, reads vectors and fits them where transformers, torchvision and matplotlib are not installed.

Oldest and newest versions of what is installed: `make test-oldest`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from covec.models.text import TextModel
from finding import OF_ROWS
from laws.given import vector
from tiny import tiny_model

# What cannot do without: reading GGUF models, drawing pages, worlds of transformers models, checks and claims on them.
NEED_THEM = ("covec.models.conversion", "covec.report", "covec.worlds", "covec.checks", "covec.claims")
SCRIPT = """
import importlib, json, pkgutil, sys

MISSING = ("transformers", "torchvision", "matplotlib")

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
import covec
failed = {}
for module in pkgutil.walk_packages(covec.__path__, "covec.", onerror=lambda name: None):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            failed[module.name] = error.name
from covec import registry
from covec.cli import run
from covec.concepts.exports import export
vector = covec.load_vector(sys.argv[1])
export(vector, "gguf", sys.argv[1] + ".gguf")
import torch
rows = torch.randn(40, vector.direction.shape[0], generator=torch.Generator().manual_seed(0))
labels = torch.arange(40) % 2 == 0
columns = {"pairs": [str(row // 2) for row in range(40)], "category": [None, None, "other", "other"] * 10}
fitted = []
for name in registry.names("find"):
    finder = registry.get("find", name)
    if finder.entry.needs != "model":
        finder().fit(rows, labels, **{name: columns[name] for name in finder.entry.requires})
        fitted.append(name)
codes = [run(["--help"]), run(["compare", sys.argv[1], sys.argv[1]]), run(["systems"])]
print(json.dumps({"failed": failed, "fitted": fitted, "codes": codes}))
"""


def test_the_core_needs_none_of_them(tmp_path: Path) -> None:
    path = tmp_path / "v.safetensors"
    vector(TextModel(*tiny_model("llama"))).save(path)
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert not [name for name in found["failed"] if not name.startswith(NEED_THEM)]
    assert found["fitted"] == list(OF_ROWS)
    assert found["codes"][0] == found["codes"][2] == 0
