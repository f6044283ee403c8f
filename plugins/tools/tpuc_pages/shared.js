"use strict";
// What all pages do share: colors of the system or of the reader's choice, tables that sort and filter, the keyboard.
const find = (selector, inside = document) => inside.querySelector(selector);
const findAll = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const readData = (id) => JSON.parse(document.getElementById(id).textContent);
const clamp = (value, low, high) => Math.min(Math.max(value, low), Math.max(low, high));

function make(tag, attributes = {}, ...inside) {
  const isPicture = ["svg", "g", "rect", "path", "circle", "text", "line", "title"].includes(tag);
  const element = isPicture ? document.createElementNS(find("svg").namespaceURI, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
}

const theme = {
  names: ["system", "light", "dark"],
  memory: (value) => {
    try {
      if (value === undefined) return localStorage.getItem("tpuc-theme") || "system";
      localStorage.setItem("tpuc-theme", value);
    } catch { /* pages in files may not remember */ }
    return "system";
  },
  set(name) {
    if (name === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    const button = find("#theme");
    button.textContent = `colors: ${name}`;
    button.dataset.theme = name;
    dispatchEvent(new Event("colors"));
  },
  start() {
    const remembered = theme.memory();
    theme.set(theme.names.includes(remembered) ? remembered : "system");
    find("#theme").addEventListener("click", (event) => {
      const next = theme.names[(theme.names.indexOf(event.currentTarget.dataset.theme) + 1) % theme.names.length];
      theme.memory(next);
      theme.set(next);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("colors")));
  },
};

// A table whose rows can be chosen: by the mouse, by the arrow keys, and from elsewhere by `choose`.
class Table {
  constructor(table, onChoose = () => {}) {
    this.table = table;
    this.body = table.tBodies[0];
    this.rows = [...this.body.rows];
    this.onChoose = onChoose;
    this.chosen = null;
    this.heads = findAll("th", table);
    this.heads.forEach((head, column) => {
      const button = find("button", head);
      if (button) button.addEventListener("click", () => this.sort(column, head.getAttribute("aria-sort")));
    });
    this.body.addEventListener("click", (event) => {
      const row = event.target.closest("tr");
      if (row && !event.target.closest("summary, a, button")) this.choose(row, true);
    });
    this.body.addEventListener("keydown", (event) => this.key(event));
  }

  static figure(row, column) {
    const cell = row.cells[column];
    const text = cell.dataset.v ?? cell.textContent;
    return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
  }

  // Up, down, and back to the order of the file; cells without a figure come last.
  sort(column, now) {
    const next = { none: "ascending", ascending: "descending" }[now ?? "none"];
    this.heads.forEach((head) => head.removeAttribute("aria-sort"));
    const rows = [...this.rows];
    if (next) {
      this.heads[column].setAttribute("aria-sort", next);
      const sign = next === "ascending" ? 1 : -1;
      const isNumber = (value) => typeof value === "number";
      const figures = new Map(rows.map((row) => [row, Table.figure(row, column)]));
      const count = rows.filter((row) => isNumber(figures.get(row))).length;
      const missing = (value) => (count > 0 && !isNumber(value)) || value === "";
      rows.sort((one, other) => {
        const [a, b] = [figures.get(one), figures.get(other)];
        if (missing(a) || missing(b)) return missing(a) - missing(b);
        return sign * (a < b ? -1 : a > b ? 1 : 0);
      });
    }
    this.table.classList.toggle("sorted", Boolean(next));
    this.body.append(...rows);
  }

  filter(isShown) {
    let shown = 0;
    for (const row of this.rows) {
      row.hidden = !isShown(row);
      shown += !row.hidden;
    }
    return shown;
  }

  choose(row, byHand = false) {
    if (this.chosen) this.chosen.classList.remove("chosen");
    this.chosen = row;
    if (row) {
      row.classList.add("chosen");
      if (!byHand) row.hidden = false;
      row.scrollIntoView({ block: byHand ? "nearest" : "center" });
    }
    if (byHand) this.onChoose(row);
  }

  key(event) {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    let row = event.target.closest("tr");
    if (event.key === "Enter" && row === event.target) this.choose(row, true);
    if (!step || row !== event.target) return;
    event.preventDefault();
    do row = row[step]; while (row && row.hidden);
    if (row) {
      row.focus();
      this.choose(row, true);
    }
  }
}

const tip = {
  show(text, event) {
    const box = find("#tip");
    box.hidden = !text;
    if (!text) return;
    box.textContent = text;
    box.style.left = `${clamp(event.clientX + 14, 0, innerWidth - box.offsetWidth - 8)}px`;
    box.style.top = `${clamp(event.clientY + 14, 0, innerHeight - box.offsetHeight - 8)}px`;
  },
};

// `/` goes to the search field, Escape leaves it and calls `back`.
function keyboard(search, back) {
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      event.preventDefault();
      search.focus();
    }
    if (event.key !== "Escape") return;
    if (event.target === search && search.value) {
      search.value = "";
      search.dispatchEvent(new Event("input"));
    } else {
      event.target.blur();
      back();
    }
  });
}
