import { ChevronLeft, ChevronRight, Ellipsis, Trash2 } from "lucide-react";
import { useMemo, useState } from "react";
import { IconButton } from "../parts/Button.tsx";
import { Confirm } from "../parts/Dialog.tsx";
import { Menu, type MenuItem } from "../parts/Menu.tsx";
import { prune, showBranch, useChat } from "../store/chat.ts";
import type { Message } from "../store/records.ts";
import { siblings } from "../store/tree.ts";
import { t } from "../texts/index.ts";
import css from "./Row.module.css";

/** `< 2/3 >`: the branches that begin with this message and those beside it. */
export function Siblings({ id }: { id: string }) {
  const messages = useChat((chat) => chat.open?.messages);
  const all = useMemo(() => (messages ? siblings(messages, id) : []), [messages, id]);
  if (all.length < 2) return null;
  const at = all.findIndex((message) => message.id === id);
  const show = (i: number) => {
    const next = all[i];
    if (next) void showBranch(next.id);
  };
  return (
    <span
      className={css.siblings} role="group" aria-label={t.chat.branches} data-siblings
      data-message={id}
    >
      <IconButton
        small label={t.chat.before} icon={<ChevronLeft aria-hidden />} disabled={at <= 0}
        onClick={() => show(at - 1)}
      />
      <span aria-label={t.chat.branchOf(at + 1, all.length)} role="img">
        {at + 1}/{all.length}
      </span>
      <IconButton
        small label={t.chat.after} icon={<ChevronRight aria-hidden />}
        disabled={at >= all.length - 1} onClick={() => show(at + 1)}
      />
    </span>
  );
}

/** What is seldom done with a message. */
export function MoreMenu({ message, items = [] }: { message: Message; items?: MenuItem[] }) {
  const [asks, setAsks] = useState(false);
  return (
    <>
      <Menu
        trigger={<IconButton small label={t.chat.more} icon={<Ellipsis aria-hidden />} />}
        items={[
          ...items,
          {
            text: t.chat.prune, icon: <Trash2 aria-hidden />, danger: true,
            run: () => setAsks(true),
          },
        ]}
      />
      <Confirm
        open={asks} onClose={() => setAsks(false)} title={t.chat.prune} text={t.chat.pruneText}
        action={t.chat.delete} onConfirm={() => void prune(message.id)}
      />
    </>
  );
}
