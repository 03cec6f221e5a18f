// SPDX-License-Identifier: Apache-2.0
// The chat: sends the conversation to /v1/chat/completions, and shows the stream of the answer.

import {readEvents, request} from "./api.js";
import {deleteAllConversations, deleteConversation, listConversations, loadConversation, newConversation,
    saveConversation, watchConversations} from "./conversations.js";
import {announce, button, find, make, notice} from "./dom.js";
import {MessageView, keepEnd, noteOf} from "./messages.js";
import {chosenModel, requestFields, systemPrompt} from "./settings.js";

let conversation = newConversation();
let views = [];
let running = null; // the AbortController of the answer that is being received

function save(one) {
    try {
        saveConversation(one);
    } catch {
        notice("The browser's storage is full: this conversation is not kept. Delete old conversations.");
    }
    showList();
}

// --- the list of conversations ---

function showList() {
    const items = listConversations().map(({id, title}) => make("li", {},
        button(title, () => open(id), {class: "open", "aria-current": id === conversation.id && "true"}),
        button("×", () => remove(id), {class: "quiet small", "aria-label": "Delete: " + title})));

    find("conversations").replaceChildren(...items);
    find("clear").hidden = !items.length;
}

function openList(isOpen) {
    find("list").classList.toggle("open", isOpen);
    find("list-button").setAttribute("aria-expanded", String(isOpen));
}

function show(other) {
    stop();
    conversation = other;
    showMessages();
    showList();
    openList(false);
    find("prompt").focus();
}

function open(id) {
    show(loadConversation(id) || newConversation());
}

function remove(id) {
    deleteConversation(id);
    if (id === conversation.id) {
        show(newConversation());
    }
    showList();
}

function removeAll() {
    if (window.confirm("Delete all conversations of this browser?")) {
        deleteAllConversations();
        show(newConversation());
    }
}

// --- messages ---

function addView(message) {
    const at = views.length;
    const view = new MessageView(message, {
        edit: () => !running && view.edit(),
        save: (text) => send(text, at),
        retry: () => !running && answer(at),
    });

    views.push(view);
    find("messages").append(view.element);
    return view;
}

function showMessages() {
    views = [];
    find("messages").replaceChildren();
    if (!conversation.messages.length) {
        find("messages").append(make("div", {class: "empty"}, make("p", {class: "big"}, "What can I do for you?"),
            make("p", {}, "The answers come from the machine of this gateway, and from no other.")));
    }
    conversation.messages.forEach(addView);
    find("messages").scrollTop = find("messages").scrollHeight;
}

// Drops the messages from number @n on. The others keep their state, for example whether their
// reasoning is shown.
function cut(n) {
    conversation.messages.length = n;
    views.splice(n).forEach((view) => view.element.remove());
    if (!n) {
        find("messages").replaceChildren();
    }
}

function showRunning(isRunning) {
    find("stop").hidden = !isRunning;
    find("send").hidden = isRunning;
}

function stop() {
    if (running) {
        running.abort();
    }
}

function requestBody() {
    const before = conversation.messages.filter((message) => message.content)
        .map(({role, content}) => ({role, content}));

    if (systemPrompt()) {
        before.unshift({role: "system", content: systemPrompt()});
    }
    return {model: chosenModel(), messages: before, stream: true, stream_options: {include_usage: true},
        timings_per_token: true, ...requestFields()};
}

// Adds the events of a stream to @message and calls @changed after each of them. Returns the usage,
// the timings, and the seconds to the first token.
async function receive(response, message, began, changed) {
    const seen = {usage: null, timings: null, first: 0};

    for await (const event of readEvents(response)) {
        const choice = event.choices && event.choices[0];
        const delta = choice && choice.delta || {};

        if (delta.content || delta.reasoning_content) {
            seen.first = seen.first || (performance.now() - began) / 1000;
            message.content += delta.content || "";
            message.reasoning = (message.reasoning || "") + (delta.reasoning_content || "");
        }
        if (choice && choice.finish_reason === "length") {
            message.error = "The answer reached the limit of tokens, or the context is full.";
        }
        seen.usage = event.usage || seen.usage;
        seen.timings = event.timings || seen.timings;
        changed();
    }
    return seen;
}

// Calls @change at most once per frame of the screen.
function perFrame(change) {
    let isPlanned = false;

    return () => {
        if (!isPlanned) {
            isPlanned = true;
            requestAnimationFrame(() => {
                isPlanned = false;
                change();
            });
        }
    };
}

// Sends @body and fills @message with the answer, or with the reason why there is none.
async function fill(message, body, session, signal, changed) {
    const began = performance.now();

    try {
        const response = await request("v1/chat/completions",
            {method: "POST", body, signal, headers: {"X-Session-Id": "page-" + session}});
        const seen = await receive(response, message, began, changed);

        message.note = noteOf(seen.usage, seen.timings, seen.first, (performance.now() - began) / 1000);
    } catch (error) {
        if (error.name === "AbortError") {
            message.note = "Stopped.";
        } else {
            message.error = error.message;
        }
    }
}

// Requests an answer that becomes message number @at.
async function answer(at) {
    const message = {role: "assistant", content: "", model: chosenModel()};
    const own = new AbortController();
    const mine = conversation;

    cut(at);
    const body = requestBody();

    mine.messages.push(message);
    const view = addView(message);

    running = own;
    showRunning(true);
    view.show(true);
    find("messages").scrollTop = find("messages").scrollHeight;
    announce("The model is answering.");
    notice();
    await fill(message, body, mine.id, own.signal,
        perFrame(() => running === own && keepEnd(() => view.show(true))));
    running = running === own ? null : running;
    showRunning(running !== null);
    if (mine === conversation) {
        keepEnd(() => view.show(false));
        announce(message.error || "The answer: " + message.content);
    }
    // A conversation that was deleted meanwhile stays deleted.
    if (mine === conversation || loadConversation(mine.id)) {
        save(mine);
    }
}

// Sends @text as message number @at, in place of the messages from there on.
function send(text, at) {
    if (running) {
        return;
    }
    cut(at);
    conversation.messages.push({role: "user", content: text});
    addView(conversation.messages[at]);
    save(conversation);
    answer(at + 1);
}

function submit() {
    const prompt = find("prompt");

    if (!prompt.value.trim() || running) {
        return;
    }
    const text = prompt.value;

    prompt.value = "";
    fitPrompt();
    send(text, conversation.messages.length);
}

// Makes the field as high as its text, within the limit of the style sheet.
export function fitPrompt() {
    const prompt = find("prompt");

    prompt.style.height = "auto";
    prompt.style.height = prompt.scrollHeight + 2 + "px";
}

export function initChat() {
    find("composer").addEventListener("submit", (event) => {
        event.preventDefault();
        submit();
    });
    find("prompt").addEventListener("keydown", (event) => {
        if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            submit();
        }
    });
    find("prompt").addEventListener("input", fitPrompt);
    find("view-chat").addEventListener("keydown", (event) => event.key === "Escape" && stop());
    find("stop").addEventListener("click", () => {
        stop();
        find("prompt").focus();
    });
    find("new").addEventListener("click", () => show(newConversation()));
    find("clear").addEventListener("click", removeAll);
    find("list-button").addEventListener("click", () => openList(!find("list").classList.contains("open")));
    watchConversations(showList);
    showMessages();
    showList();
}
