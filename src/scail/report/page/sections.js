// The sections of the page, each from the run that is chosen.

const data = JSON.parse(byId("data").textContent);
const chosen = { configuration: 0, run: 0, metric: "top5", shown: new Set(), measure: 0, cost: 2 };
const configuration = () => data.configurations[chosen.configuration];
const run = () => data.runs[configuration().runs[chosen.run]];
const incremental = (line) => line.method !== "full";
let repaintMatrix = () => {}; // a canvas does not follow the theme by itself
const recorded = "This run was made by a version that did not record it.";

const everyRecord = [...new Map(data.configurations.flatMap((one) => one.records).map((record) => [record.key, record])).values()];

function shownAtFirst() {
  const all = everyRecord;
  if (all.length <= 8) return new Set(all.map((one) => one.key));
  const selects = all.some((one) => one.select === "herding") ? ["herding", null] : ["random", null];
  const usual = all.filter((one) => selects.includes(one.select) && !one.label.endsWith("*"));
  const best = [...usual].sort((a, b) => b.top1_mean - a.top1_mean).slice(0, 4);
  const asked = usual.filter((one) => ["FT", "ScaIL", "FT^NEM", "FT_init"].includes(one.label));
  const own = all.filter((one) => data.configurations.some((of) => of.own.includes(one.key.split("|")[0])));
  return new Set([...own, ...asked, ...best].map((one) => one.key));
}

// A colour and a mark for each method, a dash for each way of choosing exemplars: the same in every figure.
// Methods that are shown at first come first, so that their colours differ.
const atFirst = shownAtFirst();
const others = [...new Set([...everyRecord.filter((one) => atFirst.has(one.key)), ...everyRecord].map((one) => one.label))]
  .filter((label) => !["FT", "ScaIL"].includes(label));

function styleOf({ label, select }) {
  const strong = label === "FT" || label === "ScaIL";
  const n = others.indexOf(label);
  const colour = label === "FT" ? 0 : label === "ScaIL" ? 1 : 2 + (n % 6);
  return { colour: `var(--c${colour})`, mark: strong ? 0 : Math.floor(n / 6) % 4, dash: DASHES[select || ""] ?? DASHES.own, strong };
}

function showLegend() {
  const lines = everyRecord;
  const press = (keys) => { chosen.shown = new Set(keys); showLegend(); showAccuracy(); };
  const buttons = lines.map((line) => el("button", {
    type: "button", "data-key": line.key, "aria-pressed": String(chosen.shown.has(line.key)),
    onclick: () => {
      if (!chosen.shown.delete(line.key)) chosen.shown.add(line.key);
      showLegend();
      showAccuracy();
      document.querySelector(`#legend [data-key="${CSS.escape(line.key)}"]`).focus();
    },
  }, swatch(styleOf(line)), el("span", {}, ...labelled(plain(line)))));
  const quick = [["All", lines], ["None", []], ["In the paper", lines.filter((line) => !line.label.endsWith("*"))]];
  show(byId("legend"), ...buttons, ...quick.map(([text, of]) =>
    el("button", { type: "button", class: "all", onclick: () => press(of.map((line) => line.key)) }, text)));
}

function showAccuracy() {
  const { records, full, runs } = configuration(), metric = chosen.metric, name = metric === "top1" ? "Top-1" : "Top-5";
  const shown = records.filter((record) => chosen.shown.has(record.key));
  const references = full ? [{ label: `Full ${percent(full[metric])}`, y: full[metric] }] : [];
  byId("accuracy-note").textContent = runs.length > 1 ? `Mean over ${runs.length} runs.` : "";
  const x = range(Math.max(0, ...records.map((record) => record.classes.length)));
  const classes = (records.find((record) => record.classes.length === x.length) || { classes: [] }).classes;
  lineChart(byId("accuracy-chart"), {
    title: `${name} accuracy after each state`, xTitle: "classes seen", yTitle: `${metric === "top1" ? "top-1" : "top-5"} accuracy (%)`,
    describe: shown.map((one) => `${plain(one)}: mean ${percent(one[`${metric}_mean`])} %`).join("; "),
    x: classes, low: 0, high: 101, named: true, references: shown.length ? references : [], text: percent,
    series: shown.map((one) => ({ label: plain(one), y: one[metric], spread: one[`${metric}_std`], style: styleOf(one) })),
  });
  showPastAndNew();
  showAgainst();
}

