import { useRef, useState, type FormEvent } from "react";
import { enterKey, useServer } from "../store/server.ts";
import { t } from "../texts/index.ts";
import { Button } from "./Button.tsx";
import { Dialog } from "./Dialog.tsx";
import { TextField } from "./Field.tsx";

/** Asks for the key when the server wants one. */
export function KeyDialog() {
  const key = useServer((server) => server.key);
  const [text, setText] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const send = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim()) enterKey(text.trim());
  };
  return (
    <Dialog open={key !== "fine"} onClose={() => undefined} title={t.frame.key.title} focus={field}>
      <form onSubmit={send}>
        <p>{t.frame.key.text}</p>
        <br />
        <TextField
          ref={field} label={t.frame.key.field} type="password" autoComplete="off" value={text}
          wrong={key === "wrong" ? t.frame.key.wrong : ""}
          onChange={(event) => setText(event.target.value)}
        />
        <br />
        <Button type="submit" kind="primary">{t.frame.key.send}</Button>
      </form>
    </Dialog>
  );
}
