// SPDX-License-Identifier: Apache-2.0
// Shows Markdown as DOM nodes. HTML in the text stays text, and links lead only to http, https and
// mailto. Answers arrive in pieces, so showMarkdown() replaces only the blocks that have changed.

import {button, make} from "./dom.js";

const TRIES = 16; // places at which the end of an emphasis is searched for
const DEEPEST = 8; // levels of quotes, lists and emphasis; deeper ones are shown as text

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6}) (.*)$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(\s+|$)(.*)$/;
const TABLE_RULE = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

function beginsBlock(line) {
    return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

// Each of these functions takes the block that begins at line @i, if it is of its kind, and returns
// {kind, end, …}; otherwise null.

function takeFence(lines, i) {
    const open = lines[i].match(FENCE);
    let end = i + 1;

    if (!open) {
        return null;
    }
    for (; end < lines.length; end++) {
        const close = lines[end].match(/^ {0,3}(`{3,}|~{3,})\s*$/);

        if (close && close[1][0] === open[1][0] && close[1].length >= open[1].length) {
            break;
        }
    }
    return {kind: "code", language: open[2].trim(), text: lines.slice(i + 1, end).join("\n"),
        end: Math.min(end + 1, lines.length)};
}

function takeQuote(lines, i) {
    const inner = [];
    let end = i;

    for (; end < lines.length && QUOTE.test(lines[end]); end++) {
        inner.push(lines[end].match(QUOTE)[1]);
    }
    return inner.length ? {kind: "quote", lines: inner, end} : null;
}

function splitRow(line) {
    const cells = line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/);

    return cells.map((cell) => cell.trim().replace(/\\\|/g, "|"));
}

function takeTable(lines, i) {
    const rows = [];
    let end = i + 2;

    if (!lines[i].includes("|") || end > lines.length || lines[i + 1].length > 1000 ||
        !TABLE_RULE.test(lines[i + 1]) ||
        splitRow(lines[i]).length !== splitRow(lines[i + 1]).length) {
        return null;
    }
    for (; end < lines.length && lines[end].includes("|"); end++) {
        rows.push(splitRow(lines[end]));
    }
    return {kind: "table", head: splitRow(lines[i]), sides: splitRow(lines[i + 1]), rows, end};
}

// A list ends at a line that is neither an item, nor indented, nor the continuation of a paragraph.
function takeList(lines, i) {
    const first = lines[i].match(ITEM);
    const ordered = first && /\d/.test(first[2]);
    const items = [];
    let end = i;
    let width = 0;

    if (!first) {
        return null;
    }
    for (; end < lines.length; end++) {
        const line = lines[end];
        const item = line.match(ITEM);
        const indent = line.match(/^ */)[0].length;

        if (item && item[1].length <= first[1].length + 1 && !RULE.test(line)) {
            if (/\d/.test(item[2]) !== ordered) {
                break;
            }
            width = item[1].length + item[2].length + 1;
            items.push([item[4]]);
        } else if (!line.trim()) {
            const next = lines[end + 1];

            if (next === undefined || !next.match(ITEM) && next.match(/^ */)[0].length < width) {
                break;
            }
            items[items.length - 1].push("");
        } else if (indent >= Math.min(width, 2) || !beginsBlock(line) && lines[end - 1].trim()) {
            items[items.length - 1].push(line.slice(Math.min(indent, width)));
        } else {
            break;
        }
    }
    return {kind: "list", ordered, start: ordered ? parseInt(first[2], 10) : 1, items, end};
}

function takeParagraph(lines, i) {
    let end = i + 1;

    while (end < lines.length && lines[end].trim() && !beginsBlock(lines[end])) {
        end++;
    }
    return {kind: "paragraph", text: lines.slice(i, end).join("\n"), end};
}

function takeLine(lines, i) {
    const heading = lines[i].match(HEADING);

    if (heading) {
        return {kind: "heading", level: heading[1].length, text: heading[2].trim(), end: i + 1};
    }
    return RULE.test(lines[i]) ? {kind: "rule", end: i + 1} : null;
}

function parseBlocks(lines) {
    const blocks = [];

    for (let i = 0; i < lines.length;) {
        if (!lines[i].trim()) {
            i++;
            continue;
        }
        const block = takeFence(lines, i) || takeLine(lines, i) || takeQuote(lines, i) ||
            takeTable(lines, i) || takeList(lines, i) || takeParagraph(lines, i);

        block.source = lines.slice(i, block.end).join("\n");
        blocks.push(block);
        i = block.end;
    }
    return blocks;
}

// --- text within a block ---

const MARKS = [["**", "strong"], ["__", "strong"], ["~~", "del"], ["*", "em"], ["_", "em"]];

function safeLink(address) {
    try {
        const url = new URL(address);

        return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
    } catch {
        return null;
    }
}

function link(address, children) {
    const href = safeLink(address);

    return href ? make("a", {href, target: "_blank", rel: "noopener noreferrer"}, ...children)
        : make("span", {}, ...children);
}

// Class Inline reads a text once from left to right. A mark is a text such as ** before and after a
// part of the text. A mark that was not found in the rest of the text is not searched for again, so
// that no text takes more than linear time at each level.
class Inline {
    constructor(text, depth) {
        this.text = text;
        this.depth = depth;
        this.at = 0;
        this.nodes = [];
        this.plain = "";
        this.missing = new Set();
    }

    flush() {
        if (this.plain) {
            this.nodes.push(document.createTextNode(this.plain));
        }
        this.plain = "";
    }

    add(node, end) {
        this.flush();
        this.nodes.push(node);
        this.at = end;
        return true;
    }

    // Returns the first place of @mark from @from on, or -1.
    search(mark, from) {
        const found = this.missing.has(mark) ? -1 : this.text.indexOf(mark, from);

        if (found < 0) {
            this.missing.add(mark);
        }
        return found;
    }

    takeCode() {
        const ticks = this.text.slice(this.at).match(/^`+/);
        const from = ticks && this.at + ticks[0].length;
        const end = ticks ? this.search(ticks[0], from) : -1;

        if (end < 0) {
            return false;
        }
        return this.add(make("code", {}, this.text.slice(from, end).replace(/^ (.*) $/s, "$1")),
            end + ticks[0].length);
    }

    // Returns where the text between two marks ends, or -1. The mark at the end directly follows a
    // word. A single mark must not be a part of a double one. If there are three characters in a row,
    // the last two end a double one.
    findEnd(mark, from) {
        const {text} = this;
        let end = this.search(mark, from + 1);

        for (let i = 0; i < TRIES && end >= 0; i++) {
            let run = 1;

            while (text[end + run] === mark[0]) {
                run++;
            }
            const last = end + run - mark.length;
            const isWord = mark[0] === "_" && /\w/.test(text[end + run] || "");

            if (last >= end && !/\s/.test(text[end - 1]) && !isWord && (mark.length > 1 || run !== 2)) {
                return last;
            }
            end = text.indexOf(mark, end + run);
        }
        return -1;
    }

    takeMark() {
        for (const [mark, name] of MARKS) {
            const from = this.at + mark.length;

            if (!this.text.startsWith(mark, this.at)) {
                continue;
            }
            // The mark at the beginning directly precedes a word. Underscores in words are no marks.
            if (/\s/.test(this.text[from] || " ") ||
                mark[0] === "_" && /\w/.test(this.text[this.at - 1] || "")) {
                return false;
            }
            const end = this.findEnd(mark, from);

            if (end >= 0) {
                return this.add(make(name, {}, ...inline(this.text.slice(from, end), this.depth + 1)),
                    end + mark.length);
            }
        }
        return false;
    }

    takeLink() {
        const image = this.text.startsWith("![", this.at);
        const from = this.at + (image ? 2 : 1);
        const middle = image || this.text[this.at] === "[" ? this.search("](", from) : -1;
        const end = middle < 0 ? -1 : this.search(")", middle + 2);

        if (end < 0 || this.text.slice(from, middle).includes("\n\n")) {
            return false;
        }
        const label = this.text.slice(from, middle);
        const address = this.text.slice(middle + 2, end).trim().split(/\s/)[0];

        // The page loads no picture from elsewhere; it shows a link in its place.
        return this.add(link(address, image ? [label || address] : inline(label, this.depth + 1)), end + 1);
    }

    takeAddress() {
        const found = this.text.slice(this.at, this.at + 2048).match(/^<?(https?:\/\/[^\s<>"]+[^\s<>".,;:!?')\]])>?/);

        return found ? this.add(link(found[1], [found[1]]), this.at + found[0].length) : false;
    }

    takeOther() {
        const char = this.text[this.at];

        if (char === "\\" && /[!-/:-@[-`{-~]/.test(this.text[this.at + 1] || "")) {
            this.plain += this.text[this.at + 1];
            this.at += 2;
        } else if (char === "\n") {
            return this.add(make("br"), this.at + 1);
        } else {
            this.plain += char;
            this.at++;
        }
        return true;
    }

    run() {
        while (this.at < this.text.length) {
            switch (this.depth < DEEPEST ? this.text[this.at] : "") {
            case "`":
                this.takeCode() || this.takeOther();
                break;
            case "*": case "_": case "~":
                this.takeMark() || this.takeOther();
                break;
            case "[": case "!":
                this.takeLink() || this.takeOther();
                break;
            case "<": case "h":
                this.takeAddress() || this.takeOther();
                break;
            default:
                this.takeOther();
            }
        }
        this.flush();
        return this.nodes;
    }
}

function inline(text, depth = 0) {
    return new Inline(text, depth).run();
}

// --- blocks as elements ---

function codeElement(block) {
    const copy = button("Copy", async () => {
        await navigator.clipboard.writeText(block.text);
        copy.textContent = "Copied";
        setTimeout(() => { copy.textContent = "Copy"; }, 2000);
    }, {class: "quiet small", "aria-label": "Copy this code"});

    return make("div", {class: "code"},
        make("div", {class: "code-head"}, make("span", {}, block.language || "text"),
            navigator.clipboard ? copy : null),
        make("pre", {tabindex: 0}, make("code", {}, block.text)));
}

function tableElement(block) {
    const side = (i) => {
        const rule = block.sides[i] || "";

        return rule.endsWith(":") ? rule.startsWith(":") ? "middle" : "right" : false;
    };
    const row = (name, cells) => make("tr", {},
        ...block.head.map((_, i) => make(name, {class: side(i)}, ...inline(cells[i] || ""))));

    return make("div", {class: "wide-table", tabindex: 0}, make("table", {},
        make("thead", {}, row("th", block.head)),
        make("tbody", {}, ...block.rows.map((cells) => row("td", cells)))));
}

function listElement(block, depth) {
    const items = block.items.map((lines) => {
        const tight = lines.length === 1 || !lines.includes("");
        const blocks = parseBlocks(lines);

        return make("li", {}, ...blocks.flatMap((inner) => tight && inner.kind === "paragraph"
            ? inline(inner.text) : [blockElement(inner, depth + 1)]));
    });

    return block.ordered ? make("ol", {start: block.start}, ...items) : make("ul", {}, ...items);
}

function blockElement(block, depth) {
    if (depth > DEEPEST) {
        return make("p", {}, block.source);
    }
    switch (block.kind) {
    case "code":
        return codeElement(block);
    case "heading":
        // The headings of an answer stand below those of the page.
        return make("h" + Math.min(block.level + 2, 6), {}, ...inline(block.text));
    case "rule":
        return make("hr");
    case "quote":
        return make("blockquote", {}, ...parseBlocks(block.lines).map((b) => blockElement(b, depth + 1)));
    case "table":
        return tableElement(block);
    case "list":
        return listElement(block, depth);
    default:
        return make("p", {}, ...inline(block.text));
    }
}

const shown = new WeakMap(); // the sources of the blocks that an element shows

// Shows @text in @element.
export function showMarkdown(element, text) {
    const before = shown.get(element) || [];
    const blocks = parseBlocks(text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"));
    let same = 0;

    while (same < blocks.length && before[same] === blocks[same].source) {
        same++;
    }
    while (element.childNodes.length > same) {
        element.lastChild.remove();
    }
    element.append(...blocks.slice(same).map((block) => blockElement(block, 0)));
    shown.set(element, blocks.map((block) => block.source));
}
