// Elements, made from plain values. Text is always set as text, never as markup: a class that is named like a tag stays a name.

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "style") Object.assign(node.style, value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const el = (tag, attributes = {}, ...children) => build(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) =>
  build(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const byId = (id) => document.getElementById(id);
const show = (host, ...children) => host.replaceChildren(...children);
const last = (list) => list[list.length - 1];
const range = (count) => [...Array(count).keys()];
const sum = (values) => values.reduce((a, b) => a + b, 0);

// FT_init^L2, as the paper writes it.
const LABEL = /^([^_^,*]+)(?:_([^_^,*]+))?(?:\^([^_^,*]+))?([,*][^]*)?$/;

function labelled(label) {
  const parts = LABEL.exec(label);
  if (!parts) return [label];
  const [, name, low, high, rest] = parts;
  return [name, ...(low ? [el("sub", {}, low)] : []), ...(high ? [el("sup", {}, high)] : []), rest || ""];
}

const plain = (line) => (line.select ? `${line.label}, ${line.select}` : line.label);
const percent = (value) => (value === null || value === undefined ? "–" : value.toFixed(1));
const number = (value) =>
  value === null || value === undefined ? "–"
    : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(+value.toPrecision(4));

function seconds(value) {
  if (value >= 5400) return `${(value / 3600).toFixed(1)} h`;
  return value >= 100 ? `${(value / 60).toFixed(1)} min` : `${value.toFixed(value < 10 ? 1 : 0)} s`;
}

// A select with these texts; `changed` gets the index.
function fill(select, texts, chosen, changed) {
  show(select, ...texts.map((text, i) => el("option", { value: i }, text)));
  select.value = String(Math.max(0, chosen));
  select.onchange = () => changed(Number(select.value));
}

// The one note that follows the pointer, or the keyboard.
const tip = {
  show(x, y, ...content) {
    const box = byId("tip");
    show(box, ...content);
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    const left = x + 16 + width > innerWidth ? x - width - 16 : x + 16;
    box.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
    box.style.top = `${Math.max(8, Math.min(y + 16, innerHeight - height - 8))}px`;
  },
  hide() { byId("tip").hidden = true; },
};

// A finger leaves as soon as it is lifted; what it chose stays until it touches something else.
const unlessTouched = (act) => (event) => { if (event.pointerType !== "touch") act(); };

function tipTable(title, rows) {
  const most = 16;
  const body = rows.slice(0, most).map(([mark, label, value]) =>
    el("tr", {}, el("td", {}, mark || ""), el("td", {}, ...labelled(label)), el("td", { class: "number" }, value)));
  const more = rows.length > most ? [el("div", {}, `and ${rows.length - most} more`)] : [];
  return [el("b", {}, title), el("table", {}, el("tbody", {}, ...body)), ...more];
}

// A figure's numbers as a table, made when somebody opens it.
function numbersOf(titles, rows) {
  const details = el("details", { class: "numbers" }, el("summary", {}, "Numbers"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.children.length > 1) return;
    const head = el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, ...labelled(String(title)))));
    const body = rows().map(([first, ...values]) => el("tr", {}, el("th", { scope: "row" }, ...labelled(String(first))),
      ...values.map((value) => el("td", {}, String(value)))));
    details.append(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Numbers of this figure" },
      el("table", {}, el("thead", {}, head), el("tbody", {}, ...body))));
  });
  return details;
}
