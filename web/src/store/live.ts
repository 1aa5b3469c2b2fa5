import { BlockParser } from "../chat/markdown/blocks.ts";
import { grow, nothing, type Chunk, type Grown } from "./deltas.ts";
import type { Message, ToolCall } from "./records.ts";

/** What the one subscriber of a running answer draws. */
export interface LiveView {
  text: string;
  reasoning: string;
  calls: readonly ToolCall[];
  /** Seconds of reasoning so far. */
  reasoning_s: number;
  /** Whether text has come after the reasoning. */
  answers: boolean;
}

/** Calls `run` before the next frame. There are none in a hidden tab: then nothing is drawn. */
type Schedule = (run: () => void) => void;

/** A block that takes longer to parse, in milliseconds, is drawn in a quarter of the time. */
const SLOW_MS = 6;

/**
 * An answer that is being written. It lives outside of React's state: chunks only add to strings,
 * and one flush before each frame shows them.
 */
export class LiveAnswer {
  readonly grown: Grown;
  readonly parser = new BlockParser();
  /** For the reasoning, which is parsed only while it is unfolded. */
  readonly thoughts = new BlockParser();
  private view: LiveView;
  private readonly listeners = new Set<() => void>();
  private isScheduled = false;
  private readonly begun = performance.now();
  private readonly reasonedBefore: number;
  private thought = 0;
  private readonly schedule: Schedule;

  /** `from`: the message, with what an answer that is continued has already. */
  constructor(from: Message, schedule: Schedule = (run) => requestAnimationFrame(run)) {
    this.schedule = schedule;
    this.reasonedBefore = from.reasoning_s;
    this.grown = {
      ...nothing(), text: from.text, reasoning: from.reasoning, calls: [...from.tool_calls],
    };
    this.view = this.look();
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = (): LiveView => this.view;

  take(chunk: Chunk): void {
    const [text, reasoning] = [this.grown.text.length, this.grown.reasoning.length];
    grow(this.grown, chunk);
    if (this.grown.reasoning.length > reasoning && this.grown.text.length === text)
      this.thought = performance.now() - this.begun;
    if (this.isScheduled) return;
    this.isScheduled = true;
    const { cost_ms } = this.parser;
    if (cost_ms < SLOW_MS) this.schedule(() => this.flush());
    else setTimeout(() => this.schedule(() => this.flush()), 3 * cost_ms);
  }

  get reasoning_s(): number {
    return this.reasonedBefore + this.thought / 1000;
  }

  private flush(): void {
    this.isScheduled = false;
    this.view = this.look();
    for (const listener of this.listeners) listener();
  }

  private look(): LiveView {
    const { text, reasoning, calls } = this.grown;
    return {
      text, reasoning, calls, reasoning_s: this.reasoning_s,
      answers: text.length > 0 || calls.length > 0,
    };
  }
}
