/** The key of this session. It lives in sessionStorage: a closed tab forgets it. */

const NAME = "unladen.key";

/** Takes the key out of the address (`#key=...`), so that no history and no bookmark keeps it. */
export function takeKeyFromAddress(): void {
  const found = /^#key=([^&]+)(?:&(.*))?$/.exec(location.hash);
  if (!found) return;
  setKey(decodeURIComponent(found[1] ?? ""));
  history.replaceState(null, "", location.pathname + location.search + (found[2] ? `#${found[2]}` : ""));
}

export function getKey(): string {
  return sessionStorage.getItem(NAME) ?? "";
}

export function setKey(key: string): void {
  if (key) sessionStorage.setItem(NAME, key);
  else sessionStorage.removeItem(NAME);
}
