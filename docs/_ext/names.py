"""Links: from names of functions in guides to their pages, and from these to their sources."""

import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

CODE = re.compile(r"(?:roicy\.)?([\w.]+)(?:\(.*\))?", re.DOTALL)
# Pages about other matters, on which a name is one of a file, a flag or a column.
OTHERS = ("generated/", "auto_examples/", "records", "changelog", "internals", "contributing")


def listed(folder):
    """Return the full names that the pages of the reference list."""
    found = set()
    for page in folder.glob("api*.md"):
        for module, table in re.findall(
            r"\.\. (?:current)?module:: (\S+)\n(.*?)```", page.read_text(), re.DOTALL
        ):
            names = re.findall(r"^   ([A-Za-z_.]+)$", table, re.MULTILINE)
            found.update(f"{module}.{name}" for name in names)
    return found


def link(app, doctree):
    """Put a reference around each literal that is the name of a function."""
    page = app.env.docname
    if page.startswith(OTHERS):
        return
    names = listed(Path(app.srcdir))
    for literal in list(doctree.findall(nodes.literal)):
        found = CODE.fullmatch(literal.astext())
        if found is None or f"roicy.{found[1]}" not in names:
            continue
        above = literal.parent
        while above is not None and not isinstance(
            above, (nodes.title, nodes.reference, addnodes.pending_xref)
        ):
            above = above.parent
        if above is None:
            reference = addnodes.pending_xref(
                "", refdomain="py", reftype="obj", reftarget=f"roicy.{found[1]}", refdoc=page
            )
            literal.replace_self(reference)
            reference += literal


def source_of(app, module, name):
    """Return the module of roicy.torch that has a function, which a stand-in for PyTorch hides."""
    if module != "roicy.torch":
        return None
    files = Path(app.srcdir).parent.joinpath("roicy/torch").glob("*.py")
    for file in sorted(files, key=lambda file: file.name.startswith("_")):
        if re.search(rf"^(?:def|class) {name}\b", file.read_text(), re.MULTILINE):
            return f"{module}.{file.stem}"
    return None


def setup(app):
    app.connect("doctree-read", link)
    app.connect("viewcode-follow-imported", source_of)
    return {"parallel_read_safe": True}
