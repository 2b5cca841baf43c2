// Asks Perfetto's trace processor: {folder, traces, queries} on stdin, rows on stdout.
//
// The processor is a web worker that speaks Protocol Buffers through a port. Here it gets the few
// things of a worker's surroundings that it asks for; engine.mjs has the protocol.

import { readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const { folder, traces, queries } = JSON.parse(readFileSync(0, "utf8"));
const wasm = readFileSync(join(folder, "trace_processor.wasm"));
console.log = console.warn = console.error; // stdout is for rows

globalThis.self = globalThis;
globalThis.WorkerGlobalScope = class {};
globalThis.location = { href: `${pathToFileURL(folder).href}/` };
globalThis.XMLHttpRequest = class {
  response = wasm; // the one file that is asked for
  open() {}
  send() {}
};
vm.runInThisContext(readFileSync(join(folder, "engine_bundle.node.js"), "utf8"));
const { EngineBase } = await import(pathToFileURL(join(folder, "engine.mjs")));

class Engine extends EngineBase {
  mode = "WASM";
  id = "tests";

  constructor(port) {
    super();
    this.port = port;
    port.onmessage = (message) => this.onRpcResponseBytes(message.data);
  }

  rpcSendRequestBytes(bytes) {
    this.port.postMessage(bytes);
  }
}

function rowsOf(result) {
  const rows = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    const cells = result.columns().map((column) => [column, row.get(column)]);
    rows.push(Object.fromEntries(cells));
  }
  return rows;
}

const { port1, port2 } = new MessageChannel();
await new Promise((resolve) => setTimeout(resolve)); // its own start ends first
self.onmessage({ data: port1 });
const engine = new Engine(port2);
const answers = [];
for (const trace of traces) {
  await engine.resetTraceProcessor({});
  await engine.parse(new Uint8Array(readFileSync(trace)));
  await engine.notifyEof();
  const rows = [];
  for (const query of queries) rows.push(rowsOf(await engine.query(query)));
  answers.push(rows);
}
port1.close();
const integer = (_, value) => (typeof value === "bigint" ? Number(value) : value);
writeSync(1, JSON.stringify(answers, integer));
