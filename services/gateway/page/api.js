// SPDX-License-Identifier: Apache-2.0
// Sends requests to the gateway, from which this page came, and reads streams.

const KEY = "sconce.key";
const CUT = "The connection ended before the answer was complete.";

export class ApiError extends Error {
    constructor(status, code, message) {
        super(message);
        this.status = status;
        this.code = code;
    }
}

let askForKey = async () => false;

// Sets the function that asks the user for a key. The function gets a reason, and returns whether
// the user gave a new key.
export function setKeyAsker(ask) {
    askForKey = ask;
}

export const getKey = () => sessionStorage.getItem(KEY);

export function setKey(key) {
    if (key) {
        sessionStorage.setItem(KEY, key);
    } else {
        sessionStorage.removeItem(KEY);
    }
}

// Returns the error of an answer. The body may have the format of OpenAI, that of Ollama, or another
// one if it comes from a proxy.
async function readError(response) {
    const text = await response.text().catch(() => "");

    try {
        const {error} = JSON.parse(text);

        return typeof error === "string"
            ? new ApiError(response.status, "", error)
            : new ApiError(response.status, error.code, error.message);
    } catch {
        return new ApiError(response.status, "", "The gateway answered with status " + response.status + ".");
    }
}

// Sends a request and returns its answer, whose status is 200. An object as body is sent as JSON.
// If the gateway wants a key, the user is asked for it and the request is sent again.
export async function request(path, {method = "GET", body, headers = {}, signal, quiet = false} = {}) {
    for (;;) {
        const key = getKey();
        const all = {...headers};
        let response;

        if (key) {
            all.Authorization = "Bearer " + key;
        }
        if (body && !(body instanceof FormData)) {
            all["Content-Type"] = "application/json";
        }
        try {
            response = await fetch(path, {
                method,
                headers: all,
                body: body && !(body instanceof FormData) ? JSON.stringify(body) : body,
                signal,
                cache: "no-store",
                credentials: "omit",
                redirect: "error",
            });
        } catch (error) {
            if (error.name === "AbortError") {
                throw error;
            }
            throw new ApiError(0, "", "The gateway cannot be reached: " + error.message + ".");
        }
        if (response.ok) {
            return response;
        }
        const error = await readError(response);

        if (response.status !== 401 || quiet || getKey() === key && !await askForKey(error.message)) {
            throw error;
        }
    }
}

export async function getJson(path, options) {
    return (await request(path, options)).json();
}

// Yields the lines of a stream.
async function* readLines(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";

    for (;;) {
        const {value, done} = await reader.read().catch((error) => {
            throw error.name === "AbortError" ? error : new ApiError(0, "", CUT);
        });
        const lines = (rest + (value || "")).split("\n");

        rest = done ? "" : lines.pop();
        for (const line of lines) {
            yield line.endsWith("\r") ? line.slice(0, -1) : line;
        }
        if (done) {
            return;
        }
    }
}

// Yields the objects of a stream of server-sent events up to [DONE]. An event that is an error is
// thrown.
export async function* readEvents(response) {
    for await (const line of readLines(response)) {
        if (!line.startsWith("data:")) {
            continue;
        }
        const data = line.slice(5).trim();

        if (data === "[DONE]") {
            return;
        }
        const event = JSON.parse(data);

        if (event.error) {
            throw new ApiError(500, event.error.code, event.error.message || String(event.error));
        }
        yield event;
    }
    throw new ApiError(0, "", CUT);
}

// Yields the objects of a stream with one JSON text in each line, as Ollama sends it.
export async function* readObjects(response) {
    for await (const line of readLines(response)) {
        if (!line.trim()) {
            continue;
        }
        const object = JSON.parse(line);

        if (object.error) {
            throw new ApiError(500, "", object.error.message || String(object.error));
        }
        yield object;
    }
}
