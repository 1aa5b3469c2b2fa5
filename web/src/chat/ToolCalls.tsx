import { Wrench } from "lucide-react";
import { useState } from "react";
import { Button } from "../parts/Button.tsx";
import { TextArea } from "../parts/Field.tsx";
import { sendResults } from "../store/answering.ts";
import { newMessage, type Message, type ToolCall } from "../store/records.ts";
import { t } from "../texts/index.ts";
import { CodeBlock } from "./markdown/CodeBlock.tsx";
import css from "./ToolCalls.module.css";

export interface ToolCallsProps {
  message: Message;
  calls: readonly ToolCall[];
  results: ReadonlyMap<string, Message>;
  runs: boolean;
  model: string;
}

/**
 * The calls of an answer with their results. The tools are the user's: the page shows what the
 * model asks of them, and sends what the user gives back.
 */
export function ToolCalls({ message, calls, results, runs, model }: ToolCallsProps) {
  const [given, setGiven] = useState<Record<string, string>>({});
  const isOpen = !runs && calls.every((call) => !results.has(call.id));
  const send = () => {
    let parent = message.id;
    const made = calls.map((call) => {
      const result = newMessage({
        conversation: message.conversation, parent, role: "tool", tool_call_id: call.id,
        text: given[call.id] ?? "",
      });
      parent = result.id;
      return result;
    });
    void sendResults(made, model);
  };
  return (
    <div className={css.calls}>
      {calls.map((call) => (
        <section key={call.id} className={css.call} aria-label={t.chat.callOf(call.name)}>
          <h3 className={css.head}><Wrench aria-hidden /> {call.name}</h3>
          <CodeBlock text={indented(call.arguments)} lang="json" live={runs} />
          {results.has(call.id) && (
            <div className={css.result}>
              <h4>{t.chat.result}</h4>
              <pre tabIndex={0}>{results.get(call.id)?.text}</pre>
            </div>
          )}
          {isOpen && (
            <TextArea
              label={t.chat.resultOf(call.name)} mono value={given[call.id] ?? ""}
              onChange={(event) => setGiven({ ...given, [call.id]: event.target.value })}
            />
          )}
        </section>
      ))}
      {isOpen && (
        <div>
          <Button
            kind="primary" small onClick={send}
            disabled={calls.some((call) => !given[call.id]?.trim())}
          >
            {t.chat.sendResults(calls.length)}
          </Button>
        </div>
      )}
    </div>
  );
}

/** JSON with a line for each value; as it is where it isn't complete. */
function indented(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
