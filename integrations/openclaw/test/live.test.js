// The plugin's parts against a real gateway and a real sandbox. CRABPOT names the program; the state folder is our own.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { createBackend, createManager, sessionOf, withVariables } from "../lib/backend.js";
import { Gateway } from "../lib/gateway.js";

const run = promisify(execFile);
const SESSION = "agent:main:plugin";
let place, workspaceDir, gateway;

const params = (more = {}) => ({
  sessionKey: SESSION,
  scopeKey: SESSION,
  workspaceDir,
  cfg: { scope: "session", workspaceAccess: "rw", docker: {}, ...more.cfg },
  ...(more.sessionKey ? { sessionKey: more.sessionKey } : {}),
  ...(more.workspaceDir ? { workspaceDir: more.workspaceDir } : {}),
});

before(async () => {
  place = await fs.mkdtemp(path.join(os.tmpdir(), "crabpot-plugin-"));
  await fs.chmod(place, 0o755);
  workspaceDir = path.join(place, "ws");
  await fs.mkdir(workspaceDir);
  if (process.getuid() === 0) await fs.chown(workspaceDir, 61234, 61234);
  const config = path.join(place, "crabpot.json5");
  const rw = { workspace: workspaceDir, sandbox: { workspace: "rw" } };
  const entries = { main: rw, out: { sandbox: { mode: "off" } }, apart: { sandbox: { workspace: "none" } } };
  await fs.writeFile(config, JSON.stringify({ agents: { entries } }));
  gateway = new Gateway({ command: process.env.CRABPOT, state: path.join(place, "state"), config });
});

after(async () => {
  await run(process.env.CRABPOT, ["--state", gateway.state, "serve", "stop"]);
  gateway.agent.destroy();
  await fs.rm(place, { recursive: true });
});

async function files() {
  const backend = await createBackend(gateway, params());
  return { backend, bridge: backend.createFsBridge({ sandbox: { workspaceDir } }) };
}

test("a gateway is started by the first request, and by one of many", async () => {
  const told = await Promise.all([gateway.explain(SESSION), gateway.explain(SESSION)]);
  assert.deepEqual(told.map((one) => one.placement.where), ["sandbox", "sandbox"]);
});

test("files go in and out byte for byte, by either name of the folder", async () => {
  const { bridge } = await files();
  const data = Buffer.from([0, 255, 10, 13, 128, 0]);
  await bridge.writeFile({ filePath: "deep/er/data.bin", data });
  assert.deepEqual(await bridge.readFile({ filePath: "/workspace/deep/er/data.bin" }), data);
  assert.deepEqual(await bridge.readFile({ filePath: path.join(workspaceDir, "deep/er/data.bin") }), data);
  assert.deepEqual(await bridge.readFile({ filePath: "er/data.bin", cwd: path.join(workspaceDir, "deep") }), data);
  assert.deepEqual(await fs.readFile(path.join(workspaceDir, "deep/er/data.bin")), data);
  const facts = await bridge.stat({ filePath: "deep/er/data.bin" });
  assert.deepEqual([facts.type, facts.size], ["file", 6]);
  assert.equal(await bridge.stat({ filePath: "nothing" }), null);
  await assert.rejects(bridge.readFile({ filePath: "nothing" }), { code: "ENOENT" });
  await assert.rejects(bridge.readFile({ filePath: "deep/er/data.bin", maxBytes: 5 }), RangeError);
  assert.deepEqual(await bridge.readDirectory({ filePath: "deep" }), [{ name: "er", isDirectory: true }]);
});

test("names that a shell would read otherwise are only names", async () => {
  const { bridge } = await files();
  for (const name of ["$(touch x)", "-rf", "a b'\"", "ü%2F?#", "new\nline", "*"]) {
    await bridge.writeFile({ filePath: `odd/${name}`, data: name });
    assert.equal((await bridge.readFile({ filePath: `odd/${name}` })).toString(), name);
    await bridge.copyFile({ sourcePath: `odd/${name}`, destinationPath: `odd/copy-${name}` });
    await bridge.rename({ from: `odd/copy-${name}`, to: `odd/moved/${name}` });
    await bridge.remove({ filePath: `odd/${name}` });
    assert.equal(await bridge.stat({ filePath: `odd/${name}` }), null);
    assert.equal((await bridge.stat({ filePath: `odd/moved/${name}` })).type, "file");
  }
  await assert.rejects(bridge.remove({ filePath: "odd/moved" }));
  await bridge.remove({ filePath: "odd", recursive: true });
  await assert.rejects(bridge.remove({ filePath: ".", recursive: true }));
});

