#!/usr/bin/env python3
"""Plots of a report as SVG that follows the page's colours.

Reads from stdin {"plots": [{"name", "x_label", "y_label", "x_better", "points": [{"label", "x", "y", "x_low", "x_high", "y_low",
"y_high", "front", "baseline", "number"}]}]} (the _low and _high may be null) and writes {NAME: svg} to stdout. `patchbay report`
calls it. Points of the front carry their numbers, which a table explains: names would cover each other.
"""
import io
import json
import math
import re
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: E402

# Stand-ins that the SVG's text is searched for: matplotlib knows no CSS variables.
COLOURS = {"#010203": "var(--fg)", "#010204": "var(--faint)", "#010205": "var(--accent)", "#010206": "var(--line)"}
FG, FAINT, ACCENT, LINE = COLOURS
MANY = 60         # from so many points on: small markers, and intervals on the front alone
WIDE_RANGE = 20   # an axis whose values differ by more is logarithmic

STYLE = {"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 11, "text.parse_math": False, "text.color": FG, "axes.edgecolor": FAINT,
         "axes.labelcolor": FG, "xtick.color": FG, "ytick.color": FG, "axes.spines.top": False, "axes.spines.right": False,
         "grid.color": LINE, "axes.grid": True, "axes.axisbelow": True, "grid.linewidth": 0.6}


def error_bars(points, axis):
    """Distances to both ends of the interval; 0 where there is none."""
    def distance(point, end, sign):
        value = point[f"{axis}_{end}"]
        return 0 if value is None else max(0, sign * (value - point[axis]))
    return [[distance(p, "low", -1) for p in points], [distance(p, "high", 1) for p in points]]


def scale(axes, axis, points):
    """Logarithmic where the values differ by orders of magnitude."""
    values = [p[axis] for p in points]
    if min(values) <= 0 or max(values) / min(values) < WIDE_RANGE:
        return
    (axes.set_xscale if axis == "x" else axes.set_yscale)("log")
    ticks = axes.xaxis if axis == "x" else axes.yaxis
    decades = math.log10(max(values) / min(values))
    ticks.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 3 else (1,)))
    ticks.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ticks.set_minor_formatter(NullFormatter())


def number_the_front(axes, front):
    """Each number beside its point, on the side away from the number before where two points are close."""
    to_pixels = axes.transData.transform
    last, above = None, True
    for point in front:  # from left to right; equal points share a number
        if last is not None and point["number"] == last["number"]:
            continue
        if last is not None:
            (x0, y0), (x1, y1) = to_pixels((last["x"], last["y"])), to_pixels((point["x"], point["y"]))
            above = not above if abs(x1 - x0) < 18 and abs(y1 - y0) < 18 else True
        axes.annotate(str(point["number"]), (point["x"], point["y"]), xytext=(5, 5) if above else (5, -14), textcoords="offset points",
                      fontsize=10, fontweight="bold", color=ACCENT)
        last = point


def draw(plot):
    figure, axes = plt.subplots(figsize=(5.8, 4.0), layout="constrained")
    points = plot["points"]
    many = len(points) > MANY
    scale(axes, "x", points)
    scale(axes, "y", points)
    for on_front, colour in ((False, FAINT), (True, ACCENT)):
        some = [p for p in points if p["front"] == on_front]
        if not some:
            continue
        bars = {} if many and not on_front else {"xerr": error_bars(some, "x"), "yerr": error_bars(some, "y")}
        axes.errorbar([p["x"] for p in some], [p["y"] for p in some], fmt="o", markersize=3 if many else 6, color=colour, elinewidth=0.8,
                      zorder=3 if on_front else 2, **bars)
    front = sorted((p for p in points if p["front"]), key=lambda p: p["number"])
    axes.plot([p["x"] for p in front], [p["y"] for p in front], color=ACCENT, linewidth=1.2, zorder=2)
    for point in points:
        if point["baseline"]:
            axes.plot([point["x"]], [point["y"]], marker="*", markersize=15, markerfacecolor="none", color=FG, zorder=4)
    axes.margins(0.1)
    axes.set_xlabel(f"{plot['x_label']} ({plot['x_better']} is better)")
    axes.set_ylabel(f"{plot['y_label']} (lower is better)")
    figure.canvas.draw()  # fixes the scales that the numbers' places depend on
    number_the_front(axes, front)
    return figure


def svg_of(figure, name):
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    svg = text.getvalue()
    svg = svg[svg.index("<svg"):]
    for colour, variable in COLOURS.items():
        svg = svg.replace(colour, variable)
    # Names within the page: two plots must not share them. The page scales the picture by its viewBox.
    svg = re.sub(r'(\bid="|url\(#|href="#)', lambda m: m.group(1) + name + "-", svg)
    svg = re.sub(r' (width|height)="[0-9.]+pt"', "", svg, count=2)
    return re.sub(r"<(metadata|style).*?</\1>", "", svg, flags=re.DOTALL)  # the style would hold for the whole page


def main():
    request = json.load(sys.stdin)
    result = {}
    for plot in request["plots"]:
        with matplotlib.rc_context({**STYLE, "svg.hashsalt": plot["name"]}):
            result[plot["name"]] = svg_of(draw(plot), plot["name"])
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
