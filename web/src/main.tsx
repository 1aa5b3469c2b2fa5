import { CSPProvider } from "@base-ui/react/csp-provider";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { takeKeyFromAddress } from "./api/key.ts";
import { App } from "./App.tsx";
import { applyTheme } from "./store/preferences.ts";
import { connect } from "./store/server.ts";
import "./styles/tokens.css";
import "./styles/base.css";

takeKeyFromAddress();
applyTheme();
connect();

const root = document.getElementById("root");
if (root)
  createRoot(root).render(
    <StrictMode>
      <CSPProvider disableStyleElements>
        <App />
      </CSPProvider>
    </StrictMode>,
  );
