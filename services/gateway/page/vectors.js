// SPDX-License-Identifier: Apache-2.0
// Compares texts by the cosines of their vectors.

import {getJson} from "./api.js";
import {announce, button, find, formatSeconds, make, notice} from "./dom.js";

const EXAMPLES = ["How do I bake bread?", "A recipe for a loaf with yeast", "The train leaves at noon"];
const STEPS = 10; // shades of the table

let texts, choice, result;

function cosine(a, b) {
    let dot = 0, aa = 0, bb = 0;

    for (let i = 0; i < a.length; i++) {
        dot += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    return aa && bb ? dot / Math.sqrt(aa * bb) : 0;
}

function addText(text) {
    const area = make("textarea", {rows: 2, "aria-label": "Text " + (texts.childElementCount + 1)});
    const row = make("div", {class: "row"}, area, button("×", () => {
        row.remove();
        [...texts.querySelectorAll("textarea")].forEach((other, i) =>
            other.setAttribute("aria-label", "Text " + (i + 1)));
    }, {class: "quiet", "aria-label": "Remove this text"}));

    area.value = text;
    texts.append(row);
    return area;
}

function showTable(inputs, vectors) {
    const label = (i) => (i + 1) + ": " + (inputs[i].length > 24 ? inputs[i].slice(0, 23) + "…" : inputs[i]);
    const cell = (a, b) => {
        const value = cosine(vectors[a], vectors[b]);
        const step = Math.max(0, Math.min(STEPS, Math.round(value * STEPS)));

        return make("td", {class: "heat heat-" + step}, value.toFixed(3));
    };
    const rows = inputs.map((_, a) => make("tr", {}, make("th", {scope: "row"}, label(a)),
        ...inputs.map((__, b) => cell(a, b))));

    return make("div", {class: "wide-table", tabindex: 0}, make("table", {},
        make("caption", {}, "Cosines: 1 means the same direction, 0 no similarity"),
        make("thead", {}, make("tr", {}, make("td"),
            ...inputs.map((_, i) => make("th", {scope: "col"}, String(i + 1))))),
        make("tbody", {}, ...rows)));
}

async function compare() {
    const inputs = [...texts.querySelectorAll("textarea")].map((area) => area.value).filter((t) => t.trim());
    const began = performance.now();

    notice();
    if (inputs.length < 2) {
        notice("Write at least two texts.");
        return;
    }
    try {
        const answer = await getJson("v1/embeddings",
            {method: "POST", body: {model: choice.value, input: inputs}});
        const vectors = answer.data.map((item) => item.embedding);

        result.replaceChildren(showTable(inputs, vectors), make("p", {class: "note"},
            [vectors[0].length + " numbers in a vector", answer.usage.prompt_tokens + " tokens",
                formatSeconds((performance.now() - began) / 1000)].join(" · ")));
        announce("The similarities are in the table.");
    } catch (error) {
        notice(error.message);
    }
}

export function initVectors() {
    texts = make("div", {class: "rows"});
    choice = make("select", {id: "vector-model"});
    result = make("div", {id: "vector-result"});
    EXAMPLES.forEach(addText);
    find("view-vectors").append(
        make("h2", {}, "How alike are these texts?"),
        make("p", {class: "small"}, "The model turns each text into a vector. Texts with similar meanings have vectors "
            + "of similar directions."),
        make("form", {submit: (event) => {
            event.preventDefault();
            compare();
        }}, make("label", {class: "model"}, "Model ", choice), texts,
        make("div", {class: "buttons"}, button("Add a text", () => addText("").focus(), {id: "add-text"}),
            make("button", {class: "strong", id: "compare"}, "Compare"))),
        result);
}

export function showVectorModels(models) {
    const fit = models.filter((model) => model.task === "embedding");

    choice.replaceChildren(...fit.map((model) => make("option", {value: model.id}, model.id)));
    find("compare").disabled = !fit.length;
    if (!fit.length) {
        choice.append(make("option", {value: ""}, "No model for vectors is installed"));
    }
}
