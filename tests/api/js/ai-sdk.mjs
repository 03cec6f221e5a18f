// SPDX-License-Identifier: Apache-2.0
// Tests Vercel's AI SDK. usage: node ai-sdk.mjs URL NODE_MODULES
import assert from "node:assert";
import { load, url } from "./lib/packages.mjs";

const ai = await load("ai");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { z } = await load("zod");
const sconce = createOpenAICompatible({
  name: "sconce", baseURL: url + "/v1", includeUsage: true, supportsStructuredOutputs: true,
});
const trip = z.strictObject({ city: z.enum(["Oslo", "Rome"]), guided: z.boolean() });
const ask = { model: sconce("tiny"), prompt: "Once", maxOutputTokens: 200, maxRetries: 0 };

const short = await ai.generateText({ ...ask, maxOutputTokens: 5 });
assert(short.text && short.usage.outputTokens === 5 && short.finishReason === "length");
const stream = ai.streamText({ ...ask, maxOutputTokens: 5 });
let text = "";
for await (const part of stream.textStream) text += part;
assert(text && (await stream.usage).outputTokens === 5);

const runs = [];
const tools = {
  trip: ai.tool({
    description: "Books a trip", inputSchema: trip,
    execute: async (input) => runs.push(trip.parse(input)),
  }),
};
const toolChoice = { type: "tool", toolName: "trip" };
await ai.generateText({ ...ask, tools, toolChoice, stopWhen: ai.stepCountIs(2) });
assert(runs.length === 2);
const calls = ai.streamText({ ...ask, tools, toolChoice });
for await (const part of calls.fullStream) assert(part.type !== "error", part.error);
assert((await calls.toolResults).length === 1);

trip.parse((await ai.generateObject({ ...ask, schema: trip })).object);
const objects = ai.streamObject({ ...ask, schema: trip });
for await (const _ of objects.partialObjectStream);
trip.parse(await objects.object);
