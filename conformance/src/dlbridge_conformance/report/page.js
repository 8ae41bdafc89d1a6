/* The heat map, the keyboard, and the setup. filters.js and panel.js are in the same script. */

const report = JSON.parse(document.getElementById("report").textContent);
const rules = report.topics.flatMap((topic) => topic.rules.map((rule) => ({ ...rule, topic })));
const GLYPHS = { passed: "✓", failed: "✕", crashed: "!", hung: "∞", "not applicable": "–" };
const HINT = "A click on a cell, a rule or a library shows more. "
  + "Arrow keys move, Enter opens, Escape closes, / searches.";
const BROKEN = ["failed", "crashed", "hung"];

const map = document.getElementById("map");
const table = map.querySelector("table");
const panel = document.getElementById("panel");
const form = document.getElementById("filters");
const search = document.getElementById("search");

/** The pressed buttons of each filter; a filter without pressed buttons shows everything. */
const chosen = { level: new Set(), role: new Set(), outcome: new Set(), library: new Set() };

/** The rows that can get the focus: the names of the libraries, then the rules. Each has its cells and a rule. */
const lines = [];
let focused = { line: 1, column: 1 };

/** Makes an element. Strings among the children become text, never markup. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function counted(number, one, many) {
  return `${number} ${number === 1 ? one : many}`;
}

function outcomeClass(status, level) {
  return `${status.replace(" ", "-")} ${level}`;
}

function mark(status, level) {
  return element("span", { class: `mark ${outcomeClass(status, level)}`, "aria-hidden": "true" }, GLYPHS[status]);
}

function resultOf(library, rule) {
  return library && rule ? library.results[rule.id] : undefined;
}

function link(library, rule) {
  return `#${library ? encodeURIComponent(library.name) : ""}${rule ? `/${encodeURIComponent(rule.id)}` : ""}`;
}

// ---------------------------------------------------------------------------------------- the heat map

function drawMap() {
  const columns = element("colgroup", {}, element("col", { class: "rule" }));
  const names = element("tr", { class: "names" }, element("td", { class: "corner" }, element("p", {}, HINT)));
  const head = { row: names, cells: [null], rule: null };
  for (const library of report.libraries) {
    columns.append(element("col", { class: "library" }));
    const label = element("span", {}, `${library.name} `, element("small", {}, library.version));
    const title = `${library.name} ${library.version}`;
    head.cells.push(element("th", { scope: "col", tabindex: "-1", title }, label));
  }
  names.append(...head.cells.slice(1));
  lines.push(head);
  table.append(columns, element("thead", {}, names, ...countRows()));
  for (const topic of report.topics) table.append(drawTopic(topic));
  const longest = Math.max(...rules.map((rule) => rule.id.length), 8);
  document.documentElement.style.setProperty("--id", `${Math.min(longest, 34) + 0.5}ch`);
}

function countRows() {
  const rows = [["passed", (status) => status === "passed"]];
  for (const wanted of report.levels) {
    rows.push([`${wanted} broken`, (status, level) => level === wanted && BROKEN.includes(status)]);
  }
  rows.push(["of these crashed or hung", (status) => status === "crashed" || status === "hung"]);
  rows.push(["not applicable", (status) => status === "not applicable"]);
  return rows.map(([label, counts]) => {
    const row = element("tr", { class: "count" }, element("th", { scope: "row" }, label));
    for (const library of report.libraries) {
      const results = rules.map((rule) => [resultOf(library, rule), rule.level]);
      const count = results.filter(([result, level]) => result && counts(result.status, level)).length;
      row.append(element("td", count ? {} : { class: "zero" }, String(count)));
    }
    return row;
  });
}

function drawTopic(topic) {
  const title = element("span", {}, element("b", {}, `${topic.role}: ${topic.name}`), element("i", {}, topic.about));
  const heading = element("th", { class: "topic", colspan: report.libraries.length + 1, scope: "rowgroup" }, title);
  const body = element("tbody", {}, element("tr", {}, heading));
  for (const rule of rules.filter((other) => other.topic === topic)) {
    const content = element("div", {},
      element("code", {}, rule.id), element("span", { class: "level" }, rule.level),
      element("span", { class: "says" }, rule.says));
    const cells = [element("th", { class: "rule", scope: "row", tabindex: "-1", title: rule.says }, content)];
    for (const library of report.libraries) cells.push(drawCell(library, rule));
    const row = element("tr", {}, ...cells);
    body.append(row);
    lines.push({ row, cells, rule, text: `${rule.id} ${rule.says} ${rule.source}`.toLowerCase() });
  }
  return body;
}

function drawCell(library, rule) {
  const result = resultOf(library, rule);
  if (!result) return element("td", { tabindex: "-1", "aria-label": `${library.name}, ${rule.id}: not run` });
  const label = `${library.name}, ${rule.id}, ${rule.level}: ${result.status}`;
  return element("td", {
    class: outcomeClass(result.status, rule.level), tabindex: "-1", "aria-label": label,
    title: result.detail ? `${label}\n${result.detail}` : label,
  }, GLYPHS[result.status]);
}

// ---------------------------------------------------------------------------------------- the keyboard

function isShown({ line, column }) {
  return lines[line] && !lines[line].row.hidden && Boolean(lines[line].cells[column]) && columnIsShown(column);
}

function firstShown() {
  const line = lines.findIndex(({ row }, index) => index > 0 && !row.hidden);
  const column = lines[0].cells.findIndex((_, index) => index > 0 && columnIsShown(index));
  return { line: Math.max(line, 0), column: Math.max(column, 1) };
}

/** The one cell of the map that the tab key reaches. */
function focusable(place) {
  const cell = ({ line, column }) => lines[line] && lines[line].cells[column];
  if (cell(focused)) cell(focused).tabIndex = -1;
  focused = place;
  if (cell(focused)) cell(focused).tabIndex = 0;
  return cell(focused);
}

