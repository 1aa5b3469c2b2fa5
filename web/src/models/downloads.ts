/** The downloads as the server tells them, and what can be done with each. */

import type { Download } from "../api/types.ts";

/** A download's event: all of it, or that it was deleted. */
export type DownloadEvent = Download | { id: string; state: "deleted" };

/** What a person can ask of a download. */
export type Action = "pause" | "resume" | "remove";

/** `known` after `event`, the oldest first. Events may come twice, or before the whole list. */
export function withEvent(known: readonly Download[], event: DownloadEvent): Download[] {
  const others = known.filter((each) => each.id !== event.id);
  if (event.state === "deleted") return others;
  return [...others, event].sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1));
}

/** The actions that make sense now. */
export function actionsOf(download: Download): Action[] {
  switch (download.state) {
    case "queued":
    case "running":
      return ["pause", "remove"];
    case "paused":
    case "failed":
      return ["resume", "remove"];
    case "done":
      return ["remove"];
  }
}

/** The share that has arrived, from 0 to 1; null where the size isn't known yet. */
export function shareOf(download: Download): number | null {
  if (download.state === "done") return 1;
  if (download.total <= 0) return null;
  return Math.min(1, Math.max(0, download.done / download.total));
}

/** Seconds until all is there at the present rate; null where nothing comes. */
export function secondsLeft(download: Download): number | null {
  if (download.state !== "running" || download.rate <= 0 || download.total <= 0) return null;
  return Math.max(0, download.total - download.done) / download.rate;
}

/** The downloads that aren't done. */
export function nUnderWay(downloads: readonly Download[]): number {
  return downloads.filter((each) => each.state !== "done").length;
}

/** The download of `ref`, if there is one that isn't done. */
export function downloadOf(downloads: readonly Download[], ref: string): Download | undefined {
  return downloads.find((each) => each.ref === ref && each.state !== "done");
}

/** The last part of a reference: `Q4_K_M` says little, so the repository's name stays. */
export function nameOf(ref: string): string {
  return ref.split("/").at(-1) || ref;
}
