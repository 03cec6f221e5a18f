# SPDX-License-Identifier: Apache-2.0
"""Tests in Chromium how the web page shows texts, also hostile ones, and that all people can use it:
with keys alone, with a screen reader, in the dark, on a phone."""
import pytest

import browser as browsers
from page_helpers import (ANSWER, ask, browser, count, models, needs_browser,  # noqa: F401
                          page, ready, scripted_suite, sound)

pytestmark = [pytest.mark.full, needs_browser]


# --- Markdown ---

MARKDOWN = """# Title

Some *soft*, **strong** and ~~old~~ text with `code *here*`, a [link](https://example.org/a_b) and
snake_case_names. See https://example.org/x.

```c
int main(void) { return 1 < 2; } // <b>
```

1. one
2. two
   - inner

> quoted

| a | b |
|---|--:|
| 1 | `x` |

---
end"""


def test_markdown_becomes_elements(browser, page):
    page.say(*[MARKDOWN[i:i + 7] for i in range(0, len(MARKDOWN), 7)])
    ask(browser, "Show")
    shape = browser.run(
        "const list = [];"
        "for (const e of document.querySelectorAll('.assistant .text *')) list.push(e.tagName.toLowerCase());"
        "return list")
    for name in ("h3", "em", "strong", "del", "pre", "ol", "ul", "blockquote", "table", "hr"):
        assert name in shape, (name, shape)
    one = "return document.querySelector('.assistant .text ' + arguments[0]).textContent"
    assert browser.run(one, "pre code") == "int main(void) { return 1 < 2; } // <b>"
    assert browser.run(one, "p code") == "code *here*"
    assert browser.run(one, "ol > li > ul > li") == "inner"
    assert browser.run(one, "td.right code") == "x"
    assert shape.count("em") == 1 and shape.count("a") == 2
    links = browser.run("return [...document.querySelectorAll('.assistant a')].map(a => [a.href, a.rel])")
    assert links == [["https://example.org/a_b", "noopener noreferrer"],
                     ["https://example.org/x", "noopener noreferrer"]]


EMPHASIS = {"***both***": "<strong><em>both</em></strong>", "**a *b***": "<strong>a <em>b</em></strong>",
            "*a **b** c*": "<em>a <strong>b</strong> c</em>", "_a_b_": "<em>a_b</em>",
            "2 * 3 * 4": "2 * 3 * 4", "**open": "**open", "a ** b": "a ** b", "~~x~~": "<del>x</del>",
            "\\*x\\*": "*x*", "`*`": "<code>*</code>", "``a`b``": "<code>a`b</code>"}


def test_emphasis(browser, page):
    for text, want in EMPHASIS.items():
        got = browser.run(
            "const {showMarkdown} = await import(location.href + 'page/markdown.js');"
            "const e = document.createElement('div'); showMarkdown(e, arguments[0]);"
            "return e.firstChild.innerHTML", text)
        assert got == want, text


HOSTILE = """<script>window.broken = 1</script> <img src=x onerror="window.broken = 2">

[a](javascript:window.broken=3) [b](data:text/html,x) [c](vbscript:x) ![d](https://example.org/pixel.png)
[e](JaVaScRiPt:window.broken=4) <a href="javascript:window.broken=5">f</a> [g](<javascript:x>)

```<script>
</code></pre><script>window.broken = 6</script>
```

| <svg onload="window.broken = 7"> |
|---|
| <iframe src="javascript:parent.broken=8"></iframe> |"""


def test_hostile_text_stays_text(browser, page):
    page.say(HOSTILE, reasoning=HOSTILE)
    ask(browser, HOSTILE.replace("\n", " "))
    browser.click(ANSWER + " summary")
    assert browser.run("return window.broken === undefined")
    assert browser.run("return document.querySelectorAll('.messages :is(script, img, svg, iframe)').length") == 0
    hrefs = browser.run("return [...document.querySelectorAll('.messages a')].map(a => a.href)")
    assert set(hrefs) == {"https://example.org/pixel.png"}
    title = browser.text("#conversations .open")
    assert title.startswith("<script>")
    # The browser refuses what a mistake in a script could do.
    assert browser.run("try { document.body.innerHTML = '<b>x</b>'; } catch (e) { return e.name; }") == "TypeError"
    browser.log()


@pytest.mark.parametrize("text", ["*" * 20000, "[" * 20000, "`" * 19999 + " x", "> " * 3000, "- " * 3000,
                                  "**a " * 8000, "| " * 8000 + "\n" + "|-" * 400, "[a](" * 6000,
                                  "h" * 20000, "_a*" * 8000, "# " * 8000])
