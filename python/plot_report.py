#!/usr/bin/env python3
"""Plots of a report as SVG that follows the page's colours.

Reads from stdin {"plots": [{"name", "x_label", "y_label", "log_x", "points": [{"label", "x", "y", "x_low", "x_high", "y_low",
"y_high", "front", "baseline"}]}]} (the _low and _high may be null) and writes {NAME: svg} to stdout. `patchbay report` calls it.
"""
import io
import json
import re
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402

# Stand-ins that the SVG's text is searched for: matplotlib knows no CSS variables.
COLOURS = {"#010203": "var(--fg)", "#010204": "var(--faint)", "#010205": "var(--accent)", "#010206": "var(--line)"}
FG, FAINT, ACCENT, LINE = COLOURS
LABELLED_POINTS = 12  # more labels than this cover each other

STYLE = {"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10, "text.parse_math": False, "text.color": FG, "axes.edgecolor": FAINT,
         "axes.labelcolor": FG, "xtick.color": FG, "ytick.color": FG, "axes.spines.top": False, "axes.spines.right": False,
         "grid.color": LINE, "axes.grid": True, "axes.axisbelow": True, "grid.linewidth": 0.6}


def error_bars(points, axis):
    """Distances to both ends of the interval; 0 where there is none."""
    def distance(point, end, sign):
        value = point[f"{axis}_{end}"]
        return 0 if value is None else max(0, sign * (value - point[axis]))
    return [[distance(p, "low", -1) for p in points], [distance(p, "high", 1) for p in points]]


def draw(plot):
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    points = plot["points"]
    for chosen, colour, marker in ((False, FAINT, "o"), (True, ACCENT, "o")):
        some = [p for p in points if p["front"] == chosen]
        if not some:
            continue
        axes.errorbar([p["x"] for p in some], [p["y"] for p in some], xerr=error_bars(some, "x"), yerr=error_bars(some, "y"),
                      fmt=marker, markersize=4 if len(points) > 60 else 6, color=colour, elinewidth=0.8, zorder=3 if chosen else 2)
    front = sorted((p for p in points if p["front"]), key=lambda p: p["x"])
    axes.plot([p["x"] for p in front], [p["y"] for p in front], color=ACCENT, linewidth=1.2, zorder=2)
    for point in points:
        if point["baseline"]:
            axes.plot([point["x"]], [point["y"]], marker="*", markersize=14, markerfacecolor="none", color=FG, zorder=4)
    places = {}
    for point in front:  # equal points share one label
        places.setdefault((point["x"], point["y"]), []).append(point["label"])
    if len(places) <= LABELLED_POINTS:
        for place, labels in places.items():
            label = labels[0] if len(labels) == 1 else f"{labels[0]} (+{len(labels) - 1} equal)"
            axes.annotate(label, place, xytext=(5, 6), textcoords="offset points", fontsize=8)
    axes.margins(0.12)
    axes.set_xlabel(plot["x_label"])
    axes.set_ylabel(plot["y_label"])
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
