import { Tooltip as Base } from "@base-ui/react/tooltip";
import { useEffect, useState } from "react";
import css from "./Tooltip.module.css";

/** Milliseconds that the pointer rests on a button before its name is shown. */
const REST_MS = 500;

/** What a button needs so that its name, `aria-label`, is shown as a tooltip. */
export const named = (label: string) => ({ "aria-label": label, "data-tip": true });

const namedAt = (target: EventTarget | null): HTMLElement | null =>
  target instanceof Element ? target.closest<HTMLElement>("[data-tip]") : null;

/**
 * The tooltip of the page: the name of the button that is pointed at or has the focus.
 *
 * There is one for all buttons. One in each button makes a long conversation slow to open.
 */
export function Tooltip() {
  const [button, setButton] = useState<HTMLElement | null>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = (found: HTMLElement | null, wait: number) => {
      clearTimeout(timer);
      if (!found) setButton(null);
      else timer = setTimeout(() => setButton(found), wait);
    };
    const hide = () => show(null, 0);
    const onOver = (event: PointerEvent) => {
      // Fingers don't hover.
      if (event.pointerType !== "touch") show(namedAt(event.target), REST_MS);
    };
    const onFocus = ({ target }: FocusEvent) => {
      if (target instanceof Element && target.matches(":focus-visible")) show(namedAt(target), 0);
    };
    const onOut = (event: PointerEvent) => {
      if (event.relatedTarget === null) hide();
    };
    const events = { pointerover: onOver, pointerout: onOut, focusin: onFocus, focusout: hide,
      pointerdown: hide, keydown: hide };
    const told = Object.entries(events) as [string, (event: Event) => void][];
    for (const [name, run] of told) document.addEventListener(name, run);
    document.addEventListener("scroll", hide, { capture: true, passive: true });
    return () => {
      clearTimeout(timer);
      for (const [name, run] of told) document.removeEventListener(name, run);
      document.removeEventListener("scroll", hide, { capture: true });
    };
  }, []);
  // A button that went away meanwhile, such as that of a dialog that was closed, has no place.
  const isShown = button?.isConnected === true;
  return (
    <Base.Root open={isShown} onOpenChange={(open) => !open && setButton(null)}>
      <Base.Portal>
        <Base.Positioner anchor={button} sideOffset={6} className={css.positioner}>
          <Base.Popup className={css.popup} aria-hidden>{button?.ariaLabel}</Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
