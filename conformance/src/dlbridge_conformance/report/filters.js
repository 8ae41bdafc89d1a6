/* The filters over the map: the search, and the buttons. */

function drawFilters() {
  const group = (name, values, marked) => {
    const box = element("div", { class: "group", role: "group", "aria-label": name });
    for (const value of values) {
      const attributes = { type: "button", class: "choice", "aria-pressed": "false" };
      const button = element("button", attributes, ...marked(value), value);
      button.addEventListener("click", () => {
        choose(name, value, !chosen[name].has(value));
        button.setAttribute("aria-pressed", chosen[name].has(value));
      });
      box.append(button);
    }
    return box;
  };
  const summary = element("summary", {}, "Libraries");
  const list = element("div", {});
  for (const { name } of report.libraries) {
    const box = element("input", { type: "checkbox", value: name });
    box.addEventListener("change", () => {
      choose("library", name, box.checked);
      summary.classList.toggle("chosen", chosen.library.size > 0);
    });
    list.append(element("label", {}, box, name));
  }
  document.getElementById("choices").append(
    group("level", report.levels, (level) => [mark("failed", level)]),
    group("role", report.roles, () => []),
    group("outcome", report.statuses, (status) => [mark(status, "MUST")]),
    element("details", { class: "menu" }, summary, list));
}

function choose(name, value, on) {
  if (on) chosen[name].add(value);
  else chosen[name].delete(value);
  applyFilters();
}

function columnIsShown(column) {
  return column === 0 || chosen.library.size === 0 || chosen.library.has(report.libraries[column - 1].name);
}

function applyFilters() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const passes = (name, value) => chosen[name].size === 0 || chosen[name].has(value);
  const columns = lines[0].cells.map((_, column) => columnIsShown(column));
  for (const row of table.querySelectorAll(".names, .count")) {
    columns.forEach((shown, column) => { row.children[column].hidden = !shown; });
  }
  columns.forEach((shown, column) => { table.querySelectorAll("col")[column].hidden = !shown; });
  document.documentElement.style.setProperty("--libraries", columns.filter(Boolean).length - 1);
  let count = 0;
  for (const { row, cells, rule, text } of lines.slice(1)) {
    let matches = false;
    cells.forEach((cell, column) => {
      cell.hidden = !columns[column];
      if (column === 0) return;
      const result = resultOf(report.libraries[column - 1], rule);
      const wanted = passes("outcome", result && result.status);
      cell.classList.toggle("faded", !wanted);
      matches ||= wanted && columns[column];
    });
    const shown = matches && passes("level", rule.level) && passes("role", rule.topic.role)
      && words.every((word) => text.includes(word));
    row.hidden = !shown;
    count += shown;
  }
  for (const body of table.tBodies) body.hidden = ![...body.rows].slice(1).some((row) => !row.hidden);
  const filtered = words.length > 0 || Object.values(chosen).some((set) => set.size > 0);
  document.getElementById("shown").textContent =
    count === rules.length ? counted(count, "rule", "rules") : `${count} of ${rules.length}`;
  document.getElementById("reset").hidden = !filtered;
  document.getElementById("nothing").hidden = count > 0;
  if (!isShown(focused)) focusable(firstShown());
}

function resetFilters() {
  for (const set of Object.values(chosen)) set.clear();
  for (const button of form.querySelectorAll("[aria-pressed]")) button.setAttribute("aria-pressed", "false");
  form.querySelector("summary").classList.remove("chosen");
  search.value = "";
  applyFilters();
}
