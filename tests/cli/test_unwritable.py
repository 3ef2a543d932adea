"""Folders that may not be written, as a user meets them who is not root."""

import os
import shutil
import subprocess
import sys

import pytest

ROOT = os.geteuid() == 0
POWERLESS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]

pytestmark = pytest.mark.skipif(ROOT and not shutil.which("setpriv"), reason="root may write everywhere")


@pytest.fixture
def locked(tmp_path):
    """A folder that nothing can be written into."""
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


@pytest.mark.parametrize("out", ["", "out", "some/where"])
def test_a_read_only_folder_is_one_line_before_any_work(tmp_path, locked, out):
    rows = [f"text {row},{row % 2}\n" for row in range(20)]
    (tmp_path / "few.csv").write_text("text,label\n" + "".join(rows))
    words = ["study", tmp_path / "few.csv", "--model", "no such model", "--out", locked / out]
    command = [sys.executable, "-c", "from covec.cli import main; main()", *words]
    ran = subprocess.run([*POWERLESS, *command] if ROOT else command, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"error: cannot write {locked / out}: Permission denied; choose another place\n"
    assert list(locked.iterdir()) == []
