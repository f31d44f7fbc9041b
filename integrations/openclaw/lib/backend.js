// One sandbox of OpenClaw's: a session of Crabpot's, which finds or opens the sandbox at every call.

import { constants } from "node:fs";
import fs from "node:fs/promises";
import path from "node:path";

import { Files } from "./files.js";
import { CrabpotError } from "./gateway.js";

const { O_NOFOLLOW, O_RDONLY } = constants;
export const WORKDIR = "/workspace";
// What OpenClaw sets for its own bookkeeping, or for the host's own folders and programs.
const NOT_PASSED = /^(PATH|HOME|USER|SHELL|PWD|TMPDIR|LANG|LC_.*|TERM|OPENCLAW_.*|CODEX_SANDBOX_EXEC_ID)$/u;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/u;
const MOST_FILES = 2000;
const MOST_BYTES = 64 << 20;

/** Which of Crabpot's sessions stands for what OpenClaw shares a sandbox by. */
export function sessionOf({ cfg, sessionKey, scopeKey }) {
  if (cfg.scope === "shared") return "agent:main:openclaw-shared";
  if (cfg.scope === "agent") return `agent:${/^agent:([^:]+)/u.exec(scopeKey)?.[1] ?? "main"}:openclaw`;
  return sessionKey;
}

export async function createBackend(gateway, params) {
  const session = sessionOf(params);
  const told = await gateway.explain(session);
  if (told.placement.where !== "sandbox") {
    const why = `${session} is placed on the host (${told.placement.source}): Crabpot would not confine it`;
    throw new CrabpotError("denied", why);
  }
  const run = (asked) => runShell(gateway, session, asked);
  const looked = await run({ script: 'pwd -P; stat -c "%d:%i" .', allowFailure: false });
  const [workdir, identity] = looked.stdout.toString("utf8").trim().split("\n");
  await agreeOnFolder({ gateway, session, params, told, workdir, identity, run });
  const { assertRuntimeCurrent } = params;
  return {
    id: "crabpot",
    runtimeId: told.sandbox.name,
    runtimeLabel: told.sandbox.name,
    workdir,
    env: params.cfg.docker?.env,
    configLabel: told.sandbox.hash,
    configLabelKind: "Spec",
    capabilities: { browser: false, readOnlyResourceMounts: false },
    // OpenClaw starts a process for every exec. Ours only passes streams to the gateway that runs.
    async buildExecSpec({ command, workdir: cwd, env }) {
      assertRuntimeCurrent?.();
      const limits = ["--cwd", cwd ?? workdir, "--timeout", String(gateway.timeLimit)];
      return {
        argv: gateway.words("exec", "--session", session, ...limits, "--", withVariables(command, env)),
        env: process.env,
        stdinMode: "pipe-open",
        assertCurrent: assertRuntimeCurrent,
      };
    },
    // The gateway ends everything that a call started when its client goes away.
    prepareProcessCleanup: (env) => ({ env, interrupt: async () => false, terminate: async () => {} }),
    runShellCommand(asked) {
      assertRuntimeCurrent?.();
      return run(asked);
    },
    createFsBridge: ({ sandbox }) => new Files({ gateway, session, workdir, workspaceDir: sandbox.workspaceDir, run }),
  };
}

/** Return a command with its caller's variables; without any it is as the model wrote it, for elevated patterns. */
export function withVariables(command, env = {}) {
  const names = Object.keys(env).filter((name) => NAME.test(name) && !NOT_PASSED.test(name) && env[name] !== undefined);
  const exports = names.map((name) => `export ${name}='${String(env[name]).replaceAll("'", `'\\''`)}'; `);
  return exports.join("") + command;
}

/** Run a shell script inside, over HTTP: no process is started for it out here. */
async function runShell(gateway, session, { script, args = [], stdin, allowFailure, signal }) {
  const command = ["/bin/sh", "-c", script, "openclaw", ...args];
  const input = stdin === undefined ? {} : { stdin: stdin.toString("utf8") };
  if (Buffer.isBuffer(stdin) && !Buffer.from(input.stdin).equals(stdin)) {
    throw new CrabpotError("invalid_arguments", "the input is not text: write it to a file");
  }
  const result = await gateway.call(session, "exec", { command, timeout: gateway.timeLimit, ...input }, { signal });
  if (result.exit_code === null || result.error) {
    throw new CrabpotError(result.error?.code ?? "internal", result.error?.message ?? "it has no exit code");
  }
  const done = { code: result.exit_code, stdout: Buffer.from(result.stdout), stderr: Buffer.from(result.stderr) };
  if (done.code !== 0 && !allowFailure) throw new Error(result.stderr.trim() || `it ended with ${done.code}`);
  return done;
}

/** See that both mean the same folder; where OpenClaw keeps a copy of its own, bring what is in it. */
async function agreeOnFolder({ gateway, session, params, told, workdir, identity, run }) {
  const { workspaceDir, cfg } = params;
  const facts = await fs.stat(workspaceDir, { bigint: true });
  if (identity === `${facts.dev}:${facts.ino}` || told.sandbox.workspace === "review") return;
  if (cfg.workspaceAccess === "rw") {
    const at = `agents.entries.${told.agent}`;
    const wanted = `${at}.workspace to "${workspaceDir}" and ${at}.sandbox.workspace to "rw"`;
    const why = `OpenClaw's folder is ${workspaceDir}, Crabpot's another: set ${wanted} with \`crabpot config set\``;
    throw new CrabpotError("invalid_arguments", why);
  }
  const there = await run({ script: "find . -type f", allowFailure: true });
  const known = new Set(there.stdout.toString("utf8").split("\n"));
  let room = MOST_BYTES;
  for (const file of (await regularFiles(workspaceDir)).slice(0, MOST_FILES)) {
    if (known.has(`./${file}`)) continue;
    const data = await fs.readFile(path.join(workspaceDir, file), { flag: O_RDONLY | O_NOFOLLOW });
    room -= data.length;
    if (room < 0) return;
    await run({ script: 'mkdir -p -- "$1"', args: [path.posix.dirname(`${workdir}/${file}`)], allowFailure: false });
    await gateway.upload(session, `${workdir}/${file}`, data);
  }
}

/** List the files below a folder; links are not followed, and no repository is copied. */
async function regularFiles(root) {
  const found = await fs.readdir(root, { withFileTypes: true, recursive: true });
  return found
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)))
    .filter((file) => !file.split(path.sep).includes(".git"));
}

export function createManager(gateway) {
  return {
    async describeRuntime({ entry }) {
      const live = await gateway.sandboxes();
      const running = live.some(({ name }) => name === entry.containerName);
      return { running, actualConfigLabel: entry.image, configLabelMatch: true };
    },
    async removeRuntime({ entry }) {
      await gateway.stop(entry.containerName);
    },
  };
}
