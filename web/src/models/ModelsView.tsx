import { Boxes } from "lucide-react";
import { useMemo, useState } from "react";
import { Empty } from "../parts/Feedback.tsx";
import { Tabs } from "../parts/Tabs.tsx";
import { findModel, useServer } from "../store/server.ts";
import { t } from "../texts/index.ts";
import { Detail } from "./Detail.tsx";
import { nUnderWay } from "./downloads.ts";
import { Downloads } from "./Downloads.tsx";
import { useFits } from "./fits.ts";
import { Hub } from "./Hub.tsx";
import { Library } from "./Library.tsx";
import css from "./Models.module.css";
import { useDownloads } from "./useDownloads.ts";
import { useLibrary } from "./useLibrary.ts";

type Tab = "disk" | "hub" | "downloads";

/** The library, the hub and downloads. `id`: the model whose details are open; "" for none. */
export default function ModelsView({ id }: { id: string }) {
  const server = useServer((known) => known.state);
  const [tab, setTab] = useState<Tab>("disk");
  const run = server?.run ?? "";
  const canManage = server?.can_manage ?? false;
  const { files, problem, refresh } = useLibrary(run);
  const downloads = useDownloads(run, canManage);
  const models = server?.models ?? [];
  const refs = useMemo(
    () => (files ?? []).filter((each) => !each.problem && !each.parts_missing)
      .map(({ ref }) => ref),
    [files],
  );
  // What fits depends on what else is in memory.
  const fits = useFits(refs, models.map((model) => `${model.id} ${model.arrived}`).join());
  const file = files?.find((each) => each.ref === id || each.model === id);
  const model = findModel(server, file?.model ?? id);
  const tabs = [
    {
      value: "disk" as const, text: t.models.tabs.disk,
      panel: (
        <Library
          files={files} problem={problem} models={models} fits={fits} open={id} onRefresh={refresh}
        />
      ),
    },
    {
      value: "hub" as const, text: t.models.tabs.hub,
      panel: <Hub isOffline={server?.offline ?? false} canManage={canManage} />,
    },
    ...(canManage ? [{
      value: "downloads" as const, text: t.models.tabs.downloads, count: nUnderWay(downloads),
      panel: <Downloads downloads={downloads} />,
    }] : []),
  ];
  return (
    <div className={`${css.view} ${id ? css.opened : ""}`}>
      <div className={css.list}>
        <h1 className={css.title}>{t.models.title}</h1>
        <Tabs label={t.models.tabs.label} value={tab} onChange={setTab} tabs={tabs} />
      </div>
      <div className={css.pane}>
        {id ? (
          <Detail key={id} id={id} file={file} model={model} isKnown={files !== null} />
        ) : (
          <Empty icon={<Boxes aria-hidden />} title={t.models.pick}>{t.models.pickHint}</Empty>
        )}
      </div>
    </div>
  );
}
