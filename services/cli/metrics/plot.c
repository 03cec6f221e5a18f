/* SPDX-License-Identifier: Apache-2.0 */
/* Draws images with axes, bars and lines (see plot.h). */
#include "cli/metrics/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Sizes in pixels. */
#define PLOT_WIDTH  860.0
#define PLOT_LEFT   100.0
#define PLOT_RIGHT  20.0
#define PLOT_TOP    64.0
#define PLOT_PANEL  170.0 /* the height of the drawing area of a panel */
#define PLOT_GAP    54.0  /* between two drawing areas, for a title */
#define PLOT_BOTTOM 40.0
#define PLOT_LEGEND 22.0 /* the height of a line of the legend */
#define PLOT_FIELD  (PLOT_WIDTH - PLOT_LEFT - PLOT_RIGHT)
/* The largest width of a letter of the legend. */
#define PLOT_LETTER 7.0
/* The largest number of labels below the axis of time. */
#define PLOT_LABELS 9u

static const char style[] =
    "<style>"
    "svg{background:#fff;font:12px system-ui,sans-serif}"
    ".t{font-size:16px;font-weight:600;fill:#1b1f24}.h{font-weight:600;fill:#1b1f24}"
    ".l{fill:#57606a}.g{stroke:#d8dee4;stroke-width:1}.a{stroke:#8c959f;stroke-width:1}"
    "polyline{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
    ".f0{fill:#0969da}.f1{fill:#bc4c00}.f2{fill:#1a7f37}.f3{fill:#8250df}.f4{fill:#bf8700}"
    ".f5{fill:#cf222e}.f6{fill:#6e7781}"
    ".s0{stroke:#0969da}.s1{stroke:#bc4c00}.s2{stroke:#1a7f37}.s3{stroke:#8250df}"
    ".s4{stroke:#bf8700}.s5{stroke:#cf222e}.s6{stroke:#6e7781}"
    "@media(prefers-color-scheme:dark){svg{background:#0d1117}.t,.h{fill:#e6edf3}"
    ".l{fill:#9198a1}.g{stroke:#262c36}.a{stroke:#656c76}"
    ".f0{fill:#58a6ff}.f1{fill:#f0883e}.f2{fill:#3fb950}.f3{fill:#bc8cff}.f4{fill:#d29922}"
    ".f5{fill:#ff7b72}.f6{fill:#8b949e}"
    ".s0{stroke:#58a6ff}.s1{stroke:#f0883e}.s2{stroke:#3fb950}.s3{stroke:#bc8cff}"
    ".s4{stroke:#d29922}.s5{stroke:#ff7b72}.s6{stroke:#8b949e}}"
    "</style>";

double plot_step(double max)
{
    double power, part;

    if (!(max > 0))
        return 1;
    power = pow(10, floor(log10(max / 3)));
    part = max / 3 / power;
    return power * (part >= 5 ? 5 : part >= 2 ? 2 : 1);
}

/* Writes a text, and escapes the characters that have a meaning in XML. Control characters, which
 * XML forbids, become blanks. */
static int plot_text(struct str *out, const char *text)
{
    int r = 0;

    for (const char *c = text; *c && r == 0; c++)
        r = *c == '<'                 ? str_puts(out, "&lt;")
            : *c == '&'               ? str_puts(out, "&amp;")
            : *c == '"'               ? str_puts(out, "&quot;")
            : (unsigned char)*c < ' ' ? str_putc(out, ' ')
                                      : str_putc(out, *c);
    return r;
}

static int plot_label(struct str *out, double x, double y, const char *class, const char *anchor,
                      const char *text)
{
    int r = str_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y,
                       class, anchor);

    r = r < 0 ? r : plot_text(out, text);
    return r < 0 ? r : str_puts(out, "</text>\n");
}

/* Returns the x coordinate of the middle of period @i. */
static double plot_x(const struct plot *plot, size_t i)
{
    return PLOT_LEFT + PLOT_FIELD * ((double)i + 0.5) / (double)plot->n;
}

static double panel_value(const struct plot_panel *panel, size_t i_series, size_t i)
{
    const double value = panel->series[i_series].values[i];

    return isfinite(value) && value > 0 ? value : 0;
}

static double panel_max(const struct plot *plot, const struct plot_panel *panel)
{
    double max = 0, sum;

    for (size_t i = 0; i < plot->n; i++) {
        sum = 0;
        for (size_t k = 0; k < panel->n_series; k++) {
            const double value = panel_value(panel, k, i);

            sum = panel->stacked ? sum + value : fmax(sum, value);
        }
        max = fmax(max, sum);
    }
    return max;
}

static int panel_axis(struct str *out, double y, double top, double step, double scale,
                      const char *unit)
{
    int r = 0;
    char text[48];

    for (double mark = 0; mark <= top * 1.0001 && r == 0; mark += step) {
        const double at = y + PLOT_PANEL - mark * scale;

        r = str_printf(out,
                       "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n",
                       PLOT_LEFT, at, PLOT_LEFT + PLOT_FIELD, at, mark > 0 ? "g" : "a");
        snprintf(text, sizeof(text), "%g%s%s", mark, unit[0] && mark > 0 ? " " : "",
                 mark > 0 ? unit : "");
        r = r < 0 ? r : plot_label(out, PLOT_LEFT - 6, at + 4, "l", "end", text);
    }
    return r;
}

