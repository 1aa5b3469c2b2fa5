import { bytes, t } from "../texts/index.ts";
import * as db from "./db.ts";
import { newId, type Attachment } from "./records.ts";

/** Bytes of the largest file: more would fill any model's context many times. */
const MOST_BYTES = 4 * 2 ** 20;

/** Stores a text file, and describes it. Raises what is wrong with it, in words. */
export async function keepFile(file: File): Promise<Attachment> {
  if (file.size > MOST_BYTES)
    throw new Error(t.chat.fileTooLarge(file.name, bytes(MOST_BYTES)));
  const data = await file.arrayBuffer();
  if (!isText(data)) throw new Error(t.chat.fileNotText(file.name));
  const hash = await hashOf(data);
  await db.blobs.put(hash, new Blob([data], { type: "text/plain" }));
  return { hash, name: file.name, bytes: file.size };
}

/** Whether `data` is UTF-8 without zeros. */
export function isText(data: ArrayBuffer): boolean {
  if (new Uint8Array(data).includes(0)) return false;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(data);
    return true;
  } catch {
    return false;
  }
}

/** The SHA-256 of `data`; a new id where there is no secure context, which has no hashes. */
async function hashOf(data: ArrayBuffer): Promise<string> {
  const subtle = crypto.subtle as SubtleCrypto | undefined;
  if (!subtle) return newId();
  const hash = new Uint8Array(await subtle.digest("SHA-256", data));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
