/* The panel beside the map: a cell with its evidence, a rule, or a library. */

function open({ line, column }, how) {
  const target = link(report.libraries[column - 1], lines[line].rule);
  if (target !== location.hash) history[how](null, "", target);
  show("nearest");
}

function close() {
  history.pushState(null, "", location.pathname + location.search);
  show("nearest");
  focusable(focused).focus();
}

/** Shows what the address names: ``#library/RULE``, ``#library`` or ``#/RULE``; its cell comes into view. */
function show(block) {
  const [name, id] = location.hash.slice(1).split("/").map(decoded);
  const column = 1 + report.libraries.findIndex((library) => library.name === name);
  const line = Math.max(lines.findIndex(({ rule }) => rule && rule.id === id), 0);
  const known = (column > 0 || line > 0) && (column > 0 || !name) && (line > 0 || !id);
  for (const cell of table.querySelectorAll(".open")) cell.classList.remove("open");
  panel.hidden = !known;
  if (!known) return;
  const [library, rule] = [report.libraries[column - 1], lines[line].rule];
  const content = library && rule ? cellContent(library, rule) : rule ? ruleContent(rule) : libraryContent(library);
  const button = element("button", { type: "button", class: "close", "aria-label": "Close" }, "✕");
  button.addEventListener("click", close);
  panel.replaceChildren(button, ...content);
  panel.scrollTop = 0;
  const cell = focusable({ line, column });
  cell.classList.add("open");
  if (isShown(focused)) cell.scrollIntoView({ block, inline: "nearest" });
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function about(rule) {
  return [
    element("p", { class: "says" }, rule.says),
    element("p", { class: "source" }, `${rule.level}, ${rule.topic.role}. ${rule.source}`),
  ];
}

function title(name, small) {
  return element("h2", {}, name, " ", element("small", {}, small));
}

function cellContent(library, rule) {
  const result = resultOf(library, rule);
  const parts = [title(library.name, library.version), element("h2", {}, element("code", {}, rule.id)), ...about(rule)];
  if (!result) return [...parts, element("p", {}, "This rule was not run on this library.")];
  const note = [result.signal, `${result.seconds} s`].filter(Boolean).join(", ");
  parts.push(element("p", { class: "outcome" },
    mark(result.status, rule.level), result.status, element("small", {}, note)));
  if (result.detail) parts.push(element("p", { class: "detail" }, result.detail));
  if (result.evidence.length) {
    const list = element("dl", { class: "evidence" });
    for (const [kind, text] of result.evidence) list.append(element("dt", {}, kind), element("dd", {}, text));
    parts.push(element("h3", {}, "Inputs and results"), list);
  }
  parts.push(element("h3", {}, "Command to repeat it"), command(result.command));
  parts.push(element("h3", {}, "The same rule"), outcomes(rule, library));
  return parts;
}

function ruleContent(rule) {
  const name = element("code", {}, rule.id);
  return [element("h2", {}, name), ...about(rule), element("h3", {}, "Libraries"), outcomes(rule)];
}

function libraryContent(library) {
  const parts = [title(library.name, library.version)];
  for (const level of report.levels) {
    const broken = rules.filter((rule) => rule.level === level && resultOf(library, rule)
      && BROKEN.includes(resultOf(library, rule).status));
    parts.push(element("h3", {}, `${level}: ${broken.length} broken`));
    parts.push(entries(broken.map((rule) => [library, rule, element("code", {}, rule.id)])));
  }
  return parts;
}

function outcomes(rule, current) {
  return entries(report.libraries.filter((library) => resultOf(library, rule))
    .map((library) => [library, rule, library.name, library === current]));
}

function entries(items) {
  return element("ul", { class: "entries" }, ...items.map(([library, rule, label, current]) => {
    const { status, detail } = resultOf(library, rule);
    const attributes = { class: "entry", href: link(library, rule), "aria-current": current ? "true" : null };
    const text = element("span", {}, label, " ",
      element("small", { class: detail ? "detail" : "status" }, detail || status));
    return element("li", {}, element("a", attributes, mark(status, rule.level), text));
  }));
}

function command(text) {
  const button = element("button", { type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text)) ? "Copied" : "Failed";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  const words = text.split(" ").flatMap((word) => [" ", element("span", {}, word)]).slice(1);
  return element("div", { class: "command" }, element("code", {}, ...words), button);
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = element("textarea", {});
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