static int panel_bars(struct str *out, const struct plot *plot, const struct plot_panel *panel,
                      double y, double scale)
{
    const double width = fmax(PLOT_FIELD / (double)plot->n * 0.72, 0.8);
    int r = 0;

    for (size_t i = 0; i < plot->n; i++) {
        double at = y + PLOT_PANEL;

        for (size_t k = 0; k < panel->n_series && r == 0; k++) {
            const double height = panel_value(panel, k, i) * scale;

            at -= height;
            if (height > 0)
                r = str_printf(out,
                               "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                               "class=\"f%zu\"/>\n",
                               plot_x(plot, i) - width / 2, at, width, height, k);
        }
    }
    return r;
}

/* Draws the values of a series as lines, with a gap where a value is missing. A single value
 * between two gaps is drawn as a dot. */
static int panel_line(struct str *out, const struct plot *plot, const double *values,
                      size_t i_series, double y, double scale)
{
    int r = 0;

    for (size_t i = 0, end; i < plot->n && r == 0; i = end + 1) {
        for (end = i; end < plot->n && isfinite(values[end]);)
            end++;
        if (end == i + 1)
            r = str_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" class=\"f%zu\"/>\n",
                           plot_x(plot, i), y + PLOT_PANEL - values[i] * scale, i_series);
        if (end <= i + 1)
            continue;
        r = str_printf(out, "<polyline class=\"s%zu\" points=\"", i_series);
        for (size_t k = i; k < end && r == 0; k++)
            r = str_printf(out, "%.1f,%.1f ", plot_x(plot, k), y + PLOT_PANEL - values[k] * scale);
        r = r < 0 ? r : str_puts(out, "\"/>\n");
    }
    return r;
}

static int panel_write(struct str *out, const struct plot *plot, const struct plot_panel *panel,
                       double y)
{
    const double max = panel_max(plot, panel), step = plot_step(max);
    const double top = fmax(ceil(max / step - 1e-9), 1) * step, scale = PLOT_PANEL / top;
    int r = plot_label(out, PLOT_LEFT, y - 12, "h", "start", panel->title);

    r = r < 0 ? r : panel_axis(out, y, top, step, scale, panel->unit);
    if (panel->stacked)
        return r < 0 ? r : panel_bars(out, plot, panel, y, scale);
    for (size_t k = 0; k < panel->n_series && r == 0; k++)
        r = panel_line(out, plot, panel->series[k].values, k, y, scale);
    return r;
}

static int plot_labels(struct str *out, const struct plot *plot, double y)
{
    const size_t each = (plot->n + PLOT_LABELS - 1) / PLOT_LABELS;
    int r = 0;

    for (size_t i = each / 2; i < plot->n && r == 0; i += each)
        r = plot_label(out, plot_x(plot, i), y, "l", "middle", plot->labels[i]);
    return r;
}

/* Returns how many letters a text has: bytes that begin a code point. */
static size_t plot_letters(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Writes the names of the series of the first panel, in lines that begin at @y. If @out is NULL,
 * only counts the lines. Returns the number of lines, or -ENOMEM. */
static int plot_legend(struct str *out, const struct plot *plot, double y)
{
    const struct plot_panel *panel = plot->panels;
    double x = PLOT_LEFT;
    int n_lines = panel->n_series ? 1 : 0, r = 0;

    for (size_t k = 0; k < panel->n_series && r == 0; k++) {
        const char *name = panel->series[k].name;
        const double width = 34 + PLOT_LETTER * (double)plot_letters(name);

        if (x > PLOT_LEFT && x + width > PLOT_WIDTH - PLOT_RIGHT) {
            x = PLOT_LEFT;
            y += PLOT_LEGEND;
            n_lines++;
        }
        if (out)
            r = str_printf(out,
                           "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" rx=\"3\" "
                           "class=\"f%zu\"/>\n",
                           x, y - 10, k);
        if (out && r == 0)
            r = plot_label(out, x + 18, y, "l", "start", name);
        x += width;
    }
    return r < 0 ? r : n_lines;
}

int plot_write(struct str *out, const struct plot *plot)
{
    const double legend = plot_legend(NULL, plot, 0) * PLOT_LEGEND;
    const double first = PLOT_TOP + legend + 18;
    const double height = first + (double)plot->n_panels * PLOT_PANEL +
                          (double)(plot->n_panels - 1) * PLOT_GAP + PLOT_BOTTOM;
    int r = str_printf(out,
                       "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
                       "width=\"%.0f\" height=\"%.0f\" role=\"img\">\n<title>",
                       PLOT_WIDTH, height, PLOT_WIDTH, height);

    r = r < 0 ? r : plot_text(out, plot->title);
    r = r < 0 ? r : str_printf(out, "</title>\n%s\n", style);
    r = r < 0 ? r : plot_label(out, PLOT_LEFT, 32, "t", "start", plot->title);
    r = r < 0 ? r : MIN(plot_legend(out, plot, PLOT_TOP), 0);
    for (size_t i = 0; i < plot->n_panels && r == 0; i++)
        r = panel_write(out, plot, &plot->panels[i], first + (double)i * (PLOT_PANEL + PLOT_GAP));
    r = r < 0 ? r : plot_labels(out, plot, height - PLOT_BOTTOM + 20);
    return r < 0 ? r : str_puts(out, "</svg>\n");
}
