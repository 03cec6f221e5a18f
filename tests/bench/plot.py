# SPDX-License-Identifier: Apache-2.0
"""Draws small line plots as SVG, without a library. The plots follow the light or dark mode of the
reader."""
import math

WIDTH, HEIGHT = 300, 210  # of one panel
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 34, 38

STYLE = """
svg { font: 11px system-ui, sans-serif; }
.text { fill: #24292f; } .title { font-weight: 600; }
.grid { stroke: #24292f; stroke-opacity: .15; fill: none; }
.s0 { stroke: #0969da; fill: #0969da; } .s1 { stroke: #bf3989; fill: #bf3989; }
.line { fill: none; stroke-width: 2; } .s0.label, .s1.label { stroke: none; }
@media (prefers-color-scheme: dark) {
  .text { fill: #e6edf3; } .grid { stroke: #e6edf3; }
  .s0 { stroke: #58a6ff; fill: #58a6ff; } .s1 { stroke: #f778ba; fill: #f778ba; }
  .line { fill: none; } .s0.label, .s1.label { stroke: none; }
}
"""


def ticks(top):
    """Returns a few round numbers from 0 to at least @top."""
    unit = 10 ** math.floor(math.log10(top / 4))
    step = next(unit * m for m in (1, 2, 2.5, 5, 10) if unit * m * 4 >= top)
    return [step * i for i in range(int(math.ceil(top / step)) + 1)]


def short(x):
    return "%gk" % (x / 1024) if x >= 1024 and x % 1024 == 0 else "%g" % x


def panel(x0, title, x_label, lines):
    """Draws a panel. @lines: name → {x: y}. The x axis is logarithmic (powers of two); the y axis
    starts at 0."""
    xs = sorted({x for line in lines.values() for x in line})
    ys = ticks(max(y for line in lines.values() for y in line.values()))
    low, high = math.log2(xs[0]), math.log2(xs[-1])

    def at(x, y):
        part = (math.log2(x) - low) / (high - low) if high > low else 0.5
        return (x0 + LEFT + part * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - y / ys[-1] * (HEIGHT - TOP - BOTTOM))

    out = ['<text class="text title" x="%d" y="14">%s</text>' % (x0 + LEFT, title)]
    for y in ys:
        px, py = at(xs[0], y)
        out.append('<path class="grid" d="M%.1f %.1fH%.1f"/>' % (px, py, x0 + WIDTH - RIGHT))
        out.append('<text class="text" x="%.1f" y="%.1f" text-anchor="end">%g</text>'
                   % (px - 6, py + 4, y))
    for x in xs:
        px, py = at(x, 0)
        out.append('<text class="text" x="%.1f" y="%.1f" text-anchor="middle">%s</text>'
                   % (px, py + 15, short(x)))
    out.append('<text class="text" x="%.1f" y="%d" text-anchor="middle">%s</text>'
               % ((x0 + LEFT + x0 + WIDTH - RIGHT) / 2, HEIGHT - 6, x_label))
    for i, (name, line) in enumerate(lines.items()):
        points = [at(x, line[x]) for x in sorted(line)]
        out.append('<path class="s%d line" d="M%s"/>'
                   % (i, "L".join("%.1f %.1f" % p for p in points)))
        out += ['<circle class="s%d" cx="%.1f" cy="%.1f" r="2.5"/>' % ((i,) + p) for p in points]
        out.append('<text class="s%d label" x="%.1f" y="28">%s</text>'
                   % (i, x0 + LEFT + 90 * i, name))
    return out


def svg(panels):
    """Returns an SVG. @panels: (title, label of x, {name: {x: y}}). It leaves out panels without a
    line."""
    panels = [p for p in panels if any(p[2].values())]
    width = WIDTH * len(panels)
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">'
           % (width, HEIGHT, width, HEIGHT), "<style>%s</style>" % STYLE]
    for i, (title, label, lines) in enumerate(panels):
        out += panel(i * WIDTH, title, label, {n: line for n, line in lines.items() if line})
    return "\n".join(out + ["</svg>", ""])
