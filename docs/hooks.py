"""What the site has beside the pages in docs/: files elsewhere in the repository that pages link to.

A link such as `../CHANGELOG.md` or `../../examples/sentiment.py` works on GitHub as it stands. For the site each such
file becomes a page of its own, text as it is and code in a block, and the link goes there.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(?<=\]\()([\w./-]+\.(?:md|py|toml|yml))(?=[)#])")
_SHIM = "https://unpkg.com/iframe-worker/shim"  # which the plugin `offline` asks for
_OTHERS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")  # in the navigation, though no page links there


def on_files(files: Files, config: Any) -> Files:
    """Add a page for every file outside docs/ that a page links to, and for those that these link to."""
    waiting = [*_OTHERS]
    for page in files.documentation_pages():
        waiting += _outside(page.content_string, f"docs/{page.src_uri}")
    while waiting:
        path = waiting.pop()
        if files.get_file_from_path(_page_of(path)) is None:
            text = (ROOT / path).read_text(encoding="utf-8")
            page = File.generated(config, _page_of(path), content=_rendered(path, text))
            page.inclusion = InclusionLevel.NOT_IN_NAV  # unless mkdocs.yml says otherwise
            files.append(page)
            waiting += _outside(text, path) if path.endswith(".md") else []
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let the links of a page of docs/ go to pages of the site."""
    return markdown if page.file.generated_by else _relinked(markdown, f"docs/{page.file.src_uri}")


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Fetch nothing: what lets the search work from the disk is ours."""
    return output.replace(_SHIM, posixpath.relpath("search.js", posixpath.dirname(page.url) or "."))


def on_post_template(output_content: str, **_: Any) -> str:
    """The same on the page for addresses that there are not."""
    return output_content.replace(_SHIM, "search.js")


def _outside(text: str, path: str) -> Iterator[str]:
    """The files outside docs/ that `text`, which stands in `path`, links to."""
    for link in _LINK.findall(text):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
        if not target.startswith("docs/") and (ROOT / target).is_file():
            yield target


def _relinked(text: str, path: str) -> str:
    """`text` with links from page to page of the site, where `path` says in which file of the repository it stands."""
    here = posixpath.dirname(_page_of(path)) or "."

    def moved(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), found[1]))
        return posixpath.relpath(_page_of(target), here)

    return _LINK.sub(moved, text)


def _page_of(path: str) -> str:
    """Where a file of the repository is found in the site's pages."""
    inside = path.removeprefix("docs/")
    return inside if inside.endswith(".md") else posixpath.splitext(inside)[0] + ".md"


def _rendered(path: str, text: str) -> str:
    """The page of a file: as it is, or its code in a block."""
    if path.endswith(".md"):
        return _relinked(text, path)
    return f'# {path}\n\n````{{.{path.rpartition(".")[2]} title="{path}"}}\n{text}````\n'