function showPastAndNew() {
  const lines = run().lines.filter((line) => incremental(line) && chosen.shown.has(line.key));
  const states = range(run().sizes.length).slice(1);
  const share = (counts, at) => { const all = sum(at.map((i) => counts[i])); return all ? (100 * counts[at[0]]) / all : null; };
  for (const [id, at, title] of [["past-chart", [0, 1, 2], "Top-1 accuracy on past classes"], ["new-chart", [3, 4, 5], "Top-1 accuracy on new classes"]]) {
    lineChart(byId(id), {
      title, xTitle: "state", yTitle: "top-1 accuracy (%)", x: states, low: 0, high: 101, text: percent,
      series: lines.map((line) => ({ label: plain(line), y: states.map((state) => share(line.errors[state], at)), style: styleOf(line) })),
    });
  }
}

// Two methods side by side, FT and ScaIL at first.
function twoMethods(prefix, drawOne) {
  const lines = run().lines.filter(incremental);
  const prefer = (method) => Math.max(lines.findIndex((line) => line.method === method && line.select === "herding"), lines.findIndex((line) => line.method === method));
  const at = { method: Math.max(0, prefer("ft")), other: prefer("scail") >= 0 ? prefer("scail") : lines.length - 1 };
  const update = () => {
    for (const [part, middle] of [["method", ""], ["other", "-other"]]) {
      const line = lines[at[part]];
      show(byId(`${prefix}${middle}-title`), ...labelled(plain(line)));
      drawOne(byId(`${prefix}${middle}-chart`), line);
    }
  };
  for (const part of ["method", "other"]) fill(byId(`${prefix}-${part}`), lines.map(plain), at[part], (i) => { at[part] = i; update(); });
  if (lines.length) update();
}

const MEANING = ["past, correct", "past, taken for past", "past, taken for new", "new, correct", "new, taken for new", "new, taken for past"];

function showErrors() {
  const states = range(run().sizes.length);
  twoMethods("errors", (host, line) => {
    const totals = line.errors.map(sum);
    stackedBars(host, {
      title: `Errors of ${plain(line)}`, xTitle: "state", yTitle: "share of test images (%)", names: states, high: 100,
      text: (value, i) => `${percent(value)} % (${Math.round((value * totals[i]) / 100)})`,
      parts: data.errorKinds.map((kind, k) => ({ label: `${kind} ${MEANING[k]}`, colour: `var(--e${k})`, values: states.map((s) => (100 * line.errors[s][k]) / totals[s]) })),
    });
  });
  show(byId("errors-keys"), ...data.errorKinds.map((kind, k) => el("span", {}, el("i", { style: { background: `var(--e${k})` } }), `${kind} ${MEANING[k]}`)));
}

// From the oldest to the newest state: purple, teal, yellow.
const ramp = (share) => (share < 0.5 ? `color-mix(in oklab, var(--r1) ${Math.round(200 * share)}%, var(--r0))` : `color-mix(in oklab, var(--r2) ${Math.round(200 * share - 100)}%, var(--r1))`);

function showOrigins() {
  const states = range(run().sizes.length).slice(1), most = Math.max(1, states.length - 1);
  twoMethods("origins", (host, line) => stackedBars(host, {
    title: `e(p,p) of ${plain(line)} by origin`, xTitle: "state", yTitle: "e(p,p), images", names: states,
    empty: "No past image was taken for another past class.",
    parts: range(states.length).map((origin) => ({ label: `from state ${origin}`, colour: ramp(origin / most), values: states.map((s) => line.origins[s][origin] || 0) })),
  }));
  const bar = el("i", { class: "ramp", style: { background: `linear-gradient(to right in oklab, ${ramp(0)}, ${ramp(0.5)}, ${ramp(1)})` } });
  show(byId("origins-keys"), el("span", {}, "from state 0", bar, `from state ${Math.max(0, states.length - 1)}`));
}

function showScores() {
  const lines = run().lines.filter(incremental), states = range(run().sizes.length).slice(1);
  const raw = (line) => lines.find((one) => one.method === "ft" && one.select === line.select && one.trainer === line.trainer)
    || lines.find((one) => one.method === "ft" && one.select === line.select) || lines.find((one) => one.method === "ft");
  const one = (host, line) => lineChart(host, {
    keys: true, title: `Mean score of the true class, ${plain(line)}`, xTitle: "state", yTitle: "mean score", x: states,
    series: ["past", "new"].map((group, i) => ({ label: `${group} classes`, y: states.map((s) => line.scores[group][s]), style: { colour: `var(--c${i})`, mark: i, dash: "", strong: true } })),
  });
  const update = (i) => {
    const line = lines[i], before = raw(line);
    show(byId("scores-title"), ...labelled(plain(line)), line.method === "ft" ? " (raw)" : "");
    one(byId("scores-chart"), line);
    show(byId("scores-raw-title"), ...(before ? [...labelled(plain(before)), " (raw)"] : ["Raw"]));
    if (before) one(byId("scores-raw-chart"), before); else say(byId("scores-raw-chart"), "FT is not among the methods of this run, so that raw scores were not measured.");
  };
  const scail = lines.findIndex((line) => line.method === "scail" && line.select === "herding");
  const start = Math.max(0, scail >= 0 ? scail : lines.findIndex((line) => line.method === "scail"));
  fill(byId("scores-method"), lines.map(plain), start, update);
  if (lines.length) update(start);
}

