// The measure that is chosen: methods in its order, and what they cost.

const measureNow = () => data.measures[chosen.measure];
const FULL = { colour: "var(--ink)", mark: 3, dash: "", strong: true };

function showMeasures() {
  const { name, meaning, better } = measureNow(), sign = better === "lower" ? -1 : 1;
  const found = configuration().records.filter((one) => one.measures[name] !== null).sort((a, b) => sign * (b.measures[name] - a.measures[name]));
  const most = Math.max(...found.map((one) => Math.abs(one.measures[name])), 1e-9);
  byId("measure-meaning").textContent = `${meaning[0].toUpperCase()}${meaning.slice(1)}; percent. ${better === "lower" ? "Lower" : "Higher"} is better.`;
  show(byId("ranking"), ...(found.length ? found.flatMap((one) => [
    el("span", {}, ...labelled(plain(one))),
    el("i", { style: { background: styleOf(one).colour, width: `${(100 * Math.abs(one.measures[name])) / most}%` }, "aria-hidden": "true" }),
    el("span", { class: "number" }, percent(one.measures[name]) + (one.spreads[name] === null ? "" : ` ± ${percent(one.spreads[name])}`)),
  ]) : [el("p", { class: "hint" }, "Not recorded in this run, or it cannot be computed: intransigence needs Full.")]));
  showCost();
}

function showCost() {
  const { name, title, better } = measureNow(), kind = data.costs[chosen.cost], { full, records } = configuration();
  const of = records.filter((one) => one.cost && one.cost[kind.name] !== null && one.measures[name] !== null)
    .map((one) => ({ label: plain(one), x: one.cost[kind.name], y: one.measures[name], style: styleOf(one) }));
  const reference = /top[15]$/.exec(name);
  if (full && full.cost && reference && full.cost[kind.name] !== null) of.push({ label: "Full", x: full.cost[kind.name], y: full[reference[0]], style: FULL });
  scatterChart(byId("cost-chart"), {
    title: `${title} against ${kind.title}`, xTitle: kind.title, yTitle: `${title} (%)`, points: of, lower: better === "lower",
    unit: kind.name === "bytes_kept" ? "B" : kind.name === "seconds" ? "s" : "", empty: recorded,
  });
}

function chooseMeasure() {
  const classes = Math.max(0, ...data.configurations.flatMap((one) => one.records).flatMap((one) => one.classes));
  chosen.measure = classes < 20 ? 1 : 0; // of few classes, top-5 says little
  fill(byId("measure"), data.measures.map((one) => one.meaning), chosen.measure, (i) => { chosen.measure = i; showMeasures(); });
  fill(byId("cost-kind"), data.costs.map((one) => one.title), chosen.cost, (i) => { chosen.cost = i; showCost(); });
}
