// Exemplars of every class over the states, with small pictures of them.

// Runs of (exemplars, classes), as one number per class.
const perClass = (kept) => kept.flatMap(([count, classes]) => Array(classes).fill(count));

function pictures(sheet, row, kept, name) {
  if (!sheet) return el("div", { class: "thumbs" });
  const shown = range(Math.min(sheet.columns, Math.max(kept, sheet.kept[row])));
  return el("div", { class: "thumbs", role: "img", "aria-label": `${kept} exemplars of ${name}` }, ...shown.map((column) => el("i", {
    class: column < kept ? "" : "gone",
    style: { backgroundImage: `url(${sheet.src})`, backgroundSize: `${sheet.columns * 32}px ${sheet.rows * 32}px`, backgroundPosition: `${-32 * column}px ${-32 * row}px` },
  })));
}

// Real images, and beside them what a generator makes of their class.
function generated(sheet, row, share, name) {
  if (!sheet) return [];
  const half = (from, to, what) => el("div", { class: "thumbs", role: "img", "aria-label": `${what} images of ${name}` }, ...range(to - from).map((n) => el("i", {
    style: { backgroundImage: `url(${sheet.src})`, backgroundSize: `${sheet.columns * 32}px ${sheet.rows * 32}px`, backgroundPosition: `${-32 * (from + n)}px ${-32 * row}px` },
  })));
  const told = (text, more) => el("p", { class: "told" }, el("span", {}, text), el("span", {}, more));
  return [told("real", ""), half(0, sheet.real, "real"), told("generated", `${share} % recognised`), half(sheet.real, sheet.columns, "generated")];
}

function showClasses(one, state, origin) {
  const { sizes, classNames } = run(), counts = perClass(one.kept[state]), host = byId("memory-classes");
  const starts = sizes.map((_, i) => sum(sizes.slice(0, i)));
  const states = origin < 0 ? range(state + 1) : [origin];
  const cards = states.filter((s) => s <= state).flatMap((s) => range(sizes[s]).map((row) => {
    const c = starts[s] + row, count = counts[c];
    const atFirst = perClass(one.kept[s]).slice(starts[s]);
    const sheet = one.sheets[s] && { ...one.sheets[s], kept: atFirst };
    return el("div", { class: "class" }, el("p", {}, el("span", { title: classNames[c] }, classNames[c]), el("span", {}, `${count} of ${atFirst[row]}`)), pictures(sheet, row, count, classNames[c]), ...generated(one.generated[s], row, (one.recognised[s] ?? [])[row], classNames[c]));
  }));
  show(host, ...(cards.length ? cards : [el("p", { class: "hint" }, "These classes have not arrived yet.")]));
}

function showMemory() {
  const { exemplars, sizes, memory, missing } = run(), host = byId("memory-chart");
  byId("memory").querySelector(".controls").hidden = !exemplars.length;
  show(byId("memory-classes"));
  byId("memory-note").textContent = "";
  if (!exemplars.length) return say(host, missing.includes("exemplars per class") ? recorded : "No trajectory of this run has a memory.");
  let origin = sum(sizes) <= 120 ? -1 : 0;
  const update = (n) => {
    const one = exemplars[n], states = range(one.kept.length);
    const counts = one.kept.map(perClass);
    lineChart(host, {
      title: "Exemplars of a class after each state", xTitle: "state", yTitle: "exemplars of a class", x: states, low: 0, height: 220, keys: true,
      series: [["the class with most", 1, (of) => Math.max(...of)], ["the class with fewest", 0, (of) => Math.min(...of)]].map(([label, c, of]) => ({ label, y: counts.map(of), style: { colour: `var(--c${c})`, mark: c, dash: c ? "" : "7 4", strong: c === 1 } })),
    });
    const refresh = (state) => {
      byId("memory-note").textContent = `After state ${state}: ${sum(counts[state]).toLocaleString("en")} images of ${counts[state].length} classes in a memory of ${memory.toLocaleString("en")}.`
        + (one.leftOut ? " Thumbnails are left out of this page; the run's folders exemplars/ and generated/ have them." : "");
      showClasses(one, state, origin);
    };
    const names = ["all states", ...sizes.map((size, s) => `state ${s} (${size})`)];
    fill(byId("memory-origin"), names, origin + 1, (i) => { origin = i - 1; refresh(Number(byId("memory-state").value)); });
    slide("memory", states, states.length - 1, refresh);
  };
  fill(byId("memory-trajectory"), exemplars.map((one) => one.title), 0, update);
  return update(0);
}
