// SPDX-License-Identifier: Apache-2.0
// Tests the clients of OpenAI and Anthropic. usage: node clients.mjs URL NODE_MODULES
import assert from "node:assert";
import { load, url } from "./lib/packages.mjs";

const { default: OpenAI } = await load("openai");
const { default: Anthropic } = await load("@anthropic-ai/sdk");
const messages = [{ role: "user", content: "Once upon a time" }];
const parameters = {
  type: "object", additionalProperties: false, required: ["city"],
  properties: { city: { type: "string", enum: ["Oslo", "Rome"] } },
};
const cities = parameters.properties.city.enum;

const openai = new OpenAI({ baseURL: url + "/v1", apiKey: "x", maxRetries: 0 });
const chat = { model: "tiny", messages, max_tokens: 200 };
const runs = [];
const runner = openai.chat.completions.runTools({
  ...chat, tool_choice: { type: "function", function: { name: "trip" } },
  tools: [{
    type: "function",
    function: { name: "trip", parameters, parse: JSON.parse, function: (a) => runs.push(a.city) },
  }],
}, { maxChatCompletions: 1 });
await runner.done();
assert(cities.includes(runs[0]));
const stream = openai.chat.completions.stream({
  ...chat, tool_choice: "required", parallel_tool_calls: false,
  tools: [{ type: "function", function: { name: "trip", parameters } }],
});
const call = (await stream.finalChatCompletion()).choices[0].message.tool_calls[0];
assert(cities.includes(JSON.parse(call.function.arguments).city));
const response = await openai.responses.parse({
  model: "tiny", input: "Once", max_output_tokens: 200,
  text: { format: { type: "json_schema", name: "trip", schema: parameters, strict: true } },
});
assert(cities.includes(JSON.parse(response.output_text).city));

const anthropic = new Anthropic({ baseURL: url, apiKey: "x", maxRetries: 0 });
const tools = [{ name: "trip", input_schema: parameters }];
const made = await anthropic.messages.stream({
  ...chat, tools, tool_choice: { type: "tool", name: "trip" },
}).finalMessage();
assert(made.stop_reason === "tool_use" && cities.includes(made.content.at(-1).input.city));
const counted = await anthropic.messages.countTokens({ model: "tiny", messages, tools });
assert(counted.input_tokens === made.usage.input_tokens + made.usage.cache_read_input_tokens);
