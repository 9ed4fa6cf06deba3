"use strict";
// Everything that comes from data becomes text nodes: nothing here is ever parsed as HTML.
const POLL_MS = 1000;
// Below the page's own address, which a proxy may have moved, with a slash at its end or without.
const STATE = `${location.pathname.replace(/\/$/, "")}/state.json`;
const UNKNOWN = "-";
const byId = (id) => document.getElementById(id);

const isKnown = (value) => value !== null && value !== undefined;
const whole = (value) => isKnown(value) ? Math.round(value).toLocaleString("en") : UNKNOWN;
// A tile has room for six digits.
const rate = (value) => !isKnown(value) ? UNKNOWN : value >= 1e6 ? short(value) : value > 0 && value < 10 ? value.toFixed(1) : whole(value);
const perSecond = (value, unit) => isKnown(value) ? `${rate(value)} ${unit}/s` : UNKNOWN;
const percent = (share) => `${Math.round(100 * share)} %`;
const megabytes = (bytes) => bytes < 1e9 ? `${whole(bytes / 1048576)} MB` : `${(bytes / 1073741824).toFixed(1)} GB`;
const short = (value) => value.toLocaleString("en", { notation: "compact", maximumFractionDigits: 1 });
const compact = (value) => value < 1e7 ? whole(value) : short(value);
const milliseconds = (ms) => !isKnown(ms) ? UNKNOWN : ms < 10000 ? `${whole(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
const precise = (ms) => ms < 9.95 ? `${ms.toFixed(1)} ms` : milliseconds(ms);
const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");

function duration(seconds) {
  if (!isKnown(seconds)) return UNKNOWN;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
}

function usage(one) {
  const parts = [];
  if (isKnown(one.cpu_share)) parts.push(percent(one.cpu_share));
  if (isKnown(one.rss_bytes)) parts.push(megabytes(one.rss_bytes));
  return parts.join(" · ");
}

function say(id, text) {
  const element = byId(id);
  if (element.textContent !== text) element.textContent = text;
}

function make(name, content, className) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(content);
  return element;
}

function badge(state) {
  const element = make("span", state, "badge");
  element.dataset.state = state;
  return element;
}

// columns: [title, class]; rows: lists of texts or elements
function fill(id, columns, rows) {
  const head = document.createElement("tr");
  for (const [title, className] of columns) {
    const cell = make("th", title, className);
    cell.scope = "col";
    head.append(cell);
  }
  const body = document.createElement("tbody");
  for (const row of rows) {
    const line = document.createElement("tr");
    row.forEach((content, at) => line.append(make("td", content, columns[at][1])));
    body.append(line);
  }
  const top = document.createElement("thead");
  top.append(head);
  byId(id).replaceChildren(top, body);
}

function showHealth(state) {
  const roles = Object.values(state.roles);
  const worst = ["unknown", "gone", "waiting"].find((each) => roles.some((role) => role.state === each)) || "ready";
  const names = Object.keys(state.roles).filter((name) => state.roles[name].state === worst);
  byId("health").dataset.state = worst;
  const sentence = { ready: `all ${state.summary.roles} roles ready`, unknown: "state unknown" }[worst];
  say("health-text", sentence || `${worst}: ${names.join(", ")}`);
}

function showTroubles(troubles) {
  const box = byId("troubles");
  const texts = troubles.join("\n");
  if (box.dataset.texts === texts) return;
  box.dataset.texts = texts;
  box.hidden = troubles.length === 0;
  box.replaceChildren(...troubles.map((text) => make("p", text, "trouble")));
}

function showFigures(state) {
  const sum = state.summary;
  say("in", rate(sum.in_per_s));
  say("tuples", isKnown(sum.tuples) ? `${compact(sum.tuples)} so far` : "");
  say("out", rate(sum.out_per_s));
  say("frames", isKnown(sum.frames_under_way) ? `${whole(sum.frames_under_way)} frames under way` : "");
  say("matches", rate(sum.matches_per_s));
  say("matches-all", isKnown(sum.matches) ? `${compact(sum.matches)} so far` : "");
  say("p50", milliseconds(sum.latency_ms_p50));
  say("p99", isKnown(sum.latency_ms_p99) ? `p99 ${milliseconds(sum.latency_ms_p99)} in the last minute` : "no result in the last minute");
  say("unanswered", `oldest unanswered: ${!isKnown(sum.unanswered_ms) ? "not known" : sum.unanswered_ms ? milliseconds(sum.unanswered_ms) : "none"}`);
  say("open", isKnown(sum.open_rows) ? `open rows: ${compact(sum.open_rows)}${sum.open_rows ? `, oldest for ${milliseconds(sum.open_ms)}` : ""}` : "");
  say("held", sum.held ?? "");
  say("dead", whole(sum.dead_letters));
  say("epoch", isKnown(sum.epoch) ? `epoch ${sum.epoch}, frame ${whole(sum.frames_out)}` : "");
  const verdict = sum.completeness;
  say("completeness", verdict ? `${verdict.is_exact ? "exact" : `complete to ${percent(verdict.ratio)}, not exact`}, checked at ${clock(verdict.checked_ms)}` : "");
}

// The bar shows the hops that follow each other; the table has, besides, what happens meanwhile.
function showHops(hops) {
  const inTurn = hops.filter((one) => isKnown(one.share));
  byId("hops-bar").replaceChildren(...inTurn.map((one) => {
    const part = make("span", one.share < 0.09 ? "" : one.hop);
    part.style.flexGrow = one.share;
    part.dataset.hop = one.hop;
    part.title = `${one.hop}, ${one.about}: ${percent(one.share)}`;
    return part;
  }));
  const columns = [["hop"], ["p50", "number"], ["p99", "number"], ["share", "number"], ["in", "long"]];
  fill("hops-table", hops.length ? columns : [], hops.map((one) => {
    const name = make("span", one.hop, isKnown(one.share) ? "" : "meanwhile");
    name.title = one.about;
    const place = one.services > 1 ? `${one.service}, the slowest of ${one.services}` : one.service;
    return [name, precise(one.p50_ms), precise(one.p99_ms), isKnown(one.share) ? percent(one.share) : "", place];
  }));
  say("hops-note", hops.length ? "Of the last minute; shares are of means. Indented: what happens meanwhile." : "no frame in the last minute");
}

function showEvents(events) {
  byId("events").replaceChildren(...events.map((one) => make("p", `${clock(one.wall_ms)} ${one.text}`, "small")));
}

function showWindows(windows) {
  byId("windows").replaceChildren(...windows.map((one) => {
    const box = make("div", "", "window");
    const share = one.tuples_max && isKnown(one.tuples) ? one.tuples / one.tuples_max : null;
    const all = one.tuples_max ? `${whole(one.tuples)} of ${whole(one.tuples_max)}` : `${whole(one.tuples)} tuples`;
    box.append(make("b", isKnown(share) ? percent(share) : one.stream), make("span", isKnown(share) ? `${one.stream}: ${all}` : all, "of"));
    if (isKnown(share)) {
      const bar = document.createElement("progress");
      bar.value = share;
      bar.setAttribute("aria-label", `window of ${one.stream}`);
      box.append(bar);
    }
    return box;
  }));
}

function write(group, field, text) {
  const element = group.querySelector(`[data-field=${field}]`);
  if (element && element.textContent !== text) element.textContent = text;
}

function showFlow(state) {
  for (const [name, role] of Object.entries(state.roles)) {
    const group = byId(`role-${name}`);
    if (!group) continue;
    group.dataset.state = role.state;
    write(group, "state", role.state);
    write(group, "rate", role.state === "off" ? "" : isKnown(role.tuples_per_s) ? perSecond(role.tuples_per_s, "tuples") : perSecond(role.records_per_s, "records"));
    write(group, "lag", isKnown(role.lag) ? `lag ${role.lag < 1e4 ? whole(role.lag) : short(role.lag)}` : "");
    const running = { off: "not needed", unknown: "" }[role.state];
    const grid = role.grid ? `, ${role.grid.rows} × ${role.grid.columns}` : "";
    write(group, "instances", isKnown(running) ? running : `${role.instances} of ${role.expected} up${grid}`);
    write(group, "usage", usage(role));
  }
  for (const [name, topic] of Object.entries(state.topics)) {
    const group = byId(`topic-${name}`);
    if (group) write(group, "rate", isKnown(topic.records_per_s) ? `${rate(topic.records_per_s)}/s` : UNKNOWN);
  }
  for (const line of document.querySelectorAll(".line")) {
    const topic = state.topics[line.dataset.topic];
    const role = line.dataset.role;
    const own = line.dataset.way === "read" ? topic.read_per_s[role] : topic.records_per_s;
    line.classList.toggle("moving", own > 0);
    const verb = line.dataset.way === "read" ? "reads" : "writes";
    line.querySelector("title").textContent = `${role} ${verb} ${line.dataset.topic}: ${perSecond(own, "records")}`;
  }
}

function showResults(results) {
  const rows = results ? results.rows : [];
  const numeric = (at) => rows.every((row) => /^-?[\d.]*$/.test(row[at]));
  const columns = results ? results.columns.map((name, at) => [name, numeric(at) ? "number" : "long"]) : [];
  fill("results", columns, rows);
  say("results-note", !results ? "not read yet" : rows.length ? "" : "none yet");
}

function cut(content) {
  const element = content instanceof Node ? content : make("span", content);
  element.title = element.textContent;
  return element;
}

function sentAgain(letters) {
  const reasons = [...new Set(letters.map((one) => one.reason))].sort();
  return `to send them again: spojoin replay-dead-letters QUERY.yaml${reasons.map((one) => ` --reason ${one}`).join("")}`;
}

function showLetters(letters) {
  const columns = [["when"], ["why", "long"], ["where", "cut"], ["message", "cut"]];
  const rows = (letters || []).map((one) => [clock(one.time_ms), `${one.reason}: ${one.detail}`, cut(one.place), cut(make("code", one.value))]);
  fill("letters", rows.length ? columns : [], rows);
  say("letters-note", !letters ? "not read yet" : rows.length ? sentAgain(letters) : "none: every message could be used");
}

function showServices(services) {
  const columns = [["service"], ["state", "long"], ["per second", "number"], ["lag", "number"], ["CPU · memory", "number"], ["retries", "number"], ["up", "number"]];
  fill("services", columns, services.map((one) => {
    const state = make("span", badge(one.state));
    if (one.state !== "ready" && one.state !== "unknown") state.append(make("span", ` ${one.said.replace("waiting: ", "")}`, "small"));
    const speed = isKnown(one.tuples_per_s) ? `${rate(one.tuples_per_s)} tuples` : isKnown(one.records_per_s) ? `${rate(one.records_per_s)} records` : UNKNOWN;
    return [one.service, state, speed, whole(one.lag), usage(one) || UNKNOWN, whole(one.retries), duration(one.uptime_s)];
  }));
}

function showTopics(topics) {
  const columns = [["topic"], ["from"], ["to", "long"], ["records/s", "number"]];
  fill("topics", columns, Object.values(topics).map((one) => [
    one.names.join(", "), one.writers.join(", ") || "your programs", one.readers.join(", ") || "your programs", rate(one.records_per_s),
  ]));
}

function show(state) {
  document.body.classList.remove("stale");
  say("about", `exact stream join by spojoin · ${state.query.streams.join(" and ")} · window of ${state.query.window}`);
  say("query", state.query.text);
  say("as-of", `as of ${clock(state.wall_ms)}`);
  showHealth(state);
  showTroubles(state.troubles);
  showFigures(state);
  showWindows(state.windows);
  showHops(state.hops);
  showFlow(state);
  showResults(state.results);
  showLetters(state.dead_letters);
  showServices(state.services);
  showEvents(state.events);
  showTopics(state.topics);
}

async function poll() {
  try {
    const answer = await fetch(STATE, { cache: "no-store", redirect: "manual" });
    // A proxy that asks for a login sends elsewhere, or refuses.
    if (answer.type === "opaqueredirect" || answer.status === 401) throw new Error("the login has ended: reload the page");
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
  } catch (error) {
    document.body.classList.add("stale");
    byId("health").dataset.state = "unknown";
    say("health-text", "state unknown");
    showTroubles([`This page's service does not answer (${error.message}); what is shown is old.`]);
  }
  setTimeout(poll, POLL_MS);
}

for (const group of document.querySelectorAll(".role, .topic")) {
  const name = group.id.slice(group.id.indexOf("-") + 1);
  const attribute = group.classList.contains("role") ? "role" : "topic";
  const light = (isLit) => document.querySelectorAll(`.line[data-${attribute}="${name}"]`).forEach((line) => line.classList.toggle("lit", isLit));
  group.addEventListener("mouseenter", () => light(true));
  group.addEventListener("mouseleave", () => light(false));
}
poll();
