import { create } from "zustand";

/** What this browser remembers of its user's wishes. */
export interface Preferences {
  theme: "system" | "light" | "dark";
  singleKeys: boolean;
  sendWithEnter: boolean;
  sidebar: boolean;
  /** The model of new conversations; "" for the server's first one. */
  model: string;
}

const NAME = "unladen.preferences";
const DEFAULTS: Preferences = {
  theme: "system", singleKeys: true, sendWithEnter: true, sidebar: true, model: "",
};

/** The wishes in `text`; those that it hasn't, or that have another type, are the defaults. */
export function readPreferences(text: string | null): Preferences {
  let given: unknown;
  try {
    given = JSON.parse(text ?? "{}");
  } catch {
    given = {};
  }
  const known = { ...DEFAULTS };
  if (typeof given !== "object" || given === null) return known;
  for (const [name, value] of Object.entries(given))
    if (name in DEFAULTS && typeof value === typeof DEFAULTS[name as keyof Preferences])
      Object.assign(known, { [name]: value });
  if (!["system", "light", "dark"].includes(known.theme)) known.theme = "system";
  return known;
}

export const usePreferences = create<Preferences>(() =>
  readPreferences(typeof localStorage === "undefined" ? null : localStorage.getItem(NAME)),
);

export function prefer(changes: Partial<Preferences>): void {
  usePreferences.setState(changes);
  localStorage.setItem(NAME, JSON.stringify(usePreferences.getState()));
  applyTheme();
}

export function applyTheme(): void {
  const { theme } = usePreferences.getState();
  if (theme === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}
