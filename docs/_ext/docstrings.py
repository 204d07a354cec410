"""What the pages of functions add to their docstrings: typeset formulas, and related functions.

A docstring is read in a terminal, so its formulas are plain text there, in literal blocks.  Here
each literal block of a function in ``FORMULAS`` is replaced by one formula, in order, which may be
a tuple of lines.  A function whose docstring has none gets its formula after the first paragraph.
"""

import inspect
import re
from pathlib import Path

from formulas import FORMULAS
from sphinx.errors import ExtensionError

SUFFIXES = {
    "": "the operator",
    "_backward": "its gradient with respect to the input",
    "_backward_boxes": "its gradient with respect to the boxes",
}


def blocks_of(text):
    """Return where the literal blocks of a docstring's description are."""
    end = re.search(r"^Parameters\n-+$", text, re.MULTILINE)
    block = re.compile(r" ?::\n\n((?:[ ]+\S.*\n|\n)+?)(?=\S|\Z)")
    return list(block.finditer(text, 0, end.start() if end else len(text)))


def typeset(name, text):
    """Return the docstring with typeset formulas."""
    written = [
        "\n\n" + "".join(f".. math:: {' '.join(line.split())}\n\n" for line in lines)
        for lines in ((given,) if isinstance(given, str) else given for given in FORMULAS[name])
    ]
    blocks = blocks_of(text)
    if not blocks:
        first, _, rest = text.partition("\n\n")
        return first + "".join(written) + rest
    if len(blocks) != len(written):
        raise ExtensionError(f"roicy.{name}: {len(blocks)} formulas, docs have {len(written)}")
    for found, formula in reversed(list(zip(blocks, written, strict=True))):
        text = text[: found.start()] + formula + text[found.end() :]
    return text


def related(full_name):
    """Yield the functions that belong to one, and what they are."""
    import roicy

    module, _, name = full_name.rpartition(".")
    operator = re.sub(r"_backward(_boxes)?$", "", name)
    if operator not in FORMULAS:
        return
    for suffix, what in SUFFIXES.items():
        if hasattr(roicy, operator + suffix) and f"roicy.{operator}{suffix}" != full_name:
            yield f"roicy.{operator}{suffix}", what
    on_tensors = Path(roicy.__file__).with_name("torch") / "functions.py"
    if module != "roicy.torch" and f'"{operator}"' in on_tensors.read_text():
        yield f"roicy.torch.{operator}", "the operator on tensors, with its gradients"


def extend(app, what, name, obj, options, lines):
    """Change the lines of a docstring before numpydoc reads them."""
    module, _, short = name.rpartition(".")
    text = "\n".join(lines)
    if module == "roicy" and short in FORMULAS:
        text = typeset(short, text)
    if module in ("roicy", "roicy.torch") and what == "function":
        others = "".join(f"{other} : {role}\n" for other, role in related(name))
        if others and "See Also" not in text:
            text = f"{text.rstrip()}\n\nSee Also\n--------\n{others}"
    lines[:] = text.split("\n")


def sign(app, what, name, obj, options, signature, returns):
    """Return the signature of a class, which its base hides where that is not installed."""
    if what != "class" or not name.startswith("roicy.torch."):
        return None
    parameters = list(inspect.signature(obj.__init__).parameters.values())[1:]
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
    return str(inspect.Signature(plain)), None


def setup(app):
    app.connect("autodoc-process-docstring", extend, priority=400)  # numpydoc has 500
    app.connect("autodoc-process-signature", sign, priority=600)
    return {"parallel_read_safe": True}
