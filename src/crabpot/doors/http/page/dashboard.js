// The dashboard. Everything shown came from sandboxes, agents or files: it becomes text nodes, never markup, and the
// server has already put the numbers of deceptive characters in their place, as it does for the terminal.

const KEPT = "crabpot-token", SHOWN = 200, STILL_MS = 700, LINGER_MS = 2000, MOST_GONE = 50;
const byId = (id) => document.getElementById(id);

// --- text -------------------------------------------------------------------------------------------------------

function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).map((child) => (child instanceof Node ? child : String(child ?? ""))));
  return made;
}

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString();
const moment = (seconds) => new Date(seconds * 1000).toLocaleString();
const megabytes = (bytes) => `${(bytes / 1048576).toFixed(1)} MB`;
const lasted = (ms) => ms < 1000 ? `${ms.toFixed(1)} ms` : ms < 60000 ? `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`
  : `${Math.floor(ms / 60000)} min ${Math.round(ms % 60000 / 1000)} s`;
const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

// --- the server -------------------------------------------------------------------------------------------------

let token = sessionStorage.getItem(KEPT);
// A link may bring the token behind the #, which no server and no log ever sees.
if (location.hash.startsWith("#token=")) {
  token = decodeURIComponent(location.hash.slice(7));
  sessionStorage.setItem(KEPT, token);
  history.replaceState(null, "", location.pathname);
}

async function ask(path, options = {}) {
  const headers = { authorization: `Bearer ${token}`, ...(options.body ? { "content-type": "application/json" } : {}) };
  const answer = await fetch(path, { ...options, headers, credentials: "omit", cache: "no-store" });
  if (answer.status === 401) { leave("This token is not known here."); throw new Error("401"); }
  return answer;
}

async function told(path, options) {
  const answer = await ask(path, options);
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error?.message ?? `status ${answer.status}`);
  return body;
}

function leave(why) {
  sessionStorage.removeItem(KEPT);
  token = null;
  byId("main").hidden = true;
  byId("login").hidden = false;
  byId("refused").textContent = why;
  byId("token").focus();
}

async function follow() {
  for (let wait = 500; token !== null; wait = Math.min(wait * 2, 8000)) {
    try {
      const answer = await ask("/v1/events");
      if (!answer.ok) { leave((await answer.json()).error?.message ?? "refused"); return; }
      byId("main").hidden = false;
      byId("login").hidden = true;
      byId("status").textContent = "live";
      wait = 500;
      for await (const [kind, data] of events(answer.body)) SHOW[kind]?.(data);
    } catch (error) {
      if (token === null) return;
    }
    byId("status").textContent = "the gateway is away; trying again …";
    await new Promise((resume) => setTimeout(resume, wait));
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const whole = (rest + value).split("\n\n");
    rest = whole.pop();
    for (const one of whole) {
      const lines = one.split("\n");
      const kind = lines.find((line) => line.startsWith("event: "))?.slice(7);
      const data = lines.find((line) => line.startsWith("data: "))?.slice(6);
      if (kind && data) yield [kind, JSON.parse(data)];
    }
  }
}

// --- approvals --------------------------------------------------------------------------------------------------

const cards = new Map(), gone = [];
const requests = byId("requests");
let pointed = 0;
for (const kind of ["pointerdown", "pointermove", "pointerup"]) requests.addEventListener(kind, () => { pointed = Date.now(); });

function showApprovals({ requests: waiting }) {
  const ids = new Set(waiting.map((one) => one.id));
  for (const [id, card] of cards) if (!ids.has(id)) { cards.delete(id); retire(card); }
  for (const one of waiting) {
    if (cards.has(one.id)) continue;
    const card = approval(one);
    cards.set(one.id, card);
    requests.append(card);
  }
  byId("waits").textContent = ids.size;
  byId("waits").classList.toggle("some", ids.size > 0);
  byId("waiting").hidden = !ids.size;
  byId("waiting").textContent = ids.size;
  document.title = ids.size ? `(${ids.size}) Crabpot` : "Crabpot";
  requests.querySelector(":scope > p")?.remove();
  if (!ids.size) requests.append(h("p", { class: "soft" }, "Nothing waits for an answer."));
}

