// SPDX-License-Identifier: Apache-2.0
// The model, the system prompt and the settings of sampling, kept in the browser's local storage.

import {find, make} from "./dom.js";

const NAME = "sconce.settings";

// The settings that are numbers: their field in a request, label, range and step.
const NUMBERS = [
    ["temperature", "Temperature", 0, 2, 0.05],
    ["top_p", "Top P", 0, 1, 0.01],
    ["top_k", "Top K", 0, 1000, 1],
    ["min_p", "Min P", 0, 1, 0.01],
    ["repetition_penalty", "Repetition penalty", 0.01, 10, 0.01],
    ["max_tokens", "Tokens of an answer", 1, 1000000, 1],
    ["seed", "Seed", 0, 4294967294, 1],
];
const THINKING = [["", "As the model does"], ["none", "Off"], ["low", "Low"], ["medium", "Medium"], ["high", "High"]];

function load() {
    try {
        return JSON.parse(localStorage.getItem(NAME)) || {};
    } catch {
        return {};
    }
}

const settings = load();

function set(name, value) {
    if (value === "" || Number.isNaN(value)) {
        delete settings[name];
    } else {
        settings[name] = value;
    }
    localStorage.setItem(NAME, JSON.stringify(settings));
}

// Returns the settings as fields of a request. Settings that were left empty are absent, so the
// defaults of the model or of the gateway apply.
export function requestFields() {
    const fields = {};

    for (const [name] of NUMBERS) {
        if (typeof settings[name] === "number") {
            fields[name] = settings[name];
        }
    }
    if (settings.reasoning_effort) {
        fields.reasoning_effort = settings.reasoning_effort;
    }
    return fields;
}

export const systemPrompt = () => settings.system || "";
export const chosenModel = () => find("model").value;

function numberField([name, label, min, max, step]) {
    const field = make("input", {type: "number", id: "set-" + name, name, min, max, step, inputmode: "decimal",
        placeholder: "default", value: settings[name],
        change: () => field.reportValidity() && set(name, field.value === "" ? "" : field.valueAsNumber)});

    return make("label", {}, label, field);
}

function thinkingField() {
    const field = make("select", {id: "set-reasoning_effort", change: () => set("reasoning_effort", field.value)},
        ...THINKING.map(([value, label]) => make("option",
            {value, selected: (settings.reasoning_effort || "") === value}, label)));

    return make("label", {}, "Reasoning", field);
}

// Builds the form, and shows it when its button is pressed.
export function initSettings() {
    const form = find("settings");
    const toggle = find("settings-button");
    const system = make("textarea", {id: "set-system", rows: 3, placeholder: "none",
        change: () => set("system", system.value.trim() ? system.value : "")});

    system.value = settings.system || "";
    form.append(make("label", {class: "full"}, "System prompt", system), ...NUMBERS.map(numberField), thinkingField(),
        make("div", {class: "buttons"}, make("button", {type: "reset", class: "quiet"}, "Back to the defaults")));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", (event) => {
        event.preventDefault();
        for (const field of form.querySelectorAll("input, select, textarea")) {
            field.value = "";
            set(field.id.replace("set-", ""), "");
        }
    });
    toggle.addEventListener("click", () => {
        form.hidden = !form.hidden;
        toggle.setAttribute("aria-expanded", String(!form.hidden));
        if (!form.hidden) {
            system.focus();
        }
    });
    find("model").addEventListener("change", () => set("model", chosenModel()));
}

// Fills the menu with the models for chats. The chosen model stays chosen; at first it is @usual.
export function showModels(models, usual) {
    const chat = models.filter((model) => model.task === "chat");
    const wanted = [chosenModel(), settings.model, usual].find((id) => chat.some((model) => model.id === id));

    find("model").replaceChildren(...chat.map((model) => make("option",
        {value: model.id, selected: model.id === wanted}, model.id)));
    if (!chat.length) {
        find("model").append(make("option", {value: ""}, "No model for chats is installed"));
    }
}
