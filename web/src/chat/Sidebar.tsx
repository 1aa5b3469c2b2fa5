import { Download, Ellipsis, FileText, Pencil, Plus, Search, Trash2, Upload } from "lucide-react";
import { useMemo, useRef, useState } from "react";
import { Virtualizer } from "virtua";
import { Button, IconButton } from "../parts/Button.tsx";
import { Confirm, Dialog } from "../parts/Dialog.tsx";
import { Empty } from "../parts/Feedback.tsx";
import { TextField } from "../parts/Field.tsx";
import { Menu } from "../parts/Menu.tsx";
import { go, hrefOf } from "../route.ts";
import { changeConversation, deleteConversation, useChat } from "../store/chat.ts";
import type { Conversation } from "../store/records.ts";
import { exportAll, exportMarkdown, exportOne, importFiles } from "../store/transfer.ts";
import { dayOf, t } from "../texts/index.ts";
import css from "./Sidebar.module.css";

export interface SidebarProps {
  current: string;
  onSearch: () => void;
  /** Closes the drawer that it is on a phone. */
  onClose: () => void;
}

type Item = { day: string } | { conversation: Conversation };

/** The conversations, with a heading for each day. */
function itemsOf(list: readonly Conversation[]): Item[] {
  const items: Item[] = [];
  let last = "";
  for (const conversation of list) {
    const day = dayOf(conversation.updated);
    if (day !== last) items.push({ day });
    last = day;
    items.push({ conversation });
  }
  return items;
}

export function Sidebar({ current, onSearch, onClose }: SidebarProps) {
  const list = useChat((chat) => chat.list);
  const scroller = useRef<HTMLDivElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const items = useMemo(() => itemsOf(list ?? []), [list]);
  return (
    <nav className={css.sidebar} aria-label={t.chat.conversations}>
      <div className={css.top}>
        <a className={css.new} href={hrefOf({ view: "chat", id: "" })} onClick={onClose}>
          <Plus aria-hidden /> {t.chat.new}
        </a>
        <IconButton label={t.chat.search} icon={<Search aria-hidden />} onClick={onSearch} />
        <Menu
          trigger={<IconButton label={t.chat.moreOfAll} icon={<Ellipsis aria-hidden />} />}
          items={[
            {
              text: t.chat.import, icon: <Upload aria-hidden />,
              run: () => picker.current?.click(),
            },
            {
              text: t.chat.exportAll, icon: <Download aria-hidden />, run: () => void exportAll(),
            },
          ]}
        />
        <input
          ref={picker} type="file" accept=".json,application/json" multiple hidden
          onChange={(event) => {
            void importFiles([...(event.target.files ?? [])]);
            event.target.value = "";
          }}
        />
      </div>
      <div ref={scroller} className={css.list}>
        {list?.length === 0 && <Empty title={t.chat.none}><p>{t.chat.noneText}</p></Empty>}
        <Virtualizer scrollRef={scroller}>
          {items.map((item) =>
            "day" in item ? (
              <h2 key={`day-${item.day}`} className={css.day}>{item.day}</h2>
            ) : (
              <Entry
                key={item.conversation.id} conversation={item.conversation}
                isCurrent={item.conversation.id === current} onClose={onClose}
              />
            ),
          )}
        </Virtualizer>
      </div>
    </nav>
  );
}

interface EntryProps {
  conversation: Conversation;
  isCurrent: boolean;
  onClose: () => void;
}

function Entry({ conversation, isCurrent, onClose }: EntryProps) {
  const { id } = conversation;
  const title = conversation.title || t.chat.newTitle;
  const [renames, setRenames] = useState<string | null>(null);
  const [deletes, setDeletes] = useState(false);
  const rename = () => {
    if (renames?.trim()) void changeConversation(id, { title: renames.trim() });
    setRenames(null);
  };
  return (
    <div className={css.entry} data-current={isCurrent}>
      <a
        href={hrefOf({ view: "chat", id })} aria-current={isCurrent ? "page" : undefined}
        onClick={onClose} title={title}
      >
        {title}
      </a>
      <Menu
        trigger={
          <IconButton
            small className={css.more} label={t.chat.moreOf(title)} icon={<Ellipsis aria-hidden />}
          />
        }
        items={[
          { text: t.chat.rename, icon: <Pencil aria-hidden />, run: () => setRenames(title) },
          { text: t.chat.export, icon: <Download aria-hidden />, run: () => void exportOne(id) },
          {
            text: t.chat.exportMarkdown, icon: <FileText aria-hidden />,
            run: () => void exportMarkdown(id),
          },
          "line",
          {
            text: t.chat.delete, icon: <Trash2 aria-hidden />, danger: true,
            run: () => setDeletes(true),
          },
        ]}
      />
      <Dialog
        open={renames !== null} onClose={() => setRenames(null)} title={t.chat.rename}
        footer={<Button kind="primary" onClick={rename}>{t.chat.save}</Button>}
      >
        <form
          onSubmit={(event) => {
            event.preventDefault();
            rename();
          }}
        >
          <TextField
            label={t.chat.titleField} value={renames ?? ""}
            onChange={(event) => setRenames(event.target.value)}
          />
        </form>
      </Dialog>
      <Confirm
        open={deletes} onClose={() => setDeletes(false)} title={t.chat.deleteTitle(title)}
        text={t.chat.deleteText} action={t.chat.delete}
        onConfirm={() => {
          if (isCurrent) go({ view: "chat", id: "" }, { replace: true });
          void deleteConversation(id);
        }}
      />
    </div>
  );
}