// An agent that takes a request back must not thereby move another one under a finger that is about to press: the request
// keeps its slot until nobody points there. A finger gives no sign before it presses, so some time must pass as well.
function retire(card) {
  card.classList.add("gone");
  card.inert = true;
  gone.push({ card, since: Date.now() });
}

function sweep() {
  const now = Date.now();
  const pointing = requests.matches(":hover") || now - pointed < LINGER_MS;
  const free = (one) => document.hidden || (!pointing && now - one.since > LINGER_MS);
  while (gone.length && (free(gone[0]) || gone.length > MOST_GONE)) gone.shift().card.remove();
}

// Nor does a button count before it has stood still for a moment, whatever moved it: a request above that went, the page
// that was scrolled, or that it has only just come.
const places = new WeakMap();

function isStill(card) {
  const { left, top, width, height } = card.querySelector(".answers").getBoundingClientRect();
  const at = [left, top, width, height].map(Math.round).join(" "), known = places.get(card);
  if (known?.at !== at) places.set(card, { at, since: Date.now() });
  return known?.at === at && Date.now() - known.since >= STILL_MS;
}

function watch() {
  sweep();
  for (const card of cards.values()) {
    const still = isStill(card);
    for (const button of card.querySelectorAll("button")) if (button.disabled === still) button.disabled = !still;
  }
  requestAnimationFrame(watch);
}
watch();

// What came while nobody could see the page has only just come.
document.addEventListener("visibilitychange", () => { for (const card of cards.values()) places.delete(card); });
setInterval(() => { if (document.hidden) sweep(); }, 1000);

const CONFINED = {
  guarded: "in a guard: it sees the host read-only, without credentials and sockets but those given",
  host: "NOT AT ALL: it may do whatever you may",
  user: "by the other user's own rights alone",
  git: "git runs as you, in a repository of the gateway's own: nothing of the agent's is executed",
};

// What a field lets choose from, as `forms.choices` reads it: values, each with its title.
function choices(said) {
  const titled = [said.oneOf, said.anyOf].find(Array.isArray) ?? [];
  const listed = Array.isArray(said.enum) ? said.enum.map((value) => [value, value]) : titled.map((item) => [item?.const, item?.title ?? item?.const]);
  return listed.filter(([value]) => typeof value === "string");
}

// A field of a question's form, and what was filled in: undefined where it is left out. No server fills in anything.
function field(name, said, needed) {
  const label = { "aria-label": name };
  const pick = (options) => h("select", label, h("option", { value: "" }, "…"), options.map(([value, title]) => h("option", { value }, title)));
  const given = (input, read) => [input, () => (input.value === "" ? undefined : read(input.value))];
  let input = h("em", {}, "of a kind that no form has: leave it out"), read = () => undefined;
  if (said.type === "array") {
    const boxes = choices(said.items ?? {}).map(([value, title]) => [value, h("input", { type: "checkbox", "aria-label": `${name}: ${title}` }), title]);
    input = boxes.map(([, box, title]) => h("label", {}, box, ` ${title} `));
    read = () => { const ticked = boxes.filter(([, box]) => box.checked).map(([value]) => value); return ticked.length || needed ? ticked : undefined; };
  } else if (choices(said).length) [input, read] = given(pick(choices(said)), String);
  else if (said.type === "boolean") [input, read] = given(pick([["true", "yes"], ["false", "no"]]), (value) => value === "true");
  else if (["integer", "number"].includes(said.type)) [input, read] = given(h("input", { type: "number", step: said.type === "integer" ? "1" : "any", ...label }), Number);
  else if (said.type === "string") [input, read] = given(h("input", { maxlength: "4096", ...label }), String);
  const wants = [said.title, said.description, needed ? "" : "may be left out"].filter(Boolean).join(" · ");
  return { name, read, rows: [h("dt", {}, name), h("dd", {}, input, h("span", { class: "soft" }, ` ${wants}`))] };
}

