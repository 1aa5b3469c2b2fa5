import { useEffect, useMemo, useRef, useState, type RefObject } from "react";

/** Pixels from the end within which the view counts as being there. */
const NEAR = 32;
/** Milliseconds after an input in which a movement is the user's. */
const INTENT_MS = 400;

export interface Follow {
  /** The end is out of view. */
  isAway: boolean;
  /** Goes to the end and follows it from now on. */
  toEnd: () => void;
  /** Stays where the view is. */
  leave: () => void;
}

/**
 * Keeps the end of `inner` in view while it grows, as long as the view is there.
 *
 * Only an input upwards ends that, not a movement: contents that get their sizes move the view,
 * too. Nothing moves the view when an answer ends. `isWritten`: an answer is being written.
 */
export function useFollow(
  scroller: RefObject<HTMLElement | null>, inner: RefObject<HTMLElement | null>, isWritten: boolean,
): Follow {
  const follows = useRef(true);
  const written = useRef(isWritten);
  written.current = isWritten;
  const [isAway, setAway] = useState(false);

  useEffect(() => {
    const view = scroller.current;
    const content = inner.current;
    if (!view || !content) return;
    let [upward, last, dragging] = [0, view.scrollTop, false];
    const isNear = () => view.scrollHeight - view.scrollTop - view.clientHeight < NEAR;
    const up = () => {
      upward = performance.now();
      follows.current = false;
    };
    const onWheel = (event: WheelEvent) => {
      if (event.deltaY < 0) up();
    };
    const onKey = (event: KeyboardEvent) => {
      const isSpaceBack = event.key === " " && event.shiftKey;
      if (isSpaceBack || ["ArrowUp", "PageUp", "Home"].includes(event.key)) up();
    };
    let touch = 0;
    const onTouchStart = (event: TouchEvent) => {
      touch = event.touches[0]?.clientY ?? 0;
    };
    const onTouchMove = (event: TouchEvent) => {
      if ((event.touches[0]?.clientY ?? 0) > touch + 4) up();
    };
    // The scrollbar belongs to the element itself. The wheel's button begins to scroll by itself.
    const onDown = (event: PointerEvent) => {
      dragging = event.target === view;
      if (event.button === 1) up();
    };
    const onUp = () => {
      dragging = false;
    };
    const onScroll = () => {
      const isUp = view.scrollTop < last - 1;
      last = view.scrollTop;
      if (dragging && isUp) up();
      else if (isNear() && performance.now() - upward > INTENT_MS) follows.current = true;
      else if (isNear() && !isUp) follows.current = true;
      setAway(!isNear() && !follows.current);
    };
    const observer = new ResizeObserver(() => {
      // A row that somebody unfolds or edits grows below what they look at.
      const isTouched = !written.current && content.contains(document.activeElement);
      if (follows.current && !isTouched) view.scrollTop = view.scrollHeight;
      setAway(!isNear() && !follows.current);
    });
    observer.observe(content);
    observer.observe(view);
    const passive = { passive: true };
    view.addEventListener("wheel", onWheel, passive);
    view.addEventListener("keydown", onKey);
    view.addEventListener("touchstart", onTouchStart, passive);
    view.addEventListener("touchmove", onTouchMove, passive);
    view.addEventListener("pointerdown", onDown);
    view.addEventListener("scroll", onScroll, passive);
    addEventListener("pointerup", onUp);
    return () => {
      observer.disconnect();
      view.removeEventListener("wheel", onWheel);
      view.removeEventListener("keydown", onKey);
      view.removeEventListener("touchstart", onTouchStart);
      view.removeEventListener("touchmove", onTouchMove);
      view.removeEventListener("pointerdown", onDown);
      view.removeEventListener("scroll", onScroll);
      removeEventListener("pointerup", onUp);
    };
  }, [scroller, inner]);

  return useMemo(() => ({
    isAway,
    toEnd: () => {
      follows.current = true;
      setAway(false);
      const view = scroller.current;
      if (view) view.scrollTop = view.scrollHeight;
    },
    leave: () => {
      follows.current = false;
    },
  }), [isAway, scroller]);
}
