// Crabpot's gateway, by its HTTP API on a Unix socket of the same user. It is started where none serves.

import { spawn } from "node:child_process";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const READY_MS = 60_000;
const LOOK_MS = 100;
const PATIENT_LOOKS = 50;
// The gateway closes a connection that was idle for 30 s: ours is closed before.
const IDLE_MS = 15_000;
const TIME_LIMIT_S = 3600;

/** A call that the gateway refused, or whose sandbox failed: never the failure of a command. */
export class CrabpotError extends Error {
  constructor(code, message) {
    super(`crabpot: ${code}: ${message}`);
    this.name = "CrabpotError";
    this.code = code;
  }
}

export class Gateway {
  constructor({ command = "crabpot", state, config, timeLimit = TIME_LIMIT_S } = {}) {
    this.command = command;
    this.config = config;
    this.timeLimit = timeLimit;
    this.state = state ?? process.env.CRABPOT_STATE ?? usualState();
    this.socket = path.join(this.state, "http.sock");
    this.starting = undefined;
    this.agent = new http.Agent({ keepAlive: true, timeout: IDLE_MS });
  }

  /** Return the words that run this program on this state folder. */
  words(...more) {
    const config = this.config ? ["--config", this.config] : [];
    return [this.command, "--state", this.state, ...config, ...more];
  }

  /** Call a tool and return its result, whether or not it succeeded. */
  async call(session, tool, args, { signal } = {}) {
    const { body } = await this.request("POST", `${sessionPath(session)}/tools/${tool}`, {
      body: Buffer.from(JSON.stringify(args)),
      type: "application/json",
      signal,
    });
    const result = JSON.parse(body.toString("utf8"));
    if (result.success === undefined) throw new CrabpotError("internal", body.toString("utf8"));
    return result;
  }

  async explain(session) {
    const { status, body } = await this.request("GET", `${sessionPath(session)}/explain`);
    if (status !== 200) throw failure(body);
    return JSON.parse(body.toString("utf8"));
  }

  async stop(name) {
    await this.request("POST", `/v1/sandboxes/${encodeURIComponent(name)}/stop`, {
      body: Buffer.from("{}"),
      type: "application/json",
    });
  }

  async sandboxes() {
    const { body } = await this.request("GET", "/v1/sandboxes");
    const found = JSON.parse(body.toString("utf8"));
    return found.sandboxes ?? found;
  }

  /** Return a file's bytes, or undefined where there is none. */
  async download(session, file, { signal } = {}) {
    const { status, body } = await this.request("GET", filePath(session, file), { signal });
    if (status === 404) return undefined;
    if (status !== 200) throw failure(body);
    return body;
  }

  async upload(session, file, data, { signal } = {}) {
    const { status, body } = await this.request("PUT", filePath(session, file), {
      body: data,
      type: "application/octet-stream",
      signal,
    });
    if (status !== 200 && status !== 201) throw failure(body);
  }

  /** Make one request; a gateway that does not serve is started first. */
  async request(method, target, options = {}) {
    try {
      return await this.once(method, target, options);
    } catch (error) {
      // Nothing was sent where nobody listens; any other failure may have had an effect, and is not repeated.
      if (error.code !== "ENOENT" && error.code !== "ECONNREFUSED") throw error;
    }
    this.starting ??= this.start().finally(() => (this.starting = undefined));
    await this.starting;
    return await this.once(method, target, options);
  }

  once(method, target, { body, type, signal } = {}) {
    const headers = { Host: "crabpot" };
    if (type) headers["Content-Type"] = type;
    if (body) headers["Content-Length"] = body.length;
    const options = { socketPath: this.socket, path: target, method, headers, agent: this.agent, signal };
    return new Promise((resolve, reject) => {
      const sent = http.request(options, (answer) => {
        const pieces = [];
        answer.on("data", (piece) => pieces.push(piece));
        answer.on("error", reject);
        answer.on("end", () => {
          // A file that could not be sent to its end is broken off, and never taken for the whole.
          if (answer.complete) resolve({ status: answer.statusCode, body: Buffer.concat(pieces) });
          else reject(new CrabpotError("sandbox_lost", "the answer was broken off"));
        });
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }

  /** Start `crabpot serve`, which goes on without us: other OpenClaw processes use it too. */
  async start() {
    const [program, ...words] = this.words("serve");
    const served = spawn(program, words, { detached: true, stdio: "ignore" });
    let ended;
    served.on("error", (error) => (ended = error.message));
    served.on("exit", (code) => (ended ??= `it ended with ${code}`));
    served.unref();
    for (let looks = 0; looks < READY_MS / LOOK_MS; looks += 1) {
      try {
        await this.once("GET", "/health");
        return;
      } catch {
        // Ours may end because another process was first; that one then serves within a moment.
        if (ended !== undefined && looks > PATIENT_LOOKS) break;
        await delay(LOOK_MS);
      }
    }
    const why = `nothing serves on ${this.socket}${ended === undefined ? "" : ` (${ended})`}`;
    throw new CrabpotError("sandbox_unavailable", `${why}; see what \`${program} serve\` says`);
  }
}

function usualState() {
  const base = process.env.XDG_STATE_HOME;
  return path.join(base?.startsWith("/") ? base : path.join(os.homedir(), ".local/state"), "crabpot");
}

function sessionPath(session) {
  return `/v1/sessions/${encodeURIComponent(session)}`;
}

function filePath(session, file) {
  return `${sessionPath(session)}/files/${file.split("/").map(encodeURIComponent).join("/")}`;
}

function failure(body) {
  const text = body.toString("utf8");
  try {
    const { error } = JSON.parse(text);
    return new CrabpotError(error.code, error.message);
  } catch {
    return new CrabpotError("internal", text);
  }
}
