import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

export interface Hub {
  /** What a server needs to use this hub. */
  env: Record<string, string>;
  stop: () => void;
}

/** Starts the hub of the Python tests. `pace`: seconds between two pieces of a file. */
export async function startHub(pace: number): Promise<Hub> {
  const script = fileURLToPath(new URL("serve_hub.py", import.meta.url));
  const child = spawn(process.env["PYTHON"] ?? "python3", [script, String(pace)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const port = await new Promise<string>((resolve, reject) => {
    child.stdout.once("data", (data: Buffer) => resolve(data.toString().trim()));
    child.once("exit", (code) => reject(new Error(`the hub ended with ${code}`)));
  });
  const none = { HTTP_PROXY: "", http_proxy: "", ALL_PROXY: "", all_proxy: "" };
  return {
    env: { HF_HUB_OFFLINE: "0", HF_ENDPOINT: `http://127.0.0.1:${port}`, ...none },
    stop: () => child.kill(),
  };
}
