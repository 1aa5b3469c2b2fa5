import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The command that runs unladen: `UNLADEN_COMMAND`, or what the path has. */
const COMMAND = (process.env["UNLADEN_COMMAND"] ?? "unladen").split(" ");

/** Milliseconds in which a server must be up, on a busy machine. */
const UP_MS = 180_000;

export interface Server {
  url: string;
  port: number;
  process: ChildProcess;
  /** The processes below the server: its workers. */
  stop: () => Promise<void>;
}

/** Starts `unladen serve` with `args` at a free port, with a home of its own. */
export async function serve(args: readonly string[], env: Record<string, string> = {}): Promise<Server> {
  const home = mkdtempSync(join(tmpdir(), "unladen-page-"));
  const [program = "", ...first] = COMMAND;
  const child = spawn(program, [...first, "serve", ...args, "-p", "0"], {
    cwd: home, env: { ...process.env, HOME: home, HF_HOME: home, HF_HUB_OFFLINE: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let log = "";
  const port = await new Promise<number>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no server:\n${log}`)), UP_MS);
    const hear = (data: Buffer) => {
      log += data.toString();
      const found = /serves .* at https?:\/\/[^\s:]+:(\d+)/.exec(log);
      if (found) {
        clearTimeout(timer);
        resolve(Number(found[1]));
      }
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.on("exit", (code) => {
      clearTimeout(timer);
      reject(new Error(`the server ended with ${code}:\n${log}`));
    });
  });
  child.removeAllListeners("exit");
  const stop = async () => {
    if (child.exitCode === null) {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
    }
    rmSync(home, { recursive: true, force: true });
  };
  return { url: `http://127.0.0.1:${port}`, port, process: child, stop };
}
