"""What phones need of tables: cells that know their column, or a first column that stays."""

import re
from html import escape, unescape

NARROW = 34  # characters of a row that fit on a phone
WORDS = 16  # a cell of more characters is text, which may have lines of its own
TABLE = re.compile(r'<table class="([^"]*)"(?:(?!<table).)*?</table>', re.DOTALL)
ROW, CELL = re.compile(r"<tr.*?</tr>", re.DOTALL), re.compile(r"<t[dh]\b.*?</t[dh]>", re.DOTALL)


def text_of(html):
    """Return the text of some HTML."""
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


def fitting(found):
    """Return a table that fits.

    Where text makes rows too long, they become lists, in which the name of the column stands before
    each cell.  Rows of numbers scroll, and the first column stays.
    """
    table, kind = found[0], found[1]
    rows = [[text_of(cell) for cell in CELL.findall(row)] for row in ROW.findall(table)]
    if {"autosummary", "indextable"} & {*kind.split()} or len(rows) < 2:
        return table
    widths = [max(map(len, column)) for column in zip(*rows, strict=False)]
    if sum(widths) <= NARROW or (len(widths) == 2 and max(widths) <= WORDS):
        return table
    texts = [cell for row in rows[1:] for cell in row[1:] if len(cell) > WORDS]
    stacks = len(widths) == 2 or bool(texts)
    new = table.replace(f'"{kind}"', f'"{kind} {"stacking" if stacks else "scrolling"}"', 1)

    def labelled(row):
        heads = iter(rows[0])
        return re.sub(r"<td\b", lambda _: f'<td data-label="{escape(next(heads, ""))}"', row[0])

    return ROW.sub(labelled, new) if stacks else new


def adapt(app, name, template, context, doctree):
    """Change the tables of a page."""
    if context.get("body"):
        context["body"] = TABLE.sub(fitting, context["body"])


def setup(app):
    app.connect("html-page-context", adapt)
    return {"parallel_read_safe": True}
