import { useServer } from "../store/server.ts";
import { t } from "../texts/index.ts";
import css from "./Status.module.css";

/** A line above the view while something is wrong with the way to the server. */
export function Status() {
  const connection = useServer((server) => server.connection);
  const key = useServer((server) => server.key);
  const isLost = connection === "lost" && key === "fine";
  return (
    <div role="status" className={isLost ? css.status : "unseen"}>
      {isLost && t.frame.status.lost}
    </div>
  );
}