function approval(one) {
  const minutes = h("input", { type: "number", min: "1", max: "10080", value: "10", "aria-label": "minutes" });
  const reason = h("input", { class: "reason", placeholder: "reason, shown to the agent", "aria-label": "reason" });
  const send = async (answer, how) => {
    // Looked at once more: what moved since the last frame may have moved under this very press.
    if (cards.get(one.id) !== card || !isStill(card)) return;
    try {
      await told(`/v1/approvals/${encodeURIComponent(one.id)}`, { method: "POST", body: JSON.stringify(answer) });
      byId("answered").textContent = `${one.shown}: ${how}`;
    } catch (error) {
      byId("answered").textContent = `${one.shown}: ${error.message}`;
    }
  };
  const why = () => (reason.value ? { reason: reason.value } : {});
  const asks = one.kind === "question", needed = new Set(one.form?.required ?? []);
  const form = asks ? Object.entries(one.form?.properties ?? {}).map(([name, said]) => field(name, said ?? {}, needed.has(name))) : [];
  const filled = () => (asks ? { content: Object.fromEntries(form.map(({ name, read }) => [name, read()]).filter(([, value]) => value !== undefined)) } : {});
  const keys = {
    a: () => send({ allowed: true, grant: "once", ...filled(), ...why() }, asks ? "answered" : "allowed once"),
    d: () => send({ allowed: false, ...why() }, asks ? "declined" : "denied"),
  };
  // What may execute the agent's files is allowed once at a time; the gateway would not grant more.
  if (one.lasting) {
    keys.s = () => send({ allowed: true, grant: "session", ...why() }, `allowed for this session, until ${one.ends_with} ends`);
    keys.m = () => send({ allowed: true, grant: "minutes", minutes: Number(minutes.value), ...why() },
      `allowed for ${counted(Number(minutes.value), "minute")}, or until ${one.ends_with} ends`);
  }
  const lists = one.kind === "connection";
  if (lists) keys.c = () => send({ allowed: true, grant: "config", ...why() }, `allowed, and listed for the agent ${one.agent}`);
  const rows = [
    ["session", one.session], ["sender", one.sender ?? "not named"],
    ["program", one.binary?.path], ["folder", one.folder?.path], ["bytes", one.shown_bytes],
    ["by", one.pattern && `${one.pattern}  (${one.source})`],
    ["confined", one.kind === "command" && (CONFINED[one.confine] ?? one.confine)],
    ["writes", one.writes.join(", ")], ["given", one.credentials.join(", ")],
  ].filter(([, value]) => value);
  const left = h("span", { class: "soft" });
  const whole_s = Math.max(1, Math.ceil(one.deadline - one.asked_at));
  const shrinking = h("progress", { max: String(whole_s), "aria-label": "time left to answer" });
  const tick = () => {
    const seconds = Math.max(0, Math.ceil(one.deadline - Date.now() / 1000));
    shrinking.value = Math.min(whole_s, seconds);
    left.textContent = ` ${lasted(seconds * 1000).replace("0.0 ms", "0 s")} left, then denied`;
  };
  tick();
  const timer = setInterval(() => (cards.get(one.id) === card ? tick() : clearInterval(timer)), 1000);
  const card = h("article", { tabindex: "0", "aria-label": `request ${one.id}: ${one.shown}` },
    h("h3", {}, { connection: "Connect to", question: "An MCP server asks" }[one.kind] ?? "Run on the host"),
    h("pre", {}, one.shown),
    h("dl", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, value)])),
    form.length ? h("dl", { class: "form" }, form.map(({ rows }) => rows)) : "",
    one.effects.length ? h("ul", {}, one.effects.map((item) => h("li", { class: "mono" }, item))) : "",
    one.dangers.length ? h("p", { class: "bad" }, `Dangerous: ${one.dangers.join("; ")}`) : "",
    one.executes.length ? h("details", { open: true }, h("summary", { class: "warn" }, "It would run what the agent may have written"),
      h("ul", {}, one.executes.map((item) => h("li", { class: "mono" }, item)))) : "",
    h("p", {}, shrinking, left),
    h("div", { class: "answers" },
      h("button", { class: "primary", onclick: keys.a }, asks ? "Answer" : "Allow once"),
      h("button", { class: "deny", onclick: keys.d }, asks ? "Decline" : "Deny"), reason,
      one.lasting || lists ? h("details", { class: "menu" }, h("summary", {}, "Allow more …"),
        one.lasting ? h("button", { class: "allow", onclick: keys.s }, "Allow for this session") : "",
        one.lasting ? [h("button", { class: "allow", onclick: keys.m }, "Allow for minutes:"), minutes] : "",
        lists ? h("button", { class: "allow", onclick: keys.c }, "Allow and add to the configuration") : "",
        one.lasting ? h("p", { class: "soft" }, `The session's and the minutes end with ${one.ends_with} at the latest.`) : "") : ""));
  for (const button of card.querySelectorAll("button")) button.disabled = true;
  card.addEventListener("keydown", (event) => {
    // Only on the request itself, not into a field of it.
    if (event.target !== card || event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
  return card;
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !["j", "k"].includes(event.key)) return;
  const all = [...cards.values()];
  const at = all.indexOf(document.activeElement.closest?.("article"));
  const next = all[event.key === "j" ? Math.min(at + 1, all.length - 1) : Math.max(at - 1, 0)];
  if (next) { next.focus(); event.preventDefault(); }
});

