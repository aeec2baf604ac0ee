"""Are the goals met? What `index_peers.py` concludes from its measurements, and how it draws them."""
import html
import math

FLAT, RABITQ, FAST_SCAN, GRAPH = "flat", ("rabitq", "rabitq-fs"), ("rabitq", "rabitq-fs", "pq-fs"), ("hnsw",)
OURS = "quantized"
# The sets by their sizes.
LARGE, SMALL, REAL = (400_000, 768), (100_000, 768), (28_001, 384)


def cost(settings, recall, key):
    """1 over `key` (times faster than the exact scan) where an index reaches `recall`, between its settings; None if it does not."""
    points = sorted((s["recall@10"], 1 / s[key]) for s in settings)
    # Only settings that no other beats in both.
    points = [(r, c) for r, c in points if not any(r2 >= r and c2 < c for r2, c2 in points)]
    for at, (found, price) in enumerate(points):
        if found >= recall:
            if at == 0:
                return price
            low, cheap = points[at - 1]
            share = (recall - low) / (found - low)
            return math.exp(math.log(cheap) + share * (math.log(price) - math.log(cheap)))
    return None


def by_index(settings, groups, ours):
    """{name: settings} of the indexes of these groups."""
    found = {}
    for s in settings:
        if s["group"] in groups and s["index"].startswith("hindsearch") == ours:
            found.setdefault(s["index"], []).append(s)
    return found


def best(indexes, recall, key):
    """(cost, memory, name) of the cheapest index at this recall; None where none reaches it."""
    reached = [(c, s[0]["memory_bytes"], name) for name, s in indexes.items() if (c := cost(s, recall, key)) is not None]
    return min(reached, default=None)


class Goals:
    """A table of goals, filled from the sets that were measured."""

    def __init__(self, results):
        self.results, self.goals = results, []

    def settings(self, shape):
        return next((r["settings"] for r in self.results.values() if (r["rows"], r["dimensions"]) == shape), [])

    def add(self, goal, wanted, measured, met, note=""):
        self.goals.append({"goal": goal, "wanted": wanted, "measured": measured, "met": met, "note": note})

    def ratio(self, goal, value, at_least, note=""):
        told = "not measured" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"
        self.add(goal, f"at least {at_least:g} times", told, None if value is None else value >= at_least, note)

    def against_flat(self, shape, recall, at_least, kind, only=lambda setting: True):
        ours = {n: [s for s in rows if only(s)] for n, rows in by_index(self.settings(shape), (OURS,), True).items()}
        found = best(ours, recall, f"{kind}_cpu_x")
        name = f"{kind}, recall@10 {recall}, {shape[0]:,} x {shape[1]}, against faiss Flat"
        self.ratio(name, found and 1 / found[0], at_least, found[2] if found else "")

    def against(self, shape, groups, recall, at_least, kind, memory=None):
        settings = self.settings(shape)
        ours = best(by_index(settings, (OURS,), True), recall, f"{kind}_cpu_x")
        peer = best(by_index(settings, groups, False), recall, f"{kind}_cpu_x")
        name = f"{kind}, recall@10 {recall}, {shape[0]:,} x {shape[1]}, against the best of {', '.join(groups)}"
        both = ours and peer
        self.ratio(name, peer[0] / ours[0] if both else None, at_least, f"{ours[2]} against {peer[2]}" if both else "")
        if memory:
            used = ours[1] / peer[1] if both else None
            told = "not measured" if used is None else f"1/{1 / used:.1f}"
            self.add(f"memory of that, against {', '.join(groups)}", f"at most 1/{memory}", told, None if used is None else used <= 1 / memory)


def goals(results):
    """[{goal, wanted, measured, met, note}]; `met` is None for what was not measured."""
    table = Goals(results)
    table.against_flat(LARGE, 0.97, 120, "batch", lambda s: s["setting"] not in ("exhaustive", "exact"))
    table.against_flat(LARGE, 0.97, 100, "single", lambda s: s["setting"] not in ("exhaustive", "exact"))
    table.against_flat(LARGE, 0.99, 16, "batch", lambda s: s["setting"] == "exhaustive")
    for shape in (SMALL, LARGE):
        table.against(shape, FAST_SCAN, 0.97, 2.5, "batch")
        table.against(shape, GRAPH, 0.97, 4, "batch", memory=20)
    table.against(SMALL, RABITQ, 0.97, 2, "single")
    table.against(SMALL, GRAPH, 0.97, 2, "single")
    table.against(REAL, ("svs",), 0.97, 1, "single", memory=15)
    builds(table)
    recalls(table)
    return table.goals


