// The plugin's entry: makes `sandbox.backend: "crabpot"` known to OpenClaw.

import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";
import { registerSandboxBackend } from "openclaw/plugin-sdk/sandbox";

import { createManager, createBackend, WORKDIR } from "./lib/backend.js";
import { Gateway } from "./lib/gateway.js";

export default definePluginEntry({
  id: "crabpot",
  name: "Crabpot",
  description: "Runs exec and file tools in a Crabpot sandbox",
  register(api) {
    const gateway = new Gateway(api.pluginConfig ?? {});
    registerSandboxBackend("crabpot", {
      factory: (params) => createBackend(gateway, params),
      manager: createManager(gateway),
      resolveWorkdir: () => WORKDIR,
      capabilities: { browser: false, readOnlyResourceMounts: false },
    });
  },
});
