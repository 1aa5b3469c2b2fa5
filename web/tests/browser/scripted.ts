import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { existsSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import type { ModelState, ServerState } from "../../src/api/types.ts";

const PAGE = new URL("../../../src/unladen/ui", import.meta.url).pathname;

/** As the real server sends it: a test compares them. */
export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
  "font-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; " +
  "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const TYPES: Record<string, string> = {
  ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml",
  ".woff2": "font/woff2", ".txt": "text/plain",
};

const MODEL: ModelState = {
  id: "scripted", aliases: [], ref: "scripted", state: "ready", progress: null, error: null,
  context_size: 8192, trained_context: 8192, bytes: 1e6, parameters: 1e6, arch: "llama",
  quant: "Q8_0", can: ["chat", "tools", "reasoning"],
  chat: { thinking: true, tools: true, media: [] }, options: {}, device_bytes: {}, running: 0,
  waiting: 0, expires: null, arrived: 1,
};

const STATE: ServerState = {
  version: "0", run: "r", offline: true, allow_any: false, can_manage: true, models: [MODEL],
  devices: [],
};

/** An answer of a test: deltas, and the milliseconds between two. */
export interface Script {
  deltas: readonly object[];
  every_ms?: number;
  finish?: string;
}

export interface Scripted {
  url: string;
  /** What the next requests are answered with; the last one again and again. */
  play: (...scripts: Script[]) => void;
  /** Bodies of the requests so far. */
  asked: { messages: { role: string; content: string }[] }[];
  stop: () => Promise<void>;
}

/** A server with the page's files and answers that a test decides, at the pace that it decides. */
export async function scripted(): Promise<Scripted> {
  let scripts: Script[] = [{ deltas: [{ content: "yes" }] }];
  const asked: Scripted["asked"] = [];
  const open = new Set<ServerResponse>();
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? "/", "http://x").pathname;
    if (path === "/ui/api/events") {
      open.add(response);
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.write(`id: 1\nevent: state\ndata: ${JSON.stringify(STATE)}\n\n`);
    } else if (path === "/v1/chat/completions")
      void body(request).then((text) => {
        asked.push(JSON.parse(text) as Scripted["asked"][number]);
        const script = scripts.length > 1 ? scripts.shift() : scripts[0];
        if (script) answer(script, response);
      });
    else file(path, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (typeof address !== "object" || !address) throw new Error("no port");
  return {
    url: `http://127.0.0.1:${address.port}`,
    play: (...given) => {
      scripts = given;
    },
    asked,
    stop: () => {
      for (const response of open) response.end();
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

async function body(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const part of request) text += String(part);
  return text;
}

function file(path: string, response: ServerResponse): void {
  const name = join(PAGE, path === "/" ? "index.html" : path);
  if (!name.startsWith(PAGE) || !existsSync(name)) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, {
    "Content-Type": TYPES[extname(name)] ?? "application/octet-stream",
    "Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
  });
  response.end(readFileSync(name));
}

function answer({ deltas, every_ms = 0, finish = "stop" }: Script, response: ServerResponse): void {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  const send = (choice: object, more: object = {}) =>
    response.write(`data: ${JSON.stringify({ choices: [{ index: 0, ...choice }], ...more })}\n\n`);
  const begun = performance.now();
  let i = 0;
  const step = () => {
    // As many as are due: timers of a busy machine come late.
    const due = every_ms ? Math.min(deltas.length, (performance.now() - begun) / every_ms) : deltas.length;
    while (i < due) send({ delta: deltas[i++] });
    if (response.destroyed) return;
    if (i < deltas.length) {
      setTimeout(step, every_ms);
      return;
    }
    send({ delta: {}, finish_reason: finish }, {
      timings: { predicted_n: deltas.length, predicted_ms: 1000, predicted_per_second: 41.2 },
    });
    response.end("data: [DONE]\n\n");
  };
  step();
}
