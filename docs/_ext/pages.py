"""Pages that are files of the repository, and contents that leave out pages yet to come."""

import re
from pathlib import Path


def read(app, name, content):
    """Replace the text of a page before it is parsed."""
    root, config = Path(app.srcdir).parent, app.config
    if name in config.pages_of_files:
        content[0] = (root / config.pages_of_files[name]).read_text()
    pages = {file: f"{page}.md" for page, file in config.pages_of_files.items()}

    def link(found):
        target, anchor = found[1], found[2] or ""
        path = re.sub(r"^(\.\./)+", "", target)
        if path in pages:
            return f"](/{pages[path]}{anchor})"
        if name in config.pages_of_files:  # their links start at the root of the repository
            return f"](/{path.removeprefix('docs/')}{anchor})"
        return f"]({target}{anchor})"

    content[0] = re.sub(r"\]\((?!https?:)([^)#\s]+)(#[^)]*)?\)", link, content[0])
    # Examples end with an empty line for doctest, which readers need not see.
    content[0] = re.sub(
        r"^(```python\n(?:(?!```)[\s\S])*?\n)\n```$", r"\1```", content[0], flags=re.MULTILINE
    )
    missing = [
        page for page in config.pages_to_come if not (Path(app.srcdir) / f"{page}.md").exists()
    ]
    for page in missing:
        content[0] = re.sub(rf"^{page}\n", "", content[0], flags=re.MULTILINE)


def setup(app):
    app.add_config_value("pages_to_come", [], "env")
    app.add_config_value("pages_of_files", {}, "env")
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
