"""Formulas as MathML, which browsers set by themselves: no script and no font is needed."""

import latex2mathml.converter
from docutils.nodes import SkipNode


def inline(self, node):
    """Write a formula in a line of text."""
    self.body.append(latex2mathml.converter.convert(node.astext()))
    raise SkipNode


def block(self, node):
    """Write a formula that stands by itself."""
    formula = latex2mathml.converter.convert(node.astext(), display="block")
    self.body.append(self.starttag(node, "div", CLASS="formula") + formula + "</div>\n")
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True}
