"""What has really gone wrong in this field, as rows that claims name: each happened to somebody."""

from __future__ import annotations

ROWS = {
    "planted-mount-point": "a mount point below an agent-writable tree followed a planted link (CVE-2026-87766)",
    "terminal-injection": "characters typed into the terminal of the person outside (TIOCSTI, CVE-2017-5226)",
    "container-runtime": "a runtime's own binary, descriptors or helpers reached from inside (CVE-2019-5736, "
    "CVE-2024-21626, CVE-2025-31133, CVE-2025-52565, CVE-2025-52881)",
    "configured-away": "a configuration bound /, /etc, docker.sock or a link to them, or joined another container's "
    "network (CVE-2026-27002, CVE-2026-32038)",
    "one-hash": "two configurations had one hash, and the second got the first one's container (CVE-2026-27007)",
    "swapped-folder": "a folder swapped for a link between check and use (CVE-2026-44112, CVE-2026-44113)",
    "disguised-command": "commands that only looked allowed: chains, substitutions, wrappers, deceptive characters "
    "(CVE-2026-28460, CVE-2026-44115, CVE-2026-28463, CVE-2026-28363)",
    "reused-approval": "an approval reused, answered by the agent, or valid for something else",
    "child-on-the-host": "a sandboxed session started a child on the host (CVE-2026-32048)",
    "one-gateway": "one door skipped the policy",
    "own-files": "a configuration or approval file edited by the agent, or first created in its workspace",
    "host-git": "git run on the host in the agent's folder: fsmonitor, hooks, external diffs, filters",
    "host-names": "an empty allow-list meant everything (CVE-2025-66479); other spellings of a host; names that "
    "resolve to loopback or metadata; DNS as a channel",
    "kernel-surface": "io_uring, 32-bit and x32 entries, nested user namespaces, keyctl, bpf, perf, userfaultfd",
    "path-rules": "/proc/self/root, copies of a binary and ld.so used to dodge path rules",
    "host-sockets": "abstract and file sockets of the host, and inherited descriptors",
    "environment": "keys leaked by the environment",
    "exhaustion": "fork bomb, memory hog, full disk, endless output, descriptors, a grandchild that stays",
    "failed-set-up": "the sandbox could not be made, and the agent went on without one",
    "shared-uid": "the runner shares its uid with what it runs",
    "git-drivers": "git run on the host with filters, textconv or merge drivers of free names",
    "planted-config": "a configuration planted in a cloned repository",
    "hatch": "host programs that left ran on files of the agent's: links in .git, folders made unreadable, build files",
    "hatch-socket": "out of a guard by a socket, the user's bus or a debugger on the user's shell",
    "hatch-lease": "a build tool approved once, whose file the agent then changed",
    "token-on-the-host": "a token for an agent's sessions included its main session, which was placed on the host",
    "malformed-key": "a session key that one component read as text and another parsed, so that one agent's token "
    "acted as another",
    "session-flood": "a thousand session names: nothing may grow without bound, and one agent starves only itself",
    "hostile-layer": "a layer brought back with links, devices, setuid files, hooks, editor tasks, a .pth",
    "pushed-unseen": "what was pushed was not what was shown: remote.*.push, legacy remotes, push options",
    "hostile-server": "an MCP server that read the home, phoned home, changed its tools after approval, or imitated "
    "another's",
    "hostile-runner": "giant frames, wrong ids, invalid UTF-8, silence, forged results",
}