def test_no_text_makes_the_page_slow(browser, page, text):
    page.say(text, "\n\nend of it")
    ask(browser, "Go")
    took = browser.run("const {showMarkdown} = await import(location.href + 'page/markdown.js');"
                       "const e = document.createElement('div'), t = performance.now();"
                       "showMarkdown(e, arguments[0]); return performance.now() - t", text)
    assert took < 2000 * browsers.SLOW
    assert browser.text(ANSWER + " .text").endswith("end of it")


# --- for everybody ---

def names(browser):
    """Returns (role, name) of each node that a screen reader announces as a control."""
    nodes = browser.devtools("Accessibility.getFullAXTree")["nodes"]
    return [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes
            if not n.get("ignored") and n.get("role", {}).get("value") in (
                "button", "textbox", "combobox", "tab", "spinbutton", "checkbox", "progressbar", "log",
                "dialog", "tabpanel", "article", "searchbox")]


def test_each_control_has_a_name(browser, page):
    page.say("```\ncode\n```\nand text", reasoning="hm")
    ask(browser, "Say something")
    browser.click("#settings-button")
    found = names(browser)
    for tab in ("vectors", "machine"):
        browser.click("#tab-" + tab)
        found += names(browser)
    browser.click("#key-button")
    found += names(browser)
    assert {"button", "textbox", "combobox", "tab", "spinbutton", "log", "article"} <= {r for r, _ in found}
    assert [role for role, name in found if not name.strip()] == []
    browser.press("escape")


def test_the_page_works_with_keys_alone(browser, page):
    page.say("By keyboard.")
    ready(browser)
    assert browser.run("return document.activeElement.id") == "prompt"
    browser.run("document.querySelector('.skip').focus()")
    seen = []
    for _ in range(16):
        seen.append(browser.run("return document.activeElement.id || document.activeElement.className"))
        browser.press("tab")
    order = ["skip", "tab-chat", "key-button", "theme-button", "new", "model", "settings-button", "messages",
             "prompt", "send"]
    assert [name for name in seen if name in order][:len(order)] == order, seen
    browser.run("document.querySelector('#tab-chat').focus()")
    browser.press("right")
    assert browser.run("return document.activeElement.id") == "tab-vectors" and browser.shows("#view-vectors")
    assert not browser.shows("#view-chat")
    browser.press("left")
    ask(browser, "Hello")
    # Screen readers hear the answer once, when it is complete.
    assert browser.run("return document.querySelector('[role=status]').textContent") == "The answer: By keyboard."


def test_light_and_dark(browser, page):
    ground = "return getComputedStyle(document.body).backgroundColor"

    def prefer(scheme):
        browser.devtools("Emulation.setEmulatedMedia",
                         features=[{"name": "prefers-color-scheme", "value": scheme}])

    prefer("light")
    light = browser.run(ground)
    prefer("dark")
    dark = browser.run(ground)
    assert light != dark
    for want, text in ((light, "light"), (dark, "dark"), (dark, "system")):
        browser.click("#theme-button")
        assert browser.run(ground) == want and text in browser.text("#theme-button")
    browser.click("#theme-button")
    browser.open(browser.run("return location.href"))
    assert browser.run(ground) == light
    for scheme in ("light", "dark"):
        prefer(scheme)
        browser.run("document.documentElement.dataset.theme = 'system'")
        assert browser.run(CONTRAST) >= 4.5
    prefer("")


# The lowest contrast (WCAG 2) between a text and its background.
CONTRAST = """
const style = getComputedStyle(document.documentElement);
const light = (name) => {
    const hex = style.getPropertyValue(name).trim().slice(1);
    const [r, g, b] = [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
        .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const pairs = [["--ink", "--ground"], ["--ink", "--surface"], ["--ink", "--raised"], ["--ink", "--mine"],
    ["--soft", "--ground"], ["--soft", "--surface"], ["--soft", "--raised"], ["--accent-ink", "--accent"],
    ["--accent", "--ground"], ["--bad", "--ground"], ["--bad", "--surface"], ["--good", "--raised"]];
return Math.min(...pairs.map(([a, b]) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
}));
"""


@pytest.mark.parametrize("width", [320, 390, 768])
def test_narrow_screens(browser, page, width):
    page.say("| a long head of a table | another one | and a third |\n|---|---|---|\n| 1 | 2 | 3 |\n\n"
             "```\n" + "x" * 300 + "\n```\n" + "y" * 200)
    browser.resize(width, 700)
    ask(browser, "z" * 150)
    for tab in ("chat", "vectors", "machine"):
        browser.click("#tab-" + tab)
        assert browser.run("return document.documentElement.scrollWidth") <= width, tab
        assert browser.run("return document.querySelector('#view-' + arguments[0]).scrollWidth", tab) <= width
    browser.click("#tab-chat")
    if width < 760:
        assert not browser.shows("#new")
        browser.click("#list-button")
        browser.click("#new")
        assert count(browser, ".message") == 0 and not browser.shows("#new")
