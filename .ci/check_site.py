#!/usr/bin/env python3
"""Check a built site: links inside lead somewhere, and pages load nothing from other hosts."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes whose target a browser loads by itself.
LOADS = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("video", "src"),
    ("object", "data"),
    ("link", "href"),
}


class Page(HTMLParser):
    """The anchors and links of a page."""

    def __init__(self, path):
        super().__init__()
        self.path, self.anchors, self.links, self.loads = path, set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif (tag, name) in LOADS:
                self.loads.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


def is_elsewhere(link):
    """Return whether a link leads to another host."""
    return bool(urlsplit(link).netloc)


def faults(site):
    """Yield what is wrong."""
    paths = sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)
    pages = {path: Page(path) for path in paths}
    if len(pages) < 50:
        yield f"{site}: {len(pages)} pages, expected those of all functions"
    for path, page in pages.items():
        name = path.relative_to(site)
        if "= &lt;function" in path.read_text(encoding="utf-8"):
            yield f"{name}: shows a function as data, without its parameters"
        for link in page.loads:
            if is_elsewhere(link):
                yield f"{name}: loads {link}"
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if is_elsewhere(link) or parts.scheme in ("mailto", "data", "javascript"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{name}: {link} leads nowhere"
            elif parts.fragment and target in pages:
                if unquote(parts.fragment) not in pages[target].anchors:
                    yield f"{name}: {link} has no such anchor"
    remote = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)")
    for path in site.rglob("*.css"):
        for url in remote.findall(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads {url}"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1]).resolve()))
    print(
        "\n".join(found)
        or "every link inside leads somewhere, and nothing is loaded from elsewhere"
    )
    sys.exit(bool(found))
