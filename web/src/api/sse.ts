import { createParser, type EventSourceMessage } from "eventsource-parser";

/** The server-sent events of `body`, one by one, wherever its bytes are cut. */
export async function* sseEvents(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<EventSourceMessage, void> {
  const waiting: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => waiting.push(event) });
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      parser.feed(done ? decoder.decode() : decoder.decode(value, { stream: true }));
      yield* waiting.splice(0);
      if (done) return;
    }
  } finally {
    // Without a reader the connection ends, and with it the work behind it.
    await reader.cancel().catch(() => undefined);
  }
}
