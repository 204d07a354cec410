"""The counts of asv_bench/history.json: drawings, and a table of the commits that moved them."""

import json
import time
from html import escape
from pathlib import Path
from string import ascii_uppercase

from docutils import nodes
from docutils.parsers.rst import Directive

FILE = Path(__file__).resolve().parents[2] / "asv_bench" / "history.json"
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 300, 130, 38, 16, 8  # of a drawing, in its own units


def read():
    """Return what has been counted, or None in a copy without the file."""
    return json.loads(FILE.read_text()) if FILE.exists() else None


def counted(history):
    """Return the commits that have counts, the oldest first."""
    return {name: one for name, one in history["commits"].items() if "counts" in one}


def marks(history):
    """Return the letter of each step, by its commit; after Z come A2, B2 and so on."""
    names = [step["commit"] for step in history["steps"]]
    return {
        name: ascii_uppercase[i % 26] + (str(i // 26 + 1) if i >= 26 else "")
        for i, name in enumerate(names)
    }


def day(date):
    return time.strftime("%Y-%m-%d", time.gmtime(date))


def amount(value):
    """Return a number of instructions as people write it."""
    return f"{value / 1e6:.3g} M" if value >= 1e6 else f"{value / 1e3:.3g} k"


def line(kind, x, y):
    """Return a straight line of a class, from (x[0], y[0]) to (x[1], y[1])."""
    ends = f'x1="{x[0]:.1f}" x2="{x[1]:.1f}" y1="{y[0]:.1f}" y2="{y[1]:.1f}"'
    return f'<line class="{kind}" {ends}/>'


def text(x, y, anchor, content):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{content}</text>'


def drawing(call, history):
    """Return an SVG with the counts of a call, and the letters of the steps that changed them."""
    commits, letters = counted(history), marks(history)
    values = {
        name: one["counts"][call][0] for name, one in commits.items() if call in one["counts"]
    }
    first, *_, last = [*values.values()] * 2
    most, gap = max(values.values()), (WIDTH - LEFT - 8) / max(len(commits) - 1, 1)
    x = {name: LEFT + gap * i for i, name in enumerate(commits)}

    def y(value):
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most)

    parts = []
    for value, label in ((most, amount(most)), (most / 2, amount(most / 2)), (0, "0")):
        parts.append(line("speed-grid", (LEFT, WIDTH), (y(value), y(value))))
        parts.append(text(LEFT - 4, y(value) + 4, "end", label))
    for step in history["steps"]:
        if call in step["calls"]:
            between = x[step["commit"]] - gap / 2
            parts.append(line("speed-step", (between, between), (TOP, HEIGHT - BOTTOM)))
            parts.append(text(between, TOP - 4, "middle", letters[step["commit"]]))
    points = " ".join(f"{x[name]:.1f},{y(value):.1f}" for name, value in values.items())
    parts.append(f'<polyline class="speed-line" points="{points}"/>')
    for name, value in values.items():
        about = f"{name[:10]}, {day(commits[name]['date'])}: {amount(value)}\n"
        title = escape(about + commits[name]["subject"])
        place = f'cx="{x[name]:.1f}" cy="{y(value):.1f}" r="2.5"'
        parts.append(f"<circle {place}><title>{title}</title></circle>")
    label = escape(f"Instructions of {call}, from {amount(first)} to {amount(last)}")
    return (
        f"<figure><figcaption><b>{escape(call)}</b>: {amount(last)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg></figure>"
    )


def row(step, letter, commits):
    """Return the row of a step."""
    moved = "<br>".join(
        f"{escape(call)}: {now / before - 1:+.0%}" for call, (before, now) in step["calls"].items()
    )
    names = "".join(f"<code>{name[:10]}</code><br>" for name in step["named"])
    few = f"<br>of {step['of']} commits" if step["of"] > 1 else ""
    cells = [
        letter,
        f"{names}{day(commits[step['commit']]['date'])}{few}",
        moved,
        escape(step["why"]),
    ]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


class Raw(Directive):
    """Puts HTML that is made of the counts."""

    def run(self):
        self.state.document.settings.env.note_dependency(str(FILE))
        history = read()
        if not history or not counted(history):
            text = "This copy of the documentation was built without asv_bench/history.json."
            return [nodes.paragraph(text, text)]
        return [nodes.raw("", self.html(history), format="html")]


class Chart(Raw):
    """A drawing for each call."""

    def html(self, history):
        calls = dict.fromkeys(call for one in counted(history).values() for call in one["counts"])
        drawings = "".join(drawing(call, history) for call in calls)
        return f'<div class="speed-charts">{drawings}</div>'


class Steps(Raw):
    """A table of the commits that moved the counts."""

    def html(self, history):
        letters, commits = marks(history), history["commits"]
        rows = "".join(row(step, letters[step["commit"]], commits) for step in history["steps"])
        head = "".join(f"<th>{name}</th>" for name in ("", "commit", "instructions", "why"))
        return (
            '<div class="pst-scrollable-table-container"><table class="table speed-steps">'
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        )


class Facts(Raw):
    """What the counts depend on."""

    def html(self, history):
        versions = ", ".join(
            f"{name} {escape(value.removeprefix(f'{name}-'))}" if name != "libc" else escape(value)
            for name, value in history["versions"].items()
        )
        failed = [name[:10] for name, one in history["commits"].items() if "counts" not in one]
        last, about = list(counted(history).items())[-1]
        text = f"{len(counted(history))} commits, counted with {versions}. The last one is "
        text += f"{last[:10]} of {day(about['date'])}, “{escape(about['subject'])}”. "
        text += "What landed later is not shown."
        if failed:
            text += f" These could not be built or called: {', '.join(failed)}."
        return f"<p>{text}</p>"


def setup(app):
    app.add_directive("speed-chart", Chart)
    app.add_directive("speed-steps", Steps)
    app.add_directive("speed-facts", Facts)
    return {"parallel_read_safe": True}
