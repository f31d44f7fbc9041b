// OpenClaw's file tools, over Crabpot's own: every path is one of the sandbox, and its walls decide what is there.

import path from "node:path";

import { CrabpotError } from "./gateway.js";

const { posix } = path;
// Exit codes of our own scripts.
const ABSENT = 44;
const EXISTS = 73;

export class Files {
  /** `run` runs a shell script inside: {script, args, stdin, signal} → {code, stdout, stderr}. */
  constructor({ gateway, session, workdir, workspaceDir, run }) {
    this.gateway = gateway;
    this.session = session;
    this.workdir = workdir;
    this.workspaceDir = path.resolve(workspaceDir);
    this.run = run;
  }

  /** Which folder of the host stands for which one inside. */
  get pathMappings() {
    return [{ hostRoot: this.workspaceDir, containerRoot: this.workdir }];
  }

  resolvePath({ filePath, cwd }) {
    const base = cwd ? this.#inside(posix.resolve(this.workdir, cwd)) : this.workdir;
    const containerPath = this.#inside(posix.resolve(base, filePath));
    const relativePath = posix.relative(this.workdir, containerPath);
    const outside = relativePath === ".." || relativePath.startsWith("../");
    return { containerPath, relativePath: outside ? containerPath : relativePath };
  }

  /** A path below OpenClaw's own copy of the workspace means the same one inside. */
  #inside(given) {
    if (within(given, this.workdir)) return given;
    if (!within(given, this.workspaceDir)) return given;
    return posix.join(this.workdir, posix.relative(this.workspaceDir, given));
  }

  async readFile(params) {
    const { containerPath } = this.resolvePath(params);
    const most = params.maxBytes ?? Infinity;
    // Asked before: a file of the agent's may be larger than our memory.
    const facts = params.maxBytes === undefined ? null : await this.stat(params);
    const data = facts && facts.size > most ? null : await this.gateway.download(this.session, containerPath, params);
    if (data === undefined) {
      throw Object.assign(new Error(`Sandbox file not found: ${containerPath}`), { code: "ENOENT" });
    }
    if (data === null || data.length > most) throw new RangeError(`File exceeds ${most} bytes`);
    return data;
  }

  async writeFile(params) {
    const target = this.#target(params);
    if (params.mkdir !== false) await this.#makeParent(target, params);
    await this.gateway.upload(this.session, target, bytes(params), params);
  }

  async createFileExclusive(params) {
    const target = this.#target(params);
    if (params.mkdir !== false) await this.#makeParent(target, params);
    const script = `(set -C; : > "$1") 2>/dev/null || { [ -e "$1" ] || [ -L "$1" ] && exit ${EXISTS}; exit 1; }`;
    const made = await this.#sh(script, [target], { ...params, codes: [0, EXISTS] });
    if (made.code === EXISTS) return "exists";
    await this.gateway.upload(this.session, target, bytes(params), params);
    return "created";
  }

  async readDirectory(params) {
    const { containerPath } = this.resolvePath(params);
    const result = await this.gateway.call(this.session, "ls", { path: containerPath, all: true }, params);
    if (!result.success) throw refusal(result);
    return result.data.entries.map(({ name, type }) => ({ name, isDirectory: type === "directory" }));
  }

  async stat(params) {
    const { containerPath } = this.resolvePath(params);
    const script = `[ -e "$1" ] || exit ${ABSENT}; stat -L -c "%F|%s|%Y" -- "$1"`;
    const found = await this.#sh(script, [containerPath], { ...params, codes: [0, ABSENT] });
    if (found.code === ABSENT) return null;
    const [kind, size, modified] = found.stdout.toString("utf8").trim().split("|");
    const type = kind.includes("directory") ? "directory" : kind.includes("file") ? "file" : "other";
    return { type, size: Number(size), mtimeMs: Number(modified) * 1000 };
  }

  async mkdirp(params) {
    await this.#sh('mkdir -p -- "$1"', [this.#target(params)], params);
  }

  async remove(params) {
    const flags = `${params.recursive ? "r" : ""}${params.force === false ? "" : "f"}`;
    const script = '[ "$2" = "" ] && exec rm -- "$1"; exec rm "-$2" -- "$1"';
    const target = this.#target(params);
    if (target === this.workdir || target === "/") throw new Error(`Sandbox path cannot be removed: ${target}`);
    await this.#sh(script, [target, flags], params);
  }

  async rename(params) {
    const from = this.#target({ ...params, filePath: params.from });
    const to = this.#target({ ...params, filePath: params.to });
    await this.#makeParent(to, params);
    await this.#sh('exec mv -T -- "$1" "$2"', [from, to], params);
  }

  async copyFile(params) {
    const from = this.resolvePath({ ...params, filePath: params.sourcePath }).containerPath;
    const to = this.#target({ ...params, filePath: params.destinationPath });
    if (params.mkdir !== false) await this.#makeParent(to, params);
    await this.#sh('exec cp -T -- "$1" "$2"', [from, to], params);
  }

  /** Where a change goes, for OpenClaw's own policy: the path with its links resolved, inside. */
  async resolvePinnedMutationTarget(params) {
    const { containerPath } = this.resolvePath(params);
    const found = await this.#sh('exec realpath -m -- "$(dirname -- "$1")"', [containerPath], params);
    const parent = found.stdout.toString("utf8").replace(/\n$/u, "");
    const policyPath = posix.join(parent, posix.basename(containerPath));
    return { policyPath, pinnedPath: policyPath };
  }

  #target(params) {
    const pinned = params.pinnedPath;
    return pinned === undefined ? this.resolvePath(params).containerPath : posix.normalize(pinned);
  }

  async #makeParent(target, { signal }) {
    await this.#sh('mkdir -p -- "$1"', [posix.dirname(target)], { signal });
  }

  async #sh(script, args, { signal, codes = [0] } = {}) {
    const done = await this.run({ script, args, signal, allowFailure: true });
    if (!codes.includes(done.code)) {
      throw new Error(done.stderr.toString("utf8").trim() || `it ended with ${done.code}`);
    }
    return done;
  }
}

function within(given, root) {
  return given === root || given.startsWith(`${root}/`);
}

function bytes({ data, encoding }) {
  return Buffer.isBuffer(data) ? data : Buffer.from(data, encoding ?? "utf8");
}

function refusal(result) {
  return new CrabpotError(result.error?.code ?? "internal", result.error?.message ?? result.stderr);
}
