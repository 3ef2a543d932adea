"""The documentation: the site builds without a warning and fetches nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("docs") / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(
        build, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_in_the_site(site):
    pages = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")]
    assert not [page for page in pages if not (site / page).is_file()]


def test_the_site_fetches_nothing(site):
    fetched = re.compile(r"<(?:link|script|img|iframe)\b[^>]*(?:src|href)=\"?(?:https?:)?//[^>]*>")
    found = {tag for page in site.rglob("*.html") for tag in fetched.findall(page.read_text(encoding="utf-8"))}
    assert not found
