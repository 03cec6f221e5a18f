// SPDX-License-Identifier: Apache-2.0
// Starts the page: its tabs, theme and key, and the list of models that its parts share.

import {getJson, getKey, setKey, setKeyAsker} from "./api.js";
import {initChat} from "./chat.js";
import {initDictation, showDictation} from "./dictation.js";
import {find, notice} from "./dom.js";
import {initMachine, openMachine, setInstalled} from "./machine.js";
import {initSettings, showModels} from "./settings.js";
import {initVectors, showVectorModels} from "./vectors.js";

const TABS = ["chat", "vectors", "machine"];
const THEMES = {system: "Theme: system", light: "Theme: light", dark: "Theme: dark"};

// --- tabs ---

function openTab(name) {
    for (const other of TABS) {
        const tab = find("tab-" + other);

        tab.setAttribute("aria-selected", String(other === name));
        tab.tabIndex = other === name ? 0 : -1;
        find("view-" + other).hidden = other !== name;
    }
    notice();
    if (name === "machine") {
        openMachine();
        loadModels();
    }
}

function moveTab(event) {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    const at = TABS.findIndex((name) => find("tab-" + name) === event.target);

    if (step && at >= 0) {
        const name = TABS[(at + step + TABS.length) % TABS.length];

        openTab(name);
        find("tab-" + name).focus();
    }
}

// --- the theme ---

function showTheme() {
    find("theme-button").textContent = THEMES[document.documentElement.dataset.theme];
}

function nextTheme() {
    const names = Object.keys(THEMES);
    const next = names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length];

    document.documentElement.dataset.theme = next;
    localStorage.setItem("sconce.theme", next);
    showTheme();
}

// --- the key ---

function showKey() {
    find("key-button").textContent = getKey() ? "Key: set" : "Key: none";
}

let asking = null; // the promise of the open dialog; all requests that lack a key wait for it

// Asks for a key; the result says whether there is a new one.
function askForKey(reason) {
    const dialog = find("key-dialog");

    if (!asking) {
        const before = getKey();

        find("key-reason").textContent = reason;
        find("key").value = "";
        find("key-forget").hidden = !before;
        dialog.returnValue = "";
        dialog.showModal();
        asking = new Promise((resolve) => {
            dialog.addEventListener("close", () => {
                asking = null;
                showKey();
                resolve(dialog.returnValue === "use");
            }, {once: true});
        });
    }
    return asking;
}

function initKey() {
    const dialog = find("key-dialog");

    setKeyAsker(askForKey);
    find("key-button").addEventListener("click", async () => {
        await askForKey("Enter the key of this gateway. Over a unix socket or an open port you need none.");
        loadModels();
    });
    find("key-form").addEventListener("submit", (event) => {
        event.preventDefault();
        if (find("key").value.trim()) {
            setKey(find("key").value.trim());
            dialog.close("use");
        }
    });
    find("key-cancel").addEventListener("click", () => dialog.close());
    find("key-forget").addEventListener("click", () => {
        setKey("");
        dialog.close();
    });
    showKey();
}

// --- models ---

async function loadModels() {
    try {
        const {data} = await getJson("v1/models");
        // The properties are those of the default model, if there is one.
        const {model_alias: usual} = await getJson("props").catch(() => ({}));

        showModels(data, usual);
        for (const show of [showDictation, showVectorModels, setInstalled]) {
            show(data);
        }
        notice();
    } catch (error) {
        notice(error.message);
    }
}

for (const name of TABS) {
    find("tab-" + name).addEventListener("click", () => openTab(name));
    find("tab-" + name).addEventListener("keydown", moveTab);
}
find("theme-button").addEventListener("click", nextTheme);
showTheme();
initKey();
initSettings();
initChat();
initDictation();
initVectors();
initMachine(loadModels);
loadModels();
find("prompt").focus();