// --- the overview -----------------------------------------------------------------------------------------------

const HOUR_S = 3600, MINUTES = 60, seen = [];
const REFUSED = new Set(["denied", "approval_denied", "approval_timeout"]);
const isRefusal = (record) => (record.kind === "connection" ? record.answer === "refused" : REFUSED.has(record.error));

function count(records) {
  for (const one of records) {
    if (one.kind === "call" || isRefusal(one)) seen.push({ time: one.time, call: one.kind === "call", refused: isRefusal(one) });
  }
  showOverview();
}

function showOverview() {
  const now = Date.now() / 1000;
  while (seen.length && seen[0].time < now - HOUR_S) seen.shift();
  for (const [name, those] of [["calls", seen.filter((one) => one.call)], ["refusals", seen.filter((one) => one.refused)]]) {
    byId(`${name}-seen`).textContent = those.length;
    byId(`${name}-seen`).classList.toggle("some", name === "refusals" && those.length > 0);
    byId(`${name}-chart`).replaceChildren(...bars(those, now));
  }
}

// One bar for each minute of the last hour, the newest on the right.
function bars(those, now) {
  const minutes = Array(MINUTES).fill(0);
  for (const one of those) minutes[MINUTES - 1 - Math.max(0, Math.min(MINUTES - 1, Math.floor((now - one.time) / 60)))] += 1;
  const most = Math.max(1, ...minutes);
  return minutes.flatMap((number, at) => {
    if (!number) return [];
    const made = document.createElementNS("http://www.w3.org/2000/svg", "rect"), height = Math.max(2, 20 * number / most);
    for (const [name, value] of Object.entries({ x: at, y: 20 - height, width: 0.8, height })) made.setAttribute(name, value);
    return [made];
  });
}
setInterval(showOverview, 30000);

// --- sandboxes --------------------------------------------------------------------------------------------------

const before = new Map();

