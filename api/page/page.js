// The page asks the same routes as everybody: /fleet/v1/status, /capacity and /nodes, every two seconds while it is visible.
"use strict";

const PAGE_SIZE = 50;
const EVERY_MS = 2000;
const at = (id) => document.getElementById(id);
let cursor = null;
let nextCursor = null;

async function ask(path) {
  const token = sessionStorage.getItem("token");
  const answer = await fetch("/fleet/v1" + path, token ? { headers: { Authorization: "Bearer " + token } } : {});
  if (answer.status === 401) {
    if (!at("ask").open) at("ask").showModal();
    throw new Error("an admin token is needed");
  }
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.detail || body.title);
  return body;
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let i = 0;
  while (Math.abs(n) >= 1024 && i < units.length - 1) { n /= 1024; i += 1; }
  return n.toLocaleString("en", { maximumFractionDigits: n < 10 && i > 0 ? 1 : 0 }) + " " + units[i];
}

function amount(resource, n) {
  if (n === null || n === undefined) return "unknown";
  return resource === "memory" || resource === "disk" ? bytes(n) : n.toLocaleString("en", { maximumFractionDigits: 2 });
}

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function card(row) {
  const made = element("div", undefined, "card");
  made.append(element("h2", row.resource), element("div", amount(row.resource, row.total), "total"));
  made.append(element("p", `allocated ${amount(row.resource, row.allocated)} · free ${amount(row.resource, row.free)}`));
  if (row.used !== null && row.used !== undefined) made.append(element("p", `used ${amount(row.resource, row.used)}`));
  const bar = element("div", undefined, "bar");
  const filled = element("i");
  const share = row.total > 0 ? (row.used ?? row.allocated ?? 0) / row.total : 0;
  filled.style.width = Math.min(100, Math.max(0, 100 * share)) + "%";
  bar.append(filled);
  made.append(bar);
  return made;
}

// What every machine has comes first, open names such as gpu.<model> after it.
const FIRST = ["cpu", "memory", "disk", "gpu", "vm"];

function inOrder(rows) {
  const rank = (row) => (FIRST.includes(row.resource) ? FIRST.indexOf(row.resource) : FIRST.length);
  return [...rows].sort((a, b) => rank(a) - rank(b));
}

function usedOfTotal(node, resource) {
  const found = (node.resources || []).find((r) => r.resource === resource);
  if (!found) return element("td", "none", "none");
  const used = found.used === null || found.used === undefined ? "" : amount(resource, found.used) + " / ";
  return element("td", used + amount(resource, found.total));
}

function ago(text, now) {
  if (!text) return "never";
  const s = Math.max(0, (now - Date.parse(text)) / 1000);
  return s < 90 ? s.toFixed(0) + " s ago" : s < 5400 ? (s / 60).toFixed(0) + " min ago" : text.replace("T", " ").slice(0, 19);
}

function row(node, now) {
  const made = element("tr");
  made.append(element("td", node.id), element("td", node.state, "state-" + node.state));
  made.append(element("td", node.zone ?? ""), element("td", node.pool ?? ""));
  for (const resource of ["cpu", "memory", "gpu"]) made.append(usedOfTotal(node, resource));
  made.append(element("td", ago(node.last_heartbeat_at, now)));
  return made;
}

function query() {
  const asked = new URLSearchParams({ limit: String(PAGE_SIZE) });
  for (const [name, value] of new FormData(at("filters"))) if (value) asked.set(name, value);
  if (asked.get("state") === "retired") asked.set("include_retired", "true");
  if (cursor) asked.set("cursor", cursor);
  return asked;
}

async function refresh() {
  try {
    const [status, capacity, nodes] = await Promise.all([ask("/status"), ask("/capacity"), ask("/nodes?" + query())]);
    const now = Date.parse(nodes.as_of.time);
    at("status").className = "";
    at("status").textContent = `${status.nodes.toLocaleString("en")} nodes · position ${status.fleet_seq} · ${status.lag_ms} ms behind`;
    at("capacity").replaceChildren(...inOrder(capacity.items).map(card));
    at("nodes").replaceChildren(...nodes.items.map((node) => row(node, now)));
    at("shown").textContent = nodes.items.length ? `${nodes.items.length} nodes on this page` : "no node matches";
    nextCursor = nodes.next_cursor;
    at("next").disabled = !nextCursor;
    at("first").disabled = !cursor;
  } catch (problem) {
    at("status").className = "bad";
    at("status").textContent = problem.message;
  }
}

at("filters").addEventListener("input", () => { cursor = null; refresh(); });
at("filters").addEventListener("submit", (event) => event.preventDefault());
at("next").addEventListener("click", () => { cursor = nextCursor; refresh(); });
at("first").addEventListener("click", () => { cursor = null; refresh(); });
at("ask").addEventListener("close", () => {
  sessionStorage.setItem("token", at("ask").querySelector("input").value);
  refresh();
});
setInterval(() => { if (!document.hidden && !at("ask").open) refresh(); }, EVERY_MS);
refresh();