/** Moves up to a number of visible places in a direction, and returns the last one. */
function next(place, downwards, rightwards, steps) {
  let [found, candidate] = [place, place];
  while (steps > 0) {
    candidate = { line: candidate.line + downwards, column: candidate.column + rightwards };
    if (candidate.line < 0 || candidate.line >= lines.length) break;
    if (candidate.column < 0 || candidate.column >= lines[0].cells.length) break;
    if (isShown(candidate)) [found, steps] = [candidate, steps - 1];
  }
  return found;
}

const MOVES = {
  ArrowUp: [-1, 0, 1], ArrowDown: [1, 0, 1], ArrowLeft: [0, -1, 1], ArrowRight: [0, 1, 1],
  PageUp: [-1, 0, 12], PageDown: [1, 0, 12], Home: [0, -1, Infinity], End: [0, 1, Infinity],
};

function onKey(event) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "Escape" && !panel.hidden) {
    close();
  } else if (event.target === document.body && event.key === "/") {
    event.preventDefault();
    search.focus();
  } else if (table.contains(event.target)) {
    if (MOVES[event.key]) {
      event.preventDefault();
      focusable(next(focused, ...MOVES[event.key])).focus();
      if (!panel.hidden) open(focused, "replaceState");
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(focused, "pushState");
    }
  }
}

function onClick(event) {
  const cell = event.target.closest("td, th");
  const line = lines.findIndex(({ row }) => cell && row === cell.parentNode);
  if (line < 0) return;
  const column = lines[line].cells.indexOf(cell);
  if (column < 0) return;
  focusable({ line, column }).focus();
  open(focused, "pushState");
}

// ---------------------------------------------------------------------------------------- the setup

/** Tells the style sheet how much of the map the names of libraries and rules cover. */
function measure() {
  const root = document.documentElement.style;
  const left = table.querySelector(".corner").offsetWidth;
  // Overlap a little, so that no gap shows at fractional pixels.
  root.setProperty("--head", `${Math.floor(lines[0].row.getBoundingClientRect().height) - 1}px`);
  root.setProperty("--left", `${left}px`);
  table.classList.toggle("terse", left < 520);
}

document.getElementById("versions").textContent = [
  ...(report.note ? [report.note] : []),
  ...report.versions.map(([name, version]) => (name === "system" ? version : `${name} ${version}`)),
  counted(rules.length, "rule", "rules"), counted(report.libraries.length, "library", "libraries"),
].join(" · ");
drawFilters();
drawMap();
focusable(firstShown());
applyFilters();
measure();
show("center");

const more = document.getElementById("more");
more.addEventListener("click", () => {
  more.setAttribute("aria-expanded", document.getElementById("choices").classList.toggle("shown"));
});
search.addEventListener("input", applyFilters);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(resetFilters));
table.addEventListener("click", onClick);
document.addEventListener("keydown", onKey);
document.addEventListener("click", (event) => {
  const menu = form.querySelector("details");
  if (!menu.contains(event.target)) menu.open = false;
});
addEventListener("hashchange", () => show("center"));
new ResizeObserver(measure).observe(map);
