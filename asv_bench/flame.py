"""Flame graphs of callgrind's files: a bar is a function, and its callees stand on it.

callgrind keeps who calls whom, and not whole stacks.  So what a function's callee takes is shared
among all callers of the function, in proportion to what they take.
"""

from html import escape

import counter

WIDTH, HEIGHT, LETTER = 1200, 17, 6.5  # of the drawing, a bar and a letter
NARROWEST = 1.5  # bars that are drawn


def bars(own, called, function, share, start, path):
    """Yield (function, start, depth, share) of a function and of all that it calls."""
    yield function, start, len(path), share
    path = (*path, function)
    callees = {one: cost for one, cost in called.get(function, {}).items() if one not in path}
    inner = own[function] + sum(callees.values())
    for callee, cost in sorted(callees.items(), key=lambda item: -item[1]):
        part = share * cost / inner
        if part < NARROWEST:
            break
        yield from bars(own, called, callee, part, start, path)
        start += part


def roots(own, called):
    """Return functions from which all others are reached, with what each takes with its callees.

    Nobody but itself calls a root: a wrapper and its body may have one name.  Where all that is
    left call each other, the one that takes most is a root.
    """
    names = {*own, *called}
    callees = {one: {*called.get(one, {})} - {one} for one in names}
    inner = {
        one: own[one] + sum(called.get(one, {}).get(c, 0) for c in callees[one]) for one in names
    }
    found, left = {}, set(names)
    while left:
        of_others = set().union(*(callees[one] for one in left))
        root = max((left - of_others) or left, key=lambda one: (inner[one], one))
        found[root], reached = inner[root], [root]
        for one in reached:
            reached += (callees[one] & left).difference(reached)
        left.difference_update(reached)
    return found


def colour(before, now):
    """Return red for what grew, blue for what shrank, and sand for the rest."""
    if before is None or abs(now - before) <= 0.003 * before:
        return "#e8dcc0"
    return "#e07050" if now > before else "#80a8d8"


def drawn(text, before=""):
    """Return an SVG of a file of callgrind, coloured by what changed since another one."""
    (own, called), (old, _) = counter.costs_of(text), counter.costs_of(before)
    first = roots(own, called)
    total, start, found = sum(first.values()), 0.0, []
    for function in sorted(first, key=first.get, reverse=True):
        share = WIDTH * first[function] / total
        if share >= NARROWEST:
            found += bars(own, called, function, share, start, ())
        start += share
    tall = HEIGHT * (3 + max(depth for _, _, depth, _ in found))
    name, calls = counter.TRIGGER.search(text).groups()
    title = f"{name}: {sum(own.values())} instructions in {calls} calls"
    parts = [f'<text x="4" y="{HEIGHT - 4}">{escape(title)}</text>']
    for function, x, depth, share in found:
        y = tall - HEIGHT * (depth + 1)
        size = f'width="{share:.1f}" height="{HEIGHT - 1}"'
        fill = colour(old.get(function, 0) if old else None, own[function])
        change = f", before {old.get(function, 0)}" if old else ""
        about = escape(f"{function}: itself {own[function]}{change}; {share / WIDTH:.1%} of all")
        shown = escape(function[: int(share / LETTER)]) if share > 4 * LETTER else ""
        parts.append(
            f'<g><title>{about}</title><rect x="{x:.1f}" y="{y}" {size} fill="{fill}"/>'
            f'<text x="{x + 2:.1f}" y="{y + 12}">{shown}</text></g>'
        )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{tall}" '
    return f'{head}font-family="monospace" font-size="11">\n' + "\n".join(parts) + "\n</svg>\n"
