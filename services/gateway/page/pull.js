// SPDX-License-Identifier: Apache-2.0
// Fetches a model with POST /api/pull, whose stream reports the progress as Ollama's does.

import {readObjects, request} from "./api.js";
import {announce, button, formatBytes, make} from "./dom.js";

let form, name, progress, text, running = null;

function showProgress(event) {
    const isKnown = event.total > 0;

    text.textContent = event.status + (isKnown
        ? ": " + formatBytes(event.completed || 0) + " of " + formatBytes(event.total) : "");
    progress.hidden = false;
    if (isKnown) {
        progress.max = event.total;
        progress.value = event.completed || 0;
    } else {
        progress.removeAttribute("value");
    }
}

function explain(error) {
    switch (error.status) {
    case 403:
        return "Fetching models needs a key with the right to manage.";
    case 404:
    case 405:
    case 501:
        return "This gateway fetches no models for clients. Use the command sconce pull on its machine.";
    default:
        return error.message;
    }
}

async function pull(reload) {
    const model = name.value.trim();

    if (!model || running) {
        return;
    }
    running = new AbortController();
    form.querySelector("[type=submit]").disabled = true;
    form.querySelector("#pull-stop").hidden = false;
    try {
        const response = await request("api/pull",
            {method: "POST", body: {model, stream: true}, signal: running.signal});

        for await (const event of readObjects(response)) {
            showProgress(event);
        }
        announce(model + " was fetched.");
        reload();
    } catch (error) {
        text.textContent = error.name === "AbortError" ? "Stopped." : explain(error);
        announce(text.textContent);
    }
    progress.hidden = true;
    running = null;
    form.querySelector("[type=submit]").disabled = false;
    form.querySelector("#pull-stop").hidden = true;
}

// Shows the form if this client may fetch models. To find this out, sends a request without a name:
// the gateway refuses it either because the right is missing or because the name is missing.
export async function showPull() {
    let error = null;

    try {
        await (await request("api/pull", {method: "POST", body: {}, quiet: true})).body.cancel();
    } catch (problem) {
        error = problem;
    }
    const may = !error || ![0, 401, 403, 404, 405, 501].includes(error.status);

    form.hidden = !may;
    if (!running) {
        text.textContent = may ? "" : explain(error);
    }
}

export function initPull(reload) {
    name = make("input", {id: "pull-name", placeholder: "owner/repository:quant", spellcheck: "false",
        autocomplete: "off"});
    progress = make("progress", {id: "pull-progress", "aria-label": "Progress", hidden: true});
    text = make("p", {id: "pull-text"});
    form = make("form", {id: "pull", hidden: true, submit: (event) => {
        event.preventDefault();
        pull(reload);
    }}, make("label", {}, "Name of the model ", name),
    make("div", {class: "buttons"}, make("button", {class: "strong", type: "submit"}, "Fetch"),
        button("Stop", () => running && running.abort(), {id: "pull-stop", hidden: true})));
    return make("section", {}, make("h2", {}, "Fetch a model"), form, progress, text);
}
