// SPDX-License-Identifier: Apache-2.0
// Dictation: records the microphone, and puts the text that the audio service hears into the
// message.

import {getJson} from "./api.js";
import {fitPrompt} from "./chat.js";
import {announce, find, notice} from "./dom.js";

let model = "";
let recorder = null;

function showState(text, isRecording) {
    find("dictate").textContent = text;
    find("dictate").setAttribute("aria-pressed", String(isRecording));
}

// Puts @text at the cursor.
function insert(text) {
    const prompt = find("prompt");
    const before = prompt.value.slice(0, prompt.selectionStart);
    const space = before && !/\s$/.test(before) ? " " : "";

    prompt.setRangeText(space + text, prompt.selectionStart, prompt.selectionEnd, "end");
    fitPrompt();
    prompt.focus();
}

async function transcribe(pieces, type) {
    const form = new FormData();

    form.append("model", model);
    form.append("file", new Blob(pieces, {type}), "dictation");
    showState("Listening to it…", false);
    try {
        const {text} = await getJson("v1/audio/transcriptions", {method: "POST", body: form});

        insert(text.trim());
        announce("Dictated: " + text);
    } catch (error) {
        notice("Dictation: " + error.message);
    }
    showState("Dictate", false);
}

async function toggle() {
    const pieces = [];

    if (recorder) {
        recorder.stop();
        return;
    }
    try {
        const stream = await navigator.mediaDevices.getUserMedia({audio: true});

        recorder = new MediaRecorder(stream);
        recorder.addEventListener("dataavailable", (event) => pieces.push(event.data));
        recorder.addEventListener("stop", () => {
            const {mimeType} = recorder;

            stream.getTracks().forEach((track) => track.stop());
            recorder = null;
            transcribe(pieces, mimeType);
        });
        recorder.start();
        showState("End dictation", true);
    } catch (error) {
        recorder = null;
        notice("The microphone cannot be used: " + error.message);
    }
}

export function initDictation() {
    find("dictate").addEventListener("click", toggle);
}

// Shows the button if there is a model for speech and the browser can record. Browsers record only
// on pages from this machine or over HTTPS.
export function showDictation(models) {
    const speech = models.find((other) => other.task === "speech");

    model = speech ? speech.id : "";
    find("dictate").hidden = !model || !navigator.mediaDevices || !window.MediaRecorder;
}