// A slider over these states; `changed` gets the index.
function slide(id, states, at, changed) {
  const input = byId(`${id}-state`), output = byId(`${id}-output`);
  const update = () => { output.textContent = `${states[Number(input.value)]} of ${last(states)}`; changed(Number(input.value)); };
  Object.assign(input, { min: 0, max: states.length - 1, step: 1 });
  input.value = String(at);
  input.disabled = states.length < 2;
  input.oninput = update;
  update();
}

function showWeights() {
  const { weights } = run(), host = byId("weights-chart");
  byId("weights").querySelector(".controls").hidden = !weights.length;
  if (!weights.length) return say(host, run().missing.includes("ranked weights") ? recorded : "No layer of past and new classes in this run.");
  const update = (n) => {
    const { states, ranks, title } = weights[n];
    slide("weights", states.map((one) => one.state), states.length - 1, (i) => {
      const named = { new: ["new classes", 1], past: ["past classes, now", 0], past_initial: ["past classes, in their initial state", 5] };
      lineChart(host, {
        title: `Mean magnitude of weights by rank, ${title}, state ${states[i].state}`, xTitle: `rank of the weight in its row, of ${ranks}`, yTitle: "mean |weight|",
        x: states[i].at, low: 0, keys: true, series: Object.entries(named).filter(([name]) => states[i][name]).map(([name, [label, c]]) => ({ label, y: states[i][name], style: { colour: `var(--c${c})`, mark: 0, dash: name === "past_initial" ? "7 4" : "", strong: name !== "past_initial" } })),
      });
    });
  };
  fill(byId("weights-trajectory"), weights.map((one) => one.title), 0, update);
  update(0);
  return undefined;
}

function showConfusion() {
  const { confusion, lines, sizes, classNames } = run(), host = byId("confusion-matrix");
  const found = lines.filter((line) => confusion[line.key]);
  byId("confusion").querySelector(".controls").hidden = !found.length;
  byId("confusion-note").textContent = "";
  repaintMatrix = () => {};
  if (!found.length) return show(host, el("p", { class: "hint" }, run().missing.includes("confusion matrices") ? recorded : "Left out of this page for its size: the run's own report has it."));
  const update = (n) => {
    const { level, states } = confusion[found[n].key];
    byId("confusion-note").textContent = level === "classes" ? "Test images by true and predicted class, in order of arrival."
      : `Too many classes to show each: test images by the states in which the true and the predicted class were new. The run's folder confusion/ has every class.`;
    slide("confusion", states.map((_, i) => i), states.length - 1, (i) => {
      const full = found[n].method === "full";
      repaintMatrix = () => drawMatrix(host, { level, matrix: decode(states[i]), names: classNames, sizes, title: `Confusion of ${plain(found[n])} after ${full ? "all classes" : `state ${i}`}` });
      repaintMatrix();
    });
  };
  const scail = Math.max(0, found.findLastIndex((line) => line.method === "scail"));
  fill(byId("confusion-method"), found.map(plain), scail, update);
  return update(scail);
}

function showTiming() {
  const { timing } = run(), host = byId("timing-bars");
  byId("timing-note").textContent = timing.length ? "Of each trajectory (one way of training that goes through all states) in this run: learning state by state (blue), and measuring all its methods (orange). A state without epochs came from the store (or has an SVM in place of a network)." : "";
  if (!timing.length) return show(host, el("p", { class: "hint" }, recorded));
  const totals = timing.map((one) => sum(one.seconds) + sum(one.evaluation)), longest = Math.max(...totals) || 1;
  return show(host, ...timing.map((one, n) => {
    const bars = one.seconds.flatMap((value, state) => [[value, "learning", `${seconds(value)}, ${one.epochs[state]} epochs`], [one.evaluation[state], "measuring", seconds(one.evaluation[state])]]
      .map(([length, kind, text]) => el("i", { class: kind, style: { width: `${(100 * length) / longest}%` }, title: `state ${state}, ${kind}: ${text}` })));
    const epochs = sum(one.epochs);
    return el("div", { class: "track" }, el("span", {}, ...labelled(one.title)),
      el("span", { class: "bars", role: "img", "aria-label": `${one.title}: ${seconds(totals[n])}` }, ...bars),
      el("span", { class: "amount" }, `${seconds(totals[n])}, ${epochs} epochs`));
  }));
}
