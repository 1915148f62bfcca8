// What the page does when it is opened: the chooser, the notes in tables, the theme, copying and printing.

// Accuracy against memory and against states, from the configurations of one comparison.
function showAgainst() {
  for (const [vary, keep, xTitle] of [["memory", "states", "memory B (images)"], ["states", "memory", "states Z"]]) {
    document.querySelectorAll(`[data-against="${vary}"]`).forEach((host) => {
      const mine = data.configurations.filter((one) => one.comparison === Number(host.dataset.comparison) && one[keep] === Number(host.dataset.fixed));
      const x = [...new Set(mine.map((one) => one[vary]))].sort((a, b) => a - b);
      const keys = new Map(mine.flatMap((one) => one.records).filter((record) => chosen.shown.has(record.key)).map((record) => [record.key, record]));
      const value = (at, key) => { const found = mine.find((one) => one[vary] === at)?.records.find((record) => record.key === key); return found ? found[`${chosen.metric}_mean`] : null; };
      lineChart(host, {
        title: `${chosen.metric === "top1" ? "Top-1" : "Top-5"} accuracy against ${xTitle}`, xTitle, yTitle: `${chosen.metric === "top1" ? "top-1" : "top-5"}, mean (%)`,
        x: range(x.length), xTexts: x.map((at) => at.toLocaleString("en")), low: 0, high: 101, keys: keys.size <= 12, text: percent,
        series: [...keys.values()].map((record) => ({ label: plain(record), y: x.map((at) => value(at, record.key)), style: styleOf(record) })),
      });
    });
  }
}

function showRun() {
  showMeasures();
  showAccuracy();
  showErrors();
  showOrigins();
  showScores();
  showWeights();
  showMemory();
  showConfusion();
  showTiming();
}

function showChooser() {
  const { runs } = configuration();
  fill(byId("configuration"), data.configurations.map((one) => one.title), chosen.configuration, (i) => { Object.assign(chosen, { configuration: i, run: 0 }); showChooser(); showRun(); });
  fill(byId("run"), runs.map((n) => (runs.filter((m) => data.runs[m].title === data.runs[n].title).length > 1 ? `${data.runs[n].title}, ${data.runs[n].path}` : data.runs[n].title)), chosen.run, (i) => { chosen.run = i; showRun(); });
  byId("configuration").parentElement.hidden = data.configurations.length < 2;
  byId("run").parentElement.hidden = runs.length < 2;
}

// A number of a table: its values after each state.
function cellNote(cell) {
  const [at, key] = [Number(cell.dataset.key.split(":", 1)[0]), cell.dataset.key.slice(cell.dataset.key.indexOf(":") + 1)];
  const record = data.configurations[at].records.find((one) => one.key === key);
  const spread = (name, i) => (record[`${name}_std`] ? ` ± ${percent(record[`${name}_std`][i])}` : "");
  const rows = record.classes.map((classes, i) => el("tr", {}, el("td", {}, `${i}`), el("td", { class: "number" }, classes), ...["top5", "top1"].map((name) => el("td", { class: "number" }, percent(record[name][i]) + spread(name, i)))));
  const head = el("tr", {}, ...["state", "classes", "top-5", "top-1"].map((text) => el("th", {}, text)));
  const table = (some) => el("table", {}, el("thead", {}, head.cloneNode(true)), el("tbody", {}, ...some));
  const half = rows.length > 20 ? Math.ceil(rows.length / 2) : rows.length;
  return [el("b", {}, ...labelled(plain(record))), el("div", { style: { display: "flex", gap: "1rem" } }, table(rows.slice(0, half)), ...(half < rows.length ? [table(rows.slice(half))] : []))];
}

function walkTable(table) {
  const cells = [...table.querySelectorAll("td[data-key]")];
  if (!cells.length) return;
  const note = (cell, x, y) => { const box = cell.getBoundingClientRect(); tip.show(x ?? box.right, y ?? box.bottom - 8, ...cellNote(cell)); };
  const move = (from, down, right) => {
    const { rows } = from.closest("tbody");
    let row = from.parentElement.sectionRowIndex, column = from.cellIndex;
    do { row += down; column += right; } while (rows[row]?.cells[column] && !rows[row].cells[column].dataset.key);
    return rows[row]?.cells[column];
  };
  cells.forEach((cell, i) => { cell.tabIndex = i ? -1 : 0; }); // one stop for Tab; a finger can choose any
  for (const cell of cells) {
    cell.addEventListener("pointermove", (event) => note(cell, event.clientX, event.clientY));
    cell.addEventListener("pointerleave", unlessTouched(tip.hide));
    cell.addEventListener("focus", () => note(cell));
    cell.addEventListener("blur", tip.hide);
    cell.addEventListener("keydown", (event) => {
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      if (event.key === "Escape") tip.hide();
      const next = event.key in moves && move(cell, ...moves[event.key]);
      if (!next) return;
      event.preventDefault();
      cell.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }
}

function themeButton() {
  const button = byId("theme"), dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.style.colorScheme || (dark.matches ? "dark" : "light")) === "dark";
  const update = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Use ${isDark() ? "light" : "dark"} colours`); button.setAttribute("aria-pressed", String(isDark())); repaintMatrix(); };
  button.addEventListener("click", () => { document.documentElement.style.colorScheme = isDark() ? "light" : "dark"; update(); });
  dark.addEventListener("change", update);
  update();
}

function begin() {
  document.documentElement.classList.add("scripted");
  chosen.shown = new Set(atFirst);
  showChooser();
  chooseMeasure();
  showLegend();
  showRun();
  document.querySelectorAll("table.results").forEach(walkTable);
  document.querySelectorAll("input[name=metric]").forEach((input) => input.addEventListener("change", () => { chosen.metric = input.value; showAccuracy(); }));
  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", () => {
    navigator.clipboard?.writeText(button.previousElementSibling.textContent).then(() => { button.textContent = "Copied"; }, () => { button.textContent = "Select and copy"; });
  }));
  themeButton();
  let before = "";
  addEventListener("beforeprint", () => { // paper is light, also for the canvas
    before = document.documentElement.style.colorScheme;
    document.documentElement.style.colorScheme = "light";
    figures.forEach((_, host) => redraw(host));
    repaintMatrix();
  });
  addEventListener("afterprint", () => { document.documentElement.style.colorScheme = before; repaintMatrix(); });
}

begin();
