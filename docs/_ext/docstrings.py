"""
What the pages of functions add to their docstrings: typeset formulas, and related functions.

A docstring is read in a terminal, so its formulas are plain text there, in literal blocks.  Here
each literal block of a function in ``FORMULAS`` is replaced by one formula, in order, which may be
a tuple of lines.  A function whose docstring has none gets its formula after the first paragraph.
"""

import re

from sphinx.errors import ExtensionError

MEAN = r"\mathrm{out}_{kcpq} = \frac{1}{g_y g_x} \sum_{i,\,j} f_{%s}(y_{pi},\, x_{qj})"
SAMPLES = (
    r"y_{pi} = lo_y + p\,b_h + \left(i + \frac{1}{2}\right) \frac{b_h}{g_y},"
    r"\quad i = 0, \dots, g_y - 1",
    r"x_{qj} = lo_x + q\,b_w + \left(j + \frac{1}{2}\right) \frac{b_w}{g_x},"
    r"\quad j = 0, \dots, g_x - 1",
)
INTEGRAL = r"""\mathrm{out}_{kcpq} = \frac{1}{b_h b_w}
    \int_{y_1 + p\,b_h}^{y_1 + (p + 1) b_h} \int_{x_1 + q\,b_w}^{x_1 + (q + 1) b_w}
    f_{%s}(y, x)\, dx\, dy"""
OWN = r"(c P_H + p) P_W + q"  # the channel of a bin that has channels of its own
CELLS = (
    r"lo_y + \lfloor p\,b_h \rfloor \le y < lo_y + \lceil (p + 1)\, b_h \rceil",
    r"lo_x + \lfloor q\,b_w \rfloor \le x < lo_x + \lceil (q + 1)\, b_w \rceil",
)
SURFACE = r"""f_c(y, x) = \sum_{i,\,j} \mathrm{input}_{ncij}\,
    \max(0, 1 - |y - i|)\, \max(0, 1 - |x - j|)"""
BY_INPUT = r"""\frac{\partial L}{\partial \mathrm{input}_{n,\,%s,\,y,\,x}} =
    \sum_{%s} W_{kpy}\, W_{kqx}\, \frac{\partial L}{\partial \mathrm{out}_{kcpq}},
    \quad W: \text{the weights of the operator}"""
BY_BOXES = r"""\frac{\partial L}{\partial x_1} = \sum_{c,\,p,\,q}
    \frac{\partial L}{\partial \mathrm{out}_{kcpq}}\,
    \frac{\partial\, \mathrm{out}_{kcpq}}{\partial x_1},
    \quad \text{likewise for } y_1, x_2, y_2"""


FORMULAS = {
    "roi_align": [(MEAN % "c", *SAMPLES)],
    "roi_align_max": [
        r"\max_{\text{samples}}\; (w_1 v_1 + w_2 v_2 + w_3 v_3 + w_4 v_4)",
        r"\max_{\text{samples}}\; \max(w_1 v_1, w_2 v_2, w_3 v_3, w_4 v_4)",
    ],
    "roi_align_max_backward": [
        r"\frac{\partial L}{\partial v_i} \mathrel{+}= w_i\,"
        r" \frac{\partial L}{\partial \mathrm{out}_{kcpq}}, \quad i = 1, \dots, 4"
    ],
    "prroi_pool": [(INTEGRAL % "c", SURFACE)],
    "ps_prroi_pool": [INTEGRAL % OWN],
    "ps_roi_align": [(MEAN % OWN, *SAMPLES)],
    "roi_pool": [(r"\mathrm{out}_{kcpq} = \max_{y,\,x}\; \mathrm{input}_{ncyx}", *CELLS)],
    "ps_roi_pool": [
        (
            r"\mathrm{out}_{kcpq} = \mathrm{mean}_{y,\,x}\;"
            rf" \mathrm{{input}}_{{n,\,{OWN},\,y,\,x}}",
            *CELLS,
        )
    ],
    "multiscale_roi_align": [
        r"\left\lfloor \mathrm{canonical\_level} + \log_2"
        r" \frac{\sqrt{\mathrm{width} \cdot \mathrm{height}}}{\mathrm{canonical\_scale}}"
        r" + 10^{-6} \right\rfloor"
    ],
}
for _name in ("roi_align", "prroi_pool"):
    FORMULAS[f"{_name}_backward"] = [BY_INPUT % ("c", r"k,\,p,\,q")]
for _name in ("ps_roi_align", "ps_prroi_pool", "ps_roi_pool"):
    FORMULAS[f"{_name}_backward"] = [BY_INPUT % (OWN, "k")]
for _name in ("roi_align", "prroi_pool", "ps_roi_align", "ps_prroi_pool"):
    FORMULAS[f"{_name}_backward_boxes"] = [BY_BOXES]

SUFFIXES = {
    "": "the operator",
    "_backward": "its gradient by the input",
    "_backward_boxes": "its gradient by the boxes",
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
    if module != "roicy.torch":
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


def setup(app):
    app.connect("autodoc-process-docstring", extend, priority=400)  # numpydoc has 500
    return {"parallel_read_safe": True}
