"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const GLYPHS = { "zero-copy": "=", copied: "c", refused: "–", unprotected: "!", wrong: "≠", crashed: "†", hung: "∞" };
const MEANS = {
  "zero-copy": "the right values at the producer's address",
  copied: "the right values in other memory",
  refused: "an exception",
  unprotected: "shared, and the consumer can write read-only memory",
  wrong: "other values, without an exception",
  crashed: "the process died",
  hung: "the time limit was exceeded",
};
const RANK = { "zero-copy": 4, copied: 3, refused: 2, unprotected: 1, wrong: 1, crashed: 0, hung: 0 };
const CHANGES = {
  works: "works only through dlbridge",
  safe: "refused by dlbridge, wrong directly",
  shares: "shared by dlbridge, copied directly",
  same: "no difference",
  copies: "copied by dlbridge, shared directly",
  worse: "dlbridge is worse",
};
const WAYS = { direct: "directly", asdlpack: "asdlpack", to: "to", converted: "without dlbridge, converted" };
const producers = Object.keys(data.producers), consumers = Object.keys(data.consumers);
const kindNames = data.kinds.filter((kind) => kind !== "none");

function element(name, options = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") made.className = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const byPair = new Map();
for (const [producer, consumer, rows] of data.pairs) {
  const cells = rows.map((row) => {
    const [dtype, layout] = data.specs[row[0]];
    const ways = {};
    data.ways.forEach((way, i) => {
      ways[way] = { kind: data.kinds[row[1 + 2 * i]], detail: data.details[row[2 + 2 * i]] };
    });
    return { dtype, layout, ways };
  });
  byPair.set(producer + "\n" + consumer, cells);
}

function change(before, after) {
  const from = RANK[before.kind], to = RANK[after.kind];
  if (from === to) return "same";
  if (to > from) return from >= 3 ? "shares" : to >= 3 ? "works" : "safe";
  return to >= 3 ? "copies" : "worse";
}

const field = (id) => document.getElementById(id).value;
function through(cell) {
  return field("way") === "best" && cell.ways.to.kind !== "none" ? cell.ways.to : cell.ways.asdlpack;
}
function before(cell) {
  return field("against") === "converted" && cell.ways.converted.kind !== "none" ? cell.ways.converted : cell.ways.direct;
}
function wanted(cell) {
  const { dtype, layout, only } = { dtype: field("dtype"), layout: field("layout"), only: field("only") };
  if (dtype && cell.dtype !== dtype) return false;
  if (layout && cell.layout !== layout) return false;
  return !only || change(before(cell), through(cell)) === only;
}

function counts(outcomes) {
  const found = {};
  for (const { kind } of outcomes) found[kind] = (found[kind] || 0) + 1;
  return found;
}
const right = (found) => (found["zero-copy"] || 0) + (found.copied || 0);
function words(found) {
  return kindNames.filter((kind) => found[kind]).map((kind) => `${found[kind]} ${kind}`).join(", ") || "nothing";
}
function bar(found, total) {
  const made = element("span", { class: "bar", "aria-hidden": "true" });
  for (const kind of kindNames) {
    if (!found[kind]) continue;
    const part = element("span", { class: kind });
    part.style.width = `${(100 * found[kind]) / total}%`;
    made.append(part);
  }
  return made;
}

function square(producer, consumer, totals) {
  const cells = (byPair.get(producer + "\n" + consumer) || []).filter(wanted);
  const view = field("view");
  const old = counts(cells.map(before)), made = counts(cells.map(through));
  const changes = {};
  for (const cell of cells) {
    const name = change(before(cell), through(cell));
    changes[name] = (changes[name] || 0) + 1;
    totals[name] = (totals[name] || 0) + 1;
  }
  const label = [`${producer} into ${consumer}: directly ${words(old)}; through dlbridge ${words(made)}`];
  for (const name of Object.keys(CHANGES)) if (changes[name] && name !== "same") label.push(`${CHANGES[name]}: ${changes[name]}`);
  const button = element("button", { type: "button", "aria-label": label.join(". "), title: label.join("\n"), tabindex: "-1" });
  button.dataset.producer = producer;
  button.dataset.consumer = consumer;
  if (!cells.length) {
    button.className = "empty";
    button.setAttribute("aria-label", `${producer} into ${consumer}: nothing to show`);
    return button;
  }
  if (view === "change") {
    if (changes.worse) button.className = "worse";
    else if (changes.works || changes.safe || changes.shares) button.className = "better";
  }
  if (view !== "through") button.append(bar(old, cells.length));
  if (view !== "direct") button.append(bar(made, cells.length));
  const numbers = view === "direct" ? `${right(old)}/${cells.length}`
    : view === "through" ? `${right(made)}/${cells.length}`
    : right(old) === right(made) ? `${right(made)}` : `${right(old)}→${right(made)}`;
  button.append(element("span", { class: "count", "aria-hidden": "true" }, numbers));
  return button;
}

function named(name, version) {
  const made = element("span", {}, name);
  if (version) made.append(" ", element("small", {}, version));
  return made;
}

let current = [0, 0];
function draw() {
  const totals = {};
  const head = element("tr", {}, element("th", { class: "corner" }, "producer ↓ consumer →"));
  for (const consumer of consumers) head.append(element("th", { scope: "col" }, named(consumer, data.consumers[consumer])));
  const body = element("tbody");
  for (const producer of producers) {
    const row = element("tr", {}, element("th", { scope: "row" }, named(producer, data.producers[producer])));
    for (const consumer of consumers) row.append(element("td", {}, square(producer, consumer, totals)));
    body.append(row);
  }
  document.getElementById("grid").replaceChildren(element("thead", {}, head), body);
  const all = Object.values(totals).reduce((sum, number) => sum + number, 0);
  const parts = Object.keys(CHANGES).filter((name) => totals[name]).map((name) => `${CHANGES[name]}: ${totals[name]}`);
  document.getElementById("totals").textContent = `${all} exchanges. ${parts.join(". ")}.`;
  mark(current, false);
  if (!document.getElementById("details").hidden) show(producers[current[0]], consumers[current[1]]);
}

function buttonAt([row, column]) {
  return document.querySelector(`#grid tbody tr:nth-child(${row + 1}) td:nth-child(${column + 2}) button`);
}
function mark(place, focus) {
  buttonAt(current)?.setAttribute("tabindex", "-1");
  current = place;
  const button = buttonAt(place);
  button.setAttribute("tabindex", "0");
  if (focus) button.focus();
}

function outcomeCell(outcome) {
  if (outcome.kind === "none") return element("td", { class: "soft" }, "this way does not exist");
  const made = element("td", {}, element("span", { class: `key ${outcome.kind}`, "aria-hidden": "true" }, GLYPHS[outcome.kind]), outcome.kind);
  if (outcome.detail) made.append(element("span", { class: "why" }, outcome.detail));
  return made;
}
function command(producer, consumer, cell) {
  const quoted = (text) => (/[ ]/.test(text) ? `"${text}"` : text);
  return `python -m dlbridge_conformance.matrix --producer ${quoted(producer)} --consumer ${quoted(consumer)} ` +
    `--dtype ${quoted(cell.dtype)} --layout ${quoted(cell.layout)}`;
}
function show(producer, consumer) {
  document.querySelectorAll('#grid button[aria-pressed="true"]').forEach((b) => b.removeAttribute("aria-pressed"));
  buttonAt(current)?.setAttribute("aria-pressed", "true");
  const panel = document.getElementById("details");
  const cells = (byPair.get(producer + "\n" + consumer) || []).filter(wanted);
  const close = element("button", { type: "button", id: "close" }, "Close (Esc)");
  close.addEventListener("click", hide);
  const ways = data.ways.filter((way) => cells.some((cell) => cell.ways[way].kind !== "none"));
  const list = element("dl");
  for (const way of data.ways) {
    const call = data.calls[consumer]?.[way];
    if (call) list.append(element("dt", {}, WAYS[way]), element("dd", {}, element("code", {}, call)));
  }
  const head = element("tr", {}, element("th", {}, "dtype, layout"), ...ways.map((way) => element("th", {}, WAYS[way])),
    element("th", {}, "dlbridge"), element("th", {}, "repeat"));
  const body = element("tbody");
  for (const cell of cells) {
    const name = change(before(cell), through(cell));
    const copy = element("button", { type: "button", title: command(producer, consumer, cell) }, "copy command");
    copy.addEventListener("click", () => {
      copy.replaceWith(element("code", {}, command(producer, consumer, cell)));
      navigator.clipboard?.writeText(command(producer, consumer, cell)).catch(() => {});
    });
    body.append(element("tr", { class: name }, element("th", { scope: "row" }, `${cell.dtype}, ${cell.layout}`),
      ...ways.map((way) => outcomeCell(cell.ways[way])), element("td", {}, CHANGES[name]), element("td", {}, copy)));
  }
  panel.replaceChildren(
    element("div", { class: "head" }, element("h2", {}, `${producer} into ${consumer}`), close), list,
    element("div", { class: "rows" }, element("table", {}, element("thead", {}, head), body)));
  panel.hidden = false;
}
function hide() {
  document.getElementById("details").hidden = true;
  document.querySelectorAll('#grid button[aria-pressed="true"]').forEach((b) => b.removeAttribute("aria-pressed"));
  buttonAt(current)?.focus();
}

function begin() {
  for (const kind of kindNames) {
    document.getElementById("legend").append(element("li", {},
      element("span", { class: `key ${kind}`, "aria-hidden": "true" }, GLYPHS[kind]), element("b", {}, kind), MEANS[kind]));
  }
  const used = new Set(data.specs.map(([dtype]) => dtype));
  for (const dtype of [...used].sort()) document.getElementById("dtype").append(element("option", { value: dtype }, dtype));
  for (const layout of data.layouts) document.getElementById("layout").append(element("option", { value: layout }, layout));
  document.getElementById("filters").addEventListener("change", draw);
  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  const grid = document.getElementById("grid");
  const placeOf = (button) => [producers.indexOf(button.dataset.producer), consumers.indexOf(button.dataset.consumer)];
  grid.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    mark(placeOf(button), true);
    show(button.dataset.producer, button.dataset.consumer);
    location.replace(`#${encodeURIComponent(button.dataset.producer)}/${encodeURIComponent(button.dataset.consumer)}`);
    document.getElementById("details").scrollIntoView({ block: "nearest" });
  });
  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  grid.addEventListener("keydown", (event) => {
    const [row, column] = current;
    const step = STEPS[event.key];
    let next = step && [row + step[0], column + step[1]];
    if (event.key === "Home") next = [row, 0];
    if (event.key === "End") next = [row, consumers.length - 1];
    if (!next) return;
    event.preventDefault();
    if (next[0] in producers && next[1] in consumers) mark(next, true);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.getElementById("details").hidden) hide();
  });
  draw();
  const place = location.hash.slice(1).split("/").map(decodeURIComponent);
  if (byPair.has(place.join("\n"))) {
    mark([producers.indexOf(place[0]), consumers.indexOf(place[1])], false);
    show(place[0], place[1]);
  }
}
begin();
