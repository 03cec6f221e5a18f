// SPDX-License-Identifier: Apache-2.0
// Keeps conversations in the browser's local storage: an index, and an entry for each conversation.
//
// A conversation is {id, title, time, messages}. A message is {role, content} and, for answers,
// {reasoning, model, note, error}: note is the line with tokens and speed below an answer.

const INDEX = "sconce.conversations";
const ENTRY = "sconce.conversation.";

function read(name, otherwise) {
    try {
        return JSON.parse(localStorage.getItem(name)) ?? otherwise;
    } catch {
        return otherwise;
    }
}

// Returns [{id, title, time}], the newest first.
export function listConversations() {
    return read(INDEX, []).sort((a, b) => b.time - a.time);
}

export function newConversation() {
    const id = Array.from(crypto.getRandomValues(new Uint8Array(12)),
        (n) => n.toString(16).padStart(2, "0")).join("");

    return {id, title: "New conversation", time: Date.now(), messages: []};
}

export function loadConversation(id) {
    return read(ENTRY + id, null);
}

function titleOf(conversation) {
    const first = conversation.messages.find((message) => message.role === "user");
    const line = first ? first.content.trim().split("\n")[0] : "";

    return line.length > 60 ? line.slice(0, 59) + "…" : line || "New conversation";
}

// Saves a conversation. Throws if the browser's storage is full.
export function saveConversation(conversation) {
    const {id} = conversation;
    const time = Date.now();
    const title = titleOf(conversation);

    Object.assign(conversation, {time, title});
    localStorage.setItem(ENTRY + id, JSON.stringify(conversation));
    localStorage.setItem(INDEX, JSON.stringify(
        [{id, title, time}, ...read(INDEX, []).filter((other) => other.id !== id)]));
}

export function deleteConversation(id) {
    localStorage.removeItem(ENTRY + id);
    localStorage.setItem(INDEX, JSON.stringify(read(INDEX, []).filter((other) => other.id !== id)));
}

export function deleteAllConversations() {
    for (const name of Object.keys(localStorage)) {
        if (name.startsWith(ENTRY)) {
            localStorage.removeItem(name);
        }
    }
    localStorage.removeItem(INDEX);
}

// Calls @changed when another tab has changed the list.
export function watchConversations(changed) {
    window.addEventListener("storage", (event) => event.key === INDEX && changed());
}