function showSandboxes({ sandboxes, left_off: leftOff }) {
  const now = Date.now() / 1000;
  const rows = sandboxes.map((one) => {
    const live = one.state === "live", limits = one.limits, usage = limits && one.usage;
    const last = before.get(one.name);
    const share = usage && last ? Math.max(0, (usage.cpu_s - last[0]) / (now - last[1])) : null;
    if (usage) before.set(one.name, [usage.cpu_s, now]);
    const bar = (value, most, text) => usage
      ? [h("meter", { value: String(value), max: String(most), "aria-label": text }), ` ${text}`] : "";
    return h("tr", {},
      h("td", {}, h("span", { class: "mono" }, one.name), h("br"), h("span", { class: "soft" }, one.scope_key)),
      h("td", { class: live ? "good" : "soft" }, live ? "live" : `kept since ${moment(one.created)}`),
      h("td", {}, !usage ? "" : limits.memory_bytes === null ? `${megabytes(usage.memory_bytes)}, no total limit`
        : bar(usage.memory_bytes, limits.memory_bytes, `${megabytes(usage.memory_bytes)} of ${megabytes(limits.memory_bytes)}`)),
      h("td", {}, usage ? bar(usage.processes, limits.processes, `${usage.processes} of ${limits.processes}`) : ""),
      h("td", {}, share === null ? "" : limits.cpus === null ? `${Math.round(share * 100)} %, no limit`
        : `${Math.round(share * 100)} % of ${limits.cpus * 100} %`),
      h("td", {}, live ? `${one.busy} running` : ""),
      h("td", {}, live ? h("button", { onclick: () => told(`/v1/sandboxes/${one.name}/stop`, { method: "POST" }),
        "aria-label": `stop ${one.name}` }, "Stop") : ""));
  });
  if (leftOff) rows.push(h("tr", {}, h("td", { colspan: "7", class: "soft" },
    `${leftOff} more are kept that were used longer ago: crabpot sandboxes list`)));
  byId("living").replaceChildren(...(rows.length ? rows
    : [h("tr", {}, h("td", { colspan: "7", class: "soft" }, "None yet; a session's first call makes one."))]));
}

// --- what runs now -----------------------------------------------------------------------------------------------

const running = new Map();

function showRunning({ calls }) {
  byId("runs").textContent = calls.length;
  const ids = new Set(calls.map((one) => one.call));
  for (const [id, made] of running) if (!ids.has(id)) { made.item.remove(); running.delete(id); }
  for (const one of calls) {
    if (!running.has(one.call)) {
      const made = { since: one.since, took: h("span", { class: "soft" }), output: h("pre", { tabindex: "0", "aria-label": "its last output" }) };
      made.item = h("li", {}, h("span", { class: "mono" }, what(one).slice(0, 300)), " ", made.took, " ", storyOf(one.session), made.output);
      running.set(one.call, made);
      byId("running").append(made.item);
    }
    const { output } = running.get(one.call);
    output.hidden = !one.output.length;
    output.textContent = one.output.join("\n");
    output.scrollTop = output.scrollHeight;
  }
  age();
}

const age = () => { for (const { since, took } of running.values()) took.textContent = `for ${lasted(Math.max(1000, Date.now() - since * 1000))}`; };
setInterval(age, 1000);

const styleOf = (outcome) => (/^(ok|allowed)/.test(outcome) ? "good" : /^exit/.test(outcome) ? "warn" : /^($|begins|\d)/.test(outcome) ? "soft" : "bad");

// A session's name leads to its story.
const storyOf = (session) => (session
  ? h("button", { class: "link", type: "button", title: "its story", onclick: () => { byId("of").value = session; replay(); byId("audit").scrollIntoView(); } }, session) : "");

// --- the feed of calls, and the last report -----------------------------------------------------------------------

const what = (record) => {
  if (record.kind === "connection") return `connection to ${record.destination}`;
  const args = record.args ?? {};
  return [record.tool ?? record.kind, args.command ?? args.path ?? args.pattern ?? record.shown ?? record.sandbox ?? record.action ?? ""].join(" ");
};

const outcome = (record) => {
  if (record.kind === "call") {
    return record.error ? ["bad", record.error] : record.success ? ["good", "ok"] : ["warn", `exit ${record.exit_code}`];
  }
  if (record.kind === "connection") return [{ refused: "bad", failed: "warn" }[record.answer] ?? "soft", record.answer];
  return ["soft", record.kind];
};

// The texts in it have their backslashes already.
const whole = (record) => JSON.stringify(record, null, 1).replaceAll("\\\\", "\\");

function row(record) {
  const [style, word] = outcome(record);
  return h("tr", {}, h("td", { class: "when" }, clock(record.time)), h("td", { class: style }, word),
    h("td", { class: record.place === "host" ? "warn" : "" }, record.place ?? ""),
    h("td", { class: "mono" }, what(record).slice(0, 300)),
    h("td", { class: "when" }, record.duration_ms === undefined ? "" : lasted(record.duration_ms)),
    h("td", {}, storyOf(record.session), h("br"), h("span", { class: "soft" }, record.because ?? "", record.rule ? ` (${record.rule})` : "")));
}