def builds(table):
    settings = table.settings(LARGE)
    ours = min((s["build_cpu_s"] for s in settings if s["group"] == OURS), default=None)
    graph = min((s["build_cpu_s"] for s in settings if s["group"] in GRAPH and s["index"].startswith("faiss")), default=None)
    share = ours / graph if ours and graph else None
    told = "not measured" if share is None else f"1/{1 / share:.1f}"
    table.add("build CPU time at 400,000 x 768, against faiss HNSW32", "at most 1/20", told, None if share is None else share <= 1 / 20)


def recalls(table):
    for element_type, setting, least in (("i8", "exhaustive", 0.99), ("i16", "exhaustive", 0.995), ("i16", "exact", 1.0)):
        for shape in (SMALL, LARGE, REAL):
            found = [s for s in table.settings(shape) if s["index"] == f"hindsearch {OURS} {element_type}" and s["setting"] == setting]
            value = min((min(s["recall@3"], s["recall@10"]) for s in found), default=None)
            name = f"recall@3 and @10, {setting}, {element_type}, {shape[0]:,} x {shape[1]}"
            table.add(name, f"at least {least}", "not measured" if value is None else f"{value:.4f}", None if value is None else value >= least)


def table(goals):
    """The goals as Markdown."""
    lines = ["| goal | wanted | measured | met | between |", "|---|---|---|---|---|"]
    for goal in goals:
        met = {True: "yes", False: "**no**", None: "-"}[goal["met"]]
        lines.append(f"| {goal['goal']} | {goal['wanted']} | {goal['measured']} | {met} | {goal['note']} |")
    return lines


COLOURS = ["#2a6fb0", "#d1495b", "#3c8d5a", "#e09f3e", "#7b5ea7", "#54a0b0", "#9a6324", "#808080", "#c05299", "#404040"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM, FLOOR = 900, 480, 70, 270, 40, 55, 0.8


def picture(title, settings):
    """Recall@10 against the CPU milliseconds of a query alone, a line an index, as SVG."""
    times = [s["single_cpu_ms"] for s in settings]
    first, last = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)) + 1e-9)

    def x(ms):
        return LEFT + (math.log10(ms) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(recall):
        return TOP + (1 - max(recall, FLOOR)) / (1 - FLOOR) * (HEIGHT - TOP - BOTTOM)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', f'<text x="{LEFT}" y="24" font-size="14">{html.escape(title)}</text>']
    for decade in range(first, last + 1):
        at = x(10.0**decade)
        out.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        out.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{10.0**decade:g}</text>')
    for step in range(5):
        recall = FLOOR + (1 - FLOOR) * step / 4
        out.append(f'<path d="M{LEFT} {y(recall):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y(recall) + 4:.1f}" text-anchor="end">{recall:.2f}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 14}" text-anchor="middle">CPU milliseconds, one query</text>')
    out.append(f'<text transform="translate(18 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">recall@10</text>')
    for number, name in enumerate(dict.fromkeys(s["index"] for s in settings)):
        colour = COLOURS[number % len(COLOURS)]
        points = sorted((s["single_cpu_ms"], s["recall@10"]) for s in settings if s["index"] == name)
        line = " ".join(f"{x(ms):.1f},{y(recall):.1f}" for ms, recall in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        out += [f'<circle cx="{x(ms):.1f}" cy="{y(recall):.1f}" r="3" fill="{colour}"/>' for ms, recall in points]
        out.append(f'<text x="{WIDTH - RIGHT + 14}" y="{TOP + 18 * number + 8}" fill="{colour}">{html.escape(name)}</text>')
    return "\n".join([*out, "</svg>", ""])
