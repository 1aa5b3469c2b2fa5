import { Dialog } from "../parts/Dialog.tsx";
import { findModel, useServer } from "../store/server.ts";
import { t } from "../texts/index.ts";
import { PlanBody } from "./PlanBody.tsx";
import css from "./PlanBody.module.css";

export interface PlanPanelProps {
  open: boolean;
  onClose: () => void;
  /** The id of the model whose plan is shown. */
  model: string;
}

/** Layers over devices and what they take. It opens from Models and from Chat. */
export default function PlanPanel({ open, onClose, model }: PlanPanelProps) {
  const known = useServer((server) => findModel(server.state, model));
  return (
    <Dialog open={open} onClose={onClose} title={t.plan.titleOf(model)} shape="panel">
      <div className={css.raised}>
        <PlanBody key={model} id={known?.id ?? model} source={known?.ref ?? model} model={known} />
      </div>
    </Dialog>
  );
}