function showRecords({ records }) {
  for (const record of records) if (record.kind === "verify") showReport(record);
  count(records);
  if (byId("pause").checked) return;
  const feed = byId("feed");
  feed.prepend(...records.slice(-SHOWN).reverse().map(row));
  while (feed.rows.length > SHOWN) feed.lastElementChild.remove();
}

function showReport(record) {
  // What did not hold, or holds in part, comes first.
  const order = (state) => ["broken", "error", "degraded", "open"].indexOf(state) + 1 || 9;
  const claims = Object.entries(record.claims ?? {}).filter(([, count]) => count).sort(([one], [other]) => order(one) - order(other));
  const counts = claims.map(([state, count]) => `${count} ${state}`).join(", ");
  byId("report").replaceChildren(
    h("p", { class: record.held ? "good" : "bad" }, record.held ? "Every claim held." : "Not every claim held."),
    record.claims?.degraded ? h("p", { class: "warn" }, `${counted(record.claims.degraded, "claim")} held, by walls that this machine keeps only in part`) : "",
    h("p", {}, `${counts}; ${record.backend}, ${moment(record.time)}`, record.only?.length ? `; only ${record.only.join(", ")}` : ""),
    record.failed?.length ? h("ul", {}, record.failed.map((name) => h("li", { class: "bad" }, name.replaceAll("_", " ")))) : "",
    h("p", { class: "soft mono" }, `digest ${record.digest ?? ""}`));
}

async function findReport() {
  const { records } = await told(`/v1/audit?limit=1&shown=1&text=${encodeURIComponent('"kind": "verify"')}`);
  if (records.length) showReport(records[0]);
  else byId("report").replaceChildren(h("p", {}, "Nobody has attacked a sandbox of this gateway yet: ", h("code", {}, "crabpot verify")));
}

// --- explain ----------------------------------------------------------------------------------------------------

byId("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const command = byId("command").value;
  const query = command ? `&command=${encodeURIComponent(command)}` : "";
  try {
    const answer = await told(`/v1/sessions/${encodeURIComponent(byId("session").value)}/explain?shown=1${query}`);
    byId("picture").replaceChildren(...picture(answer));
  } catch (error) {
    byId("picture").replaceChildren(h("p", { class: "bad" }, error.message));
  }
});

function box(question, answer, because, style) {
  return h("li", { class: style }, h("div", { class: "question" }, question), h("div", { class: "answer" }, answer),
    h("div", { class: "soft" }, because));
}

function picture(answer) {
  const { tools, placement, sandbox, elevated, command } = answer;
  const inside = placement.where === "sandbox";
  const patterns = elevated.patterns.filter((one) => one.reachable).map((one) => one.pattern);
  const steps = [
    box("Which tools", tools.effective.join(", ") || "none",
      `profile ${tools.profile ?? "none"}; ${Object.keys(tools.denied).length} denied`, tools.effective.length ? "good" : "bad"),
    box("Where", inside ? `${sandbox.backend} sandbox` : "the host", `${placement.because} (${placement.source})`, inside ? "good" : "warn"),
    box("When out", patterns.length ? patterns.join(", ") : "never",
      elevated.enabled ? "elevated is enabled" : "elevated is not enabled", patterns.length ? "warn" : "good"),
  ];
  const made = [h("ol", { class: "path", "aria-label": "the three questions" }, steps)];
  if (command) {
    const ends = { sandbox: ["stays in the sandbox", "good"], host: ["runs on the host", "warn"], blocked: ["is blocked", "bad"] };
    const [end, style] = ends[command.where] ?? [command.where, "bad"];
    made.push(h("h3", {}, "The path of the command"), h("ol", { class: "path", "aria-label": "the path of the command" },
      box("Read as", command.argv ? command.argv.map((word) => `"${word.replaceAll('"', '\\"')}"`).join(" ") : "not one simple command", "", ""),
      command.approval ? box("A person", "must agree", "on the terminal, here, or crabpot approvals", "warn") : "",
      box("And then", `it ${end}`, command.because, style)));
  }
  if (answer.warnings.length) made.push(h("ul", {}, answer.warnings.map((one) => h("li", { class: "warn" }, one))));
  return made;
}

