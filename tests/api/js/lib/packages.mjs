// SPDX-License-Identifier: Apache-2.0
// Reads the arguments of a test, which are URL, NODE_MODULES and perhaps SOCKET, and loads packages.
import { createRequire } from "node:module";
import path from "node:path";

export const [url, modules, socket] = process.argv.slice(2);
const resolve = createRequire(path.join(path.resolve(modules), "x.js")).resolve;

// Loads a package. If it is missing, the test ends, and counts as skipped.
export async function load(name) {
  try {
    return await import(resolve(name));
  } catch {
    console.log(`the package ${name} is not there`);
    process.exit(77);
  }
}
