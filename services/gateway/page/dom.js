// SPDX-License-Identifier: Apache-2.0
// Makes and finds elements. Texts become text nodes, never HTML.

export const find = (id) => document.getElementById(id);

// Returns a new element. A property that is a function handles the event of its name. A property
// that is true adds an attribute without a value, and one that is false adds none. All others are
// attributes with a value. Children are elements or texts.
export function make(name, properties = {}, ...children) {
    const element = document.createElement(name);

    for (const [key, value] of Object.entries(properties)) {
        if (typeof value === "function") {
            element.addEventListener(key, value);
        } else if (value !== false && value !== undefined && value !== null) {
            element.setAttribute(key, value === true ? "" : String(value));
        }
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
}

export function button(text, click, properties = {}) {
    return make("button", {type: "button", click, ...properties}, text);
}

// Shows an error above the page; without a text, hides the last one.
export function notice(text) {
    find("notice").textContent = text || "";
    find("notice").hidden = !text;
}

// Tells users of screen readers what happened.
export function announce(text) {
    find("status").textContent = text;
}

export function formatBytes(n) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let i = 0;

    for (; n >= 1024 && i + 1 < units.length; i++) {
        n /= 1024;
    }
    return (i && n < 100 ? n.toFixed(1) : String(Math.round(n))) + " " + units[i];
}

export function formatSeconds(s) {
    if (s < 10) {
        return s.toFixed(2) + " s";
    }
    return s < 120 ? Math.round(s) + " s" : Math.floor(s / 60) + " min " + Math.round(s % 60) + " s";
}
