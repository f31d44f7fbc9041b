"""The commented configuration that `crabpot init` writes."""

from __future__ import annotations

TEXT = """\
// Crabpot decides three things for every tool call of an agent:
//   WHICH tools it may use (tools), WHERE they run (agents.*.sandbox), and
//   WHEN one command may leave the sandbox for the host (tools.elevated).
// Every value below is the default, so deleting a line changes nothing.
// After an edit:  crabpot check      what this gives away, with fixes
//                 crabpot explain    what it means for a session
{
  agents: {
    defaults: {
      // The folder on this machine that the agent works for. It enters the sandbox only as
      // `sandbox.workspace` says. Keep this file outside it: an agent must not rewrite its rules.
      workspace: "~/agent",

      sandbox: {
        // off: everything runs on the host. non-main: your own chat (agent:<id>:main) on the host,
        // every other session inside. all: everything inside.
        mode: "all",

        // What shares a sandbox: one "session" (strongest), one "agent", or "shared" by all.
        scope: "session",

        // none: a private folder at /workspace. ro: the same, and the agent's workspace read-only
        // at /agent. rw: the agent's workspace itself at /workspace. review: the same, but nothing
        // of yours changes until `crabpot changes apply`.
        workspace: "none",

        // null: the home is /workspace. A name: a private home of that name at /home/agent, so that
        // .bash_history, .config and caches do not land in your project.
        home: null,

        // auto takes bubblewrap, then docker: the first that can keep every promise here.
        backend: "auto",

        // none; internet (public addresses, never the LAN); { allow: ["api.example.com:443"] };
        // host gives the agent the host's whole network.
        network: "none",

        // More host folders: "host:container:ro". ro unless you write rw.
        binds: [],

        // What one sandbox may use. A call may ask for more time, up to timeCeiling.
        limits: { memory: "2g", cpus: 2, pids: 100, timeLimit: 60, timeCeiling: 3600, disk: "10g" },
      },
    },
    // One agent that differs from the defaults:
    // entries: { ops: { workspace: "~/ops", sandbox: { workspace: "rw" }, tools: { profile: "coding" } } },
  },

  tools: {
    // full (when nothing is said), coding (files, shell, browser), messaging, or minimal (web_search).
    // allow adds to the profile; without a profile, allow is the whole set.
    // profile: "coding",

    // deny is absolute: no profile, allow or agent brings a denied tool back.
    // Names, globs (sessions_*) and groups (group:automation) all work here, and in allow too.
    deny: [],

    // The escape hatch. A command leaves only if it is one simple command, matches a pattern,
    // and a person agrees. Name exact arguments: "git push *" is safer than "git *".
    elevated: { enabled: false, patterns: [], requireApproval: true, approvalTimeout: 300 },
  },
}
"""
