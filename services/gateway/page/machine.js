// SPDX-License-Identifier: Apache-2.0
// The state of the services, the installed models, and the form that fetches models.

import {getJson} from "./api.js";
import {button, find, formatBytes, make, notice} from "./dom.js";
import {initPull, showPull} from "./pull.js";

let services, models, version;

const state = (word) => make("span", {class: "state " + word.replace(/\W/g, "-")}, word);

function table(caption, heads, rows) {
    return make("div", {class: "wide-table", tabindex: 0}, make("table", {},
        make("caption", {class: "unseen"}, caption),
        make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", {scope: "col"}, head)))),
        make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell, i) =>
            make(i ? "td" : "th", i ? {} : {scope: "row"}, cell)))))));
}

// Describes the report of a service: its numbers, and its models that are in memory.
function describe(report) {
    const parts = Object.entries(report).filter(([, value]) => typeof value === "number")
        .map(([name, value]) => value + " " + name.replace(/_/g, " "));

    for (const model of report.models || []) {
        parts.push(model.id + " " + model.status);
    }
    return parts.join(", ");
}

async function showServices() {
    notice();
    services.replaceChildren(make("p", {}, "Asking the services…"));
    try {
        const health = await getJson("health?deep=1");

        services.replaceChildren(table("Services", ["Service", "State", "Report"],
            Object.entries(health.services).map(([name, report]) =>
                [name, state(report.status), describe(report)])));
    } catch (error) {
        services.replaceChildren(make("p", {class: "error", role: "alert"}, error.message));
    }
}

// Returns the row of a model. @until says when each model leaves the memory.
function modelRow(model, until) {
    const time = until.get(model.id);
    const word = time || model.status === "loaded" ? "loaded" : "not loaded";
    const date = new Date(time);
    // A time in the far future stands for "never".
    const rest = time && date - Date.now() < 7 * 86400e3 ? " until " + date.toLocaleTimeString() : "";

    return [model.id, model.task, make("span", {}, state(word), rest), formatBytes(model.size || 0),
        model.meta ? model.meta.dtype || "" : "", model.meta ? String(model.meta.n_ctx || "") : ""];
}

async function showInstalled(list) {
    const {models: loaded} = await getJson("api/ps").catch(() => ({models: []}));
    const until = new Map(loaded.map((model) => [model.name.replace(/:latest$/, ""), model.expires_at]));

    models.replaceChildren(list.length
        ? table("Models", ["Name", "Task", "State", "Size", "Format", "Context"],
            list.map((model) => modelRow(model, until)))
        : make("p", {}, "No model is installed."));
}

let installed = [];

// Takes the list of models. The list is shown only while the view is open, because asking which
// models are loaded starts services that are not running.
export function setInstalled(list) {
    installed = list;
    if (!find("view-machine").hidden) {
        showInstalled(installed);
    }
}

// Called when the view opens: shows the parts for which no right is needed. Asking the services
// starts them, so they are asked only when a button is pressed.
export async function openMachine() {
    try {
        const health = await getJson("health");

        version.textContent = "sconce " + health.version + ", gateway: " + health.status;
    } catch (error) {
        version.textContent = error.message;
    }
    showPull();
}

export function initMachine(reload) {
    services = make("div", {id: "services"});
    models = make("div", {id: "models"});
    version = make("p", {class: "small", id: "version"});
    find("view-machine").append(make("h2", {}, "Services"), version,
        make("div", {class: "buttons"},
            button("Ask the services", showServices, {id: "ask-services", title: "This starts services that are not running"})),
        services,
        make("h2", {}, "Models"), models,
        make("div", {class: "buttons"}, button("Look again", reload, {id: "reload"})),
        initPull(reload));
}