// --- changes under review ---------------------------------------------------------------------------------------

const changesOf = (session, rest = "") => `/v1/sessions/${encodeURIComponent(session)}/changes${rest}`;

async function review() {
  const session = byId("reviewed").value;
  try {
    const { files, commits, folder, mechanism } = await told(changesOf(session, "?shown=1"));
    byId("reviewing").textContent = `${counted(files.length, "change")} and ${counted(commits.length, "branch").replace("branchs", "branches")} ` +
      `with commits, over ${folder} (${mechanism})`;
    byId("changed").replaceChildren(...files.map((one) => changeRow(session, one)));
    byId("apply-all").hidden = !files.length && !commits.length;
    byId("undo-last").hidden = false;
  } catch (error) {
    byId("reviewing").textContent = error.message;
    byId("changed").replaceChildren();
  }
  byId("sides").replaceChildren();
}

function changeRow(session, one) {
  const held = one.gate !== null;
  const why = [one.conflict ? "changed on the host too" : "", one.gate ?? "", one.marked ?? ""].filter(Boolean).join("; ");
  const act = (deed, body) => () => decide(session, deed, { paths: [one.path], ...body });
  return h("tr", {}, h("td", {}, `${one.action} ${one.type}`), h("td", { class: "mono" }, one.shown),
    h("td", { class: one.conflict ? "bad" : held ? "warn" : "soft" }, why),
    h("td", { class: "answers" },
      h("button", { type: "button", onclick: () => compare(session, one) }, "Compare"),
      held ? h("button", { type: "button", class: "deny", title: one.gate, onclick: act("apply", { gated: true }) }, `Apply, though ${one.gate}`)
        : h("button", { type: "button", class: "allow", onclick: act("apply", {}) }, "Apply"),
      h("button", { type: "button", onclick: act("discard", {}) }, "Discard")));
}

async function decide(session, deed, body) {
  let said;
  try {
    const done = await told(changesOf(session, `/${deed}`), { method: "POST", body: JSON.stringify(body) });
    const left = Object.entries(Object.groupBy?.(done.left ?? [], (one) => one.why) ?? {});
    const stays = left.map(([why, those]) => `${counted(those.length, "path")} left (${why})`);
    said = [`${deed}: ${counted((done.applied ?? done.discarded).length, "path")}`, ...(done.branches ?? []), ...stays].join("; ");
  } catch (error) {
    said = error.message;
  }
  await review();
  byId("reviewing").textContent = said;
}

async function compare(session, one) {
  try {
    const { diff, sides } = await told(changesOf(session, `/diff?shown=1&path=${encodeURIComponent(one.path)}`));
    const both = sides.flatMap((side) => side.base === "unknown"
      ? [h("p", {}, "It changed on the host too. What both began from is not kept.")]
      : [["host", "What the host made of it"], ["agent", "What the agent made of it"]].flatMap(([name, title]) =>
        [h("h4", {}, title), sideBySide(side[name])]));
    byId("sides").replaceChildren(h("h3", { class: "mono" }, one.shown), sideBySide(diff), ...both);
  } catch (error) {
    // A name that is not text cannot stand in an address.
    byId("sides").replaceChildren(h("p", { class: "bad" }, `${error.message}; see crabpot changes diff`));
  }
}

