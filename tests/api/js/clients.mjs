// SPDX-License-Identifier: Apache-2.0
// Tests the clients of OpenAI and Anthropic. usage: node clients.mjs URL NODE_MODULES [SOCKET]
import assert from "node:assert";
import { load, socket, url } from "./lib/packages.mjs";

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

const { betaTool } = await load("@anthropic-ai/sdk/helpers/beta/json-schema");
const trips = [];
const loop = anthropic.beta.messages.toolRunner({
  ...chat, max_iterations: 2, tool_choice: { type: "any", disable_parallel_tool_use: true },
  tools: [betaTool({
    name: "trip", description: "Books a trip", inputSchema: parameters,
    run: (input) => trips.push(input.city) && "booked",
  })],
});
for await (const message of loop) assert(message.stop_reason === "tool_use");
assert(trips.length === 2 && trips.every((city) => cities.includes(city)));
const schema = {
  type: "object", required: ["days"], properties: { days: { type: "integer", minimum: 1, maximum: 7 } },
};
const { jsonSchemaOutputFormat } = await load("@anthropic-ai/sdk/helpers/json-schema");
const { days } = (await anthropic.messages.parse({
  ...chat, output_config: { format: jsonSchemaOutputFormat(schema) },
})).parsed_output;
assert(Number.isInteger(days) && days >= 1 && days <= 7);

if (socket) {
  const { Agent } = await load("undici");
  const fetchOptions = { dispatcher: new Agent({ connect: { socketPath: socket } }) };
  const local = { apiKey: "x", maxRetries: 0, fetchOptions };
  const one = new OpenAI({ baseURL: "http://localhost/v1", ...local });
  let text = "";
  for await (const chunk of await one.chat.completions.create({ ...chat, max_tokens: 5, stream: true }))
    text += chunk.choices[0]?.delta?.content ?? "";
  assert(text);
  const two = new Anthropic({ baseURL: "http://localhost", ...local });
  assert((await two.messages.stream({ ...chat, max_tokens: 5 }).finalText()).length);
}