test("an exclusive creation keeps what is there, a link too", async () => {
  const { bridge } = await files();
  assert.equal(await bridge.createFileExclusive({ filePath: "once", data: "first" }), "created");
  assert.equal(await bridge.createFileExclusive({ filePath: "once", data: "second" }), "exists");
  await bridge.run({ script: "ln -s /etc/nowhere link" });
  assert.equal(await bridge.createFileExclusive({ filePath: "link", data: "x" }), "exists");
  assert.equal((await bridge.readFile({ filePath: "once" })).toString(), "first");
});

test("nothing of the host is read or written, whatever path or link is given", async () => {
  const { bridge } = await files();
  const secret = path.join(place, "secret");
  await fs.writeFile(secret, "host only");
  await bridge.run({ script: `ln -s ${secret} planted; ln -s ${place} above` });
  for (const filePath of [secret, "../secret", "planted", "above/secret", "../../../../..//etc/shadow"]) {
    await assert.rejects(bridge.readFile({ filePath }), filePath);
  }
  for (const filePath of [secret, "above/new"]) await bridge.writeFile({ filePath, data: "x" }).catch(() => {});
  assert.equal(await fs.readFile(secret, "utf8"), "host only");
  await assert.rejects(fs.stat(path.join(place, "new")));
});

test("exec is the program that passes streams on, and the command is as the model wrote it", async () => {
  const { backend } = await files();
  const spec = await backend.buildExecSpec({ command: "git push origin main", env: { PATH: "/host", HOME: "/root" } });
  assert.equal(spec.argv.at(-1), "git push origin main");
  const command = "pwd; echo $IT; exit 3";
  const asked = await backend.buildExecSpec({ command, workdir: "/workspace", env: { IT: "it's" } });
  const [program, ...words] = asked.argv;
  const done = await run(program, words).catch((error) => error);
  assert.deepEqual([done.code, done.stdout], [3, "/workspace\nit's\n"]);
  const variables = { "A;id": "1", OPENCLAW_SHELL: "exec", B: "'; id '" };
  assert.equal(withVariables("x", variables), "export B=''\\''; id '\\'''; x");
});

test("what Crabpot would place on the host is refused", async () => {
  await assert.rejects(createBackend(gateway, params({ sessionKey: "agent:out:main" })), /placed on the host/u);
});

test("a folder that is not shared is refused where OpenClaw grants it, else its files are brought, no links", async () => {
  const other = path.join(place, "other");
  await fs.mkdir(path.join(other, "skills"), { recursive: true });
  await fs.writeFile(path.join(other, "skills/one.md"), "a skill");
  await fs.symlink("/etc/passwd", path.join(other, "link"));
  const asked = { sessionKey: "agent:apart:x", workspaceDir: other };
  await assert.rejects(createBackend(gateway, params(asked)), /config set/u);
  const backend = await createBackend(gateway, params({ ...asked, cfg: { workspaceAccess: "none" } }));
  const bridge = backend.createFsBridge({ sandbox: { workspaceDir: other } });
  assert.equal((await bridge.readFile({ filePath: "skills/one.md" })).toString(), "a skill");
  assert.equal(await bridge.stat({ filePath: "link" }), null);
});

test("sandboxes are shared as OpenClaw's scope says", () => {
  const key = { sessionKey: "agent:ops:telegram:7", scopeKey: "agent:ops" };
  assert.equal(sessionOf({ ...key, cfg: { scope: "session" } }), "agent:ops:telegram:7");
  assert.equal(sessionOf({ ...key, cfg: { scope: "agent" } }), "agent:ops:openclaw");
  assert.equal(sessionOf({ ...key, scopeKey: "shared", cfg: { scope: "shared" } }), "agent:main:openclaw-shared");
});

test("a runtime is described and removed by its name", async () => {
  const { backend } = await files();
  const manager = createManager(gateway);
  const entry = { containerName: backend.runtimeId, image: backend.configLabel };
  assert.equal((await manager.describeRuntime({ entry })).running, true);
  await manager.removeRuntime({ entry });
  assert.equal((await manager.describeRuntime({ entry })).running, false);
});

test("a call that is cancelled ends what it started", async () => {
  const { backend } = await files();
  const signal = AbortSignal.timeout(500);
  await assert.rejects(backend.runShellCommand({ script: "sleep 100; touch late", signal }), { name: "AbortError" });
  const left = await backend.runShellCommand({ script: "pgrep -c sleep", allowFailure: true });
  assert.equal(left.stdout.toString().trim(), "0");
});

test("a program that is not there is an error that names it", async () => {
  const absent = new Gateway({ command: "/nowhere/crabpot", state: path.join(place, "none") });
  await assert.rejects(absent.explain(SESSION), /\/nowhere\/crabpot serve/u);
});
