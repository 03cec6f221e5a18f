// SPDX-License-Identifier: Apache-2.0
// Shows the messages of a conversation.

import {button, find, formatSeconds, make} from "./dom.js";
import {showMarkdown} from "./markdown.js";

const NEAR = 80; // pixels from the end within which the list follows a growing answer

function reasoningElement(message, isRunning) {
    const body = make("div", {class: "reasoning-text"});
    const fold = make("details", {class: "reasoning"},
        make("summary", {}, isRunning ? "Reasoning…" : "Reasoning"), body);

    showMarkdown(body, message.reasoning);
    return fold;
}

// Returns the line below an answer from its usage, the timings of the service, and the seconds that
// the browser measured to the first token and to the end.
export function noteOf(usage, timings, first, all) {
    const parts = [];

    if (usage) {
        const cached = usage.prompt_tokens_details ? usage.prompt_tokens_details.cached_tokens : 0;
        const speed = timings && timings.predicted_per_second ||
            (all > first ? (usage.completion_tokens - 1) / (all - first) : 0);

        parts.push(usage.completion_tokens + (usage.completion_tokens === 1 ? " token" : " tokens"));
        if (speed > 0) {
            parts.push(speed.toFixed(speed < 100 ? 1 : 0) + " tokens/s");
        }
        parts.push(cached + " of " + usage.prompt_tokens + " prompt tokens from the cache");
    }
    if (first) {
        parts.push("first token after " + formatSeconds(first));
    }
    return parts.join(" · ");
}

// Class MessageView is one message on the page. @actions has edit(), retry() and, for the message
// that is being edited, save(text) and cancel().
export class MessageView {
    constructor(message, actions) {
        this.message = message;
        this.actions = actions;
        this.text = make("div", {class: "text"});
        this.extra = make("div", {class: "extra"});
        this.foot = make("div", {class: "message-foot"});
        this.element = make("article", {class: "message " + message.role,
            "aria-label": message.role === "user" ? "You" : message.model || "Answer"},
        make("h2", {class: "who"}, message.role === "user" ? "You" : message.model || "Answer"),
        this.extra, this.text, this.foot);
        this.show(false);
    }

    show(isRunning) {
        const {message} = this;

        this.element.classList.toggle("running", isRunning);
        this.element.setAttribute("aria-busy", String(isRunning));
        this.showReasoning(isRunning);
        if (message.role === "user") {
            this.text.textContent = message.content;
        } else {
            showMarkdown(this.text, message.content);
        }
        this.showFoot(isRunning);
    }

    // The fold keeps its state while its text grows.
    showReasoning(isRunning) {
        const {message} = this;
        const fold = this.extra.querySelector("details");

        if (!message.reasoning) {
            this.extra.replaceChildren();
        } else if (!fold) {
            this.extra.replaceChildren(reasoningElement(message, isRunning));
        } else {
            fold.firstChild.textContent = isRunning && !message.content ? "Reasoning…" : "Reasoning";
            showMarkdown(fold.lastChild, message.reasoning);
        }
    }

    showFoot(isRunning) {
        const {message, actions} = this;
        const buttons = isRunning ? [] : [message.role === "user"
            ? button("Edit", actions.edit, {class: "quiet small"})
            : button("Retry", actions.retry, {class: "quiet small"})];

        if (!isRunning && message.content && navigator.clipboard) {
            buttons.push(button("Copy", () => navigator.clipboard.writeText(message.content), {class: "quiet small"}));
        }
        this.foot.replaceChildren(
            message.error ? make("p", {class: "error", role: "alert"}, message.error) : "",
            message.note ? make("span", {class: "note"}, message.note) : "",
            ...buttons);
    }

    edit() {
        const area = make("textarea", {rows: Math.min(this.message.content.split("\n").length + 1, 12),
            "aria-label": "Your message"});
        const save = () => area.value.trim() && this.actions.save(area.value);

        area.value = this.message.content;
        area.addEventListener("keydown", (event) => {
            if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
                event.preventDefault();
                save();
            } else if (event.key === "Escape") {
                event.stopPropagation();
                this.show(false);
            }
        });
        this.text.replaceChildren(area);
        this.foot.replaceChildren(button("Send", save, {class: "strong small"}),
            button("Cancel", () => this.show(false), {class: "small"}));
        area.focus();
    }
}

// Calls @change, and keeps the end of the list in view if it was in view before.
export function keepEnd(change) {
    const list = find("messages");
    const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < NEAR;

    change();
    if (isAtEnd) {
        list.scrollTop = list.scrollHeight;
    }
}
