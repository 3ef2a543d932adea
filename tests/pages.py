"""Read a page as a browser does."""

from __future__ import annotations

from html.parser import HTMLParser


class Text(HTMLParser):
    """Its words, and the tags that are still open at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br", "path", "line", "use"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)
