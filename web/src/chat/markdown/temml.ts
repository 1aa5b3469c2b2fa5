import temml from "temml";
import "temml/dist/Temml-Local.css";

/** The most characters that one formula may become; a formula can repeat itself endlessly. */
const MOST_EXPANSIONS = 1000;

/** Writes `tex` into `place`, as nodes. False where it is wrong: then nothing is written. */
export function renderMath(tex: string, place: HTMLElement, display: boolean): boolean {
  try {
    temml.render(tex, place, {
      displayMode: display, throwOnError: true, trust: false, maxExpand: MOST_EXPANSIONS,
      maxSize: [20, 20],
    });
    return true;
  } catch {
    place.replaceChildren();
    return false;
  }
}