// Both sides of a unified diff, line beside line: what goes on the left, what comes on the right.
function sideBySide(diff) {
  const rows = [], less = [], more = [];
  let [left, right] = [0, 0];
  const cell = (number, text, style) => [h("td", { class: "number" }, number), h("td", { class: style }, text)];
  const flush = () => {
    for (let at = 0; at < Math.max(less.length, more.length); at++)
      rows.push(h("tr", {}, cell(...(less[at] ?? ["", "", ""])), cell(...(more[at] ?? ["", "", ""]))));
    less.length = more.length = 0;
  };
  for (const line of diff.split("\n")) {
    if (line.startsWith("diff --git ")) { flush(); left = right = 0; }
    const hunk = line.match(/^@@ -(\d+)(?:,\d+)? \+(\d+)/);
    if (hunk) {
      flush();
      [left, right] = [Number(hunk[1]), Number(hunk[2])];
      rows.push(h("tr", {}, h("td", { class: "soft", colspan: 4 }, line)));
    } else if (left + right === 0) rows.push(h("tr", {}, h("td", { class: "soft", colspan: 4 }, line)));
    else if (line.startsWith("-")) less.push([left++, line.slice(1), "less"]);
    else if (line.startsWith("+")) more.push([right++, line.slice(1), "more"]);
    else if (line.startsWith(" ")) { flush(); rows.push(h("tr", {}, cell(left++, line.slice(1), ""), cell(right++, line.slice(1), ""))); }
  }
  flush();
  return h("table", { class: "sides", "aria-label": "the host's version and the agent's" }, h("tbody", {}, rows));
}

byId("review").addEventListener("submit", (event) => { event.preventDefault(); review(); });
byId("apply-all").addEventListener("click", () => decide(byId("reviewed").value, "apply", {}));
byId("undo-last").addEventListener("click", () => decide(byId("reviewed").value, "undo", {}));
byId("reviewed").addEventListener("focus", async () => {
  const { layers } = await told("/v1/layers");
  byId("under-review").replaceChildren(...layers.map((one) => h("option", { value: one.session }, one.folder)));
});

// --- the audit log ----------------------------------------------------------------------------------------------

let page = null;

async function search(older) {
  const query = new URLSearchParams({ limit: "50", shown: "1" });
  if (byId("text").value) query.set("text", byId("text").value);
  if (byId("of").value) query.set("session", byId("of").value);
  if (older && page) query.set("before", page);
  try {
    const { records, before: next } = await told(`/v1/audit?${query}`);
    page = next;
    byId("older").hidden = !next;
    byId("found").textContent = records.length ? counted(records.length, "record") : "no record has that";
    const rows = records.reverse().map((record) => h("tr", {}, h("td", {}, record.number), h("td", { class: "when" }, moment(record.time)),
      h("td", {}, record.kind), h("td", { class: "mono" }, what(record).slice(0, 200)),
      h("td", {}, h("details", {}, h("summary", {}, "show"), h("pre", {}, whole(record).split("\n").map((line) => [line, h("br")]))))));
    byId("records").replaceChildren(...rows);
  } catch (error) {
    byId("found").textContent = error.message;
  }
}

async function replay() {
  const session = byId("of").value;
  try {
    const { chapters } = await told(`/v1/sessions/${encodeURIComponent(session)}/replay?shown=1`);
    byId("found").textContent = counted(chapters.length, "chapter");
    byId("story").hidden = false;
    byId("story").replaceChildren(...chapters.map((one) => h("li", { class: styleOf(one.outcome) },
      h("div", {}, h("span", { class: "soft" }, `${moment(one.time)} `), h("span", { class: "mono" }, one.what), " ",
        h("b", { class: styleOf(one.outcome) }, one.outcome), h("span", { class: "soft" }, ` ${[one.where, one.because].filter(Boolean).join(": ")}`)),
      one.changed.length ? h("details", {}, h("summary", {}, `changed ${one.changed.join(", ")}`), sideBySide(one.diff)) : "")));
  } catch (error) {
    byId("found").textContent = session ? error.message : "name the session to replay";
    byId("story").hidden = true;
  }
}

byId("replay").addEventListener("click", replay);
byId("search").addEventListener("submit", (event) => { event.preventDefault(); search(false); });
byId("older").addEventListener("click", () => search(true));

// --- the way in -------------------------------------------------------------------------------------------------

const SHOW = { approvals: showApprovals, sandboxes: showSandboxes, records: showRecords, running: showRunning };

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  sessionStorage.setItem(KEPT, token);
  byId("token").value = "";
  begin();
});

function begin() {
  if (token === null) { leave(""); return; }
  follow();
  findReport().catch(() => {});
}

begin();
