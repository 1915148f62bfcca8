// Lines and stacked bars, as SVG at the width of their place. Colours are CSS variables, so that a theme needs no redrawing.

const figures = new Map(); // place -> how to draw it
const watcher = new ResizeObserver((entries) => entries.forEach(({ target, contentRect }) => {
  if (Math.abs((target.drawnAt || 0) - contentRect.width) > 1) redraw(target);
}));

function redraw(host) {
  host.drawnAt = host.clientWidth;
  const open = host.querySelector("details.numbers")?.open;
  show(host, ...figures.get(host)(Math.max(host.clientWidth, 240)));
  if (open) host.querySelector("details.numbers").open = true;
}

function place(host, figure) {
  figures.set(host, figure);
  redraw(host);
  watcher.observe(host);
}

function say(host, text) {
  figures.delete(host);
  watcher.unobserve(host);
  show(host, el("p", { class: "hint" }, text));
}

function ticks(low, high, about) {
  const raw = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((m) => m * power >= raw * 0.999) * power;
  const first = Math.ceil(low / step - 1e-9);
  return range(Math.floor(high / step + 1e-9) - first + 1).map((i) => +((first + i) * step).toPrecision(12));
}

const SIZE = { left: 54, right: 14, top: 12, bottom: 42 };

// The frame of a figure: grid, axes and titles. Gives the scales.
function frame(width, height, spec, low, high, margin = SIZE.right) {
  const inner = { width: width - SIZE.left - margin, height: height - SIZE.top - SIZE.bottom };
  const y = (value) => SIZE.top + inner.height * (1 - (value - low) / (high - low));
  const svg = draw("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "img", tabindex: 0,
    "aria-label": `${spec.title}. ${spec.describe || ""} Left and right arrow keys read out values; numbers are below.`,
  });
  for (const value of ticks(low, high, 5)) {
    svg.append(draw("line", { class: "grid", x1: SIZE.left, x2: width - margin, y1: y(value), y2: y(value) }));
    svg.append(draw("text", { x: SIZE.left - 8, y: y(value) + 4, "text-anchor": "end" }, number(value)));
  }
  svg.append(draw("text", { x: SIZE.left + inner.width / 2, y: height - 6, "text-anchor": "middle" }, spec.xTitle));
  const middle = SIZE.top + inner.height / 2;
  svg.append(draw("text", { x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, spec.yTitle));
  return { svg, inner, y };
}

// Labels under the axis, as many as fit without touching.
function xLabels(svg, texts, at, height, width) {
  const widest = Math.max(...texts.map((text) => String(text).length)) * 7 + 20;
  const every = Math.max(1, Math.ceil((texts.length * widest) / width));
  texts.forEach((text, i) => {
    if (i % every === 0) svg.append(draw("text", { x: at(i), y: height - SIZE.bottom + 18, "text-anchor": "middle" }, text));
  });
}

// Pointer and arrow keys choose one of `count` places; `point(i)` gives the note's content and where it belongs.
function explore(svg, count, nearest, point, mark) {
  let at = -1;
  const choose = (i, x, y) => {
    at = Math.max(0, Math.min(count - 1, i));
    mark(at);
    const box = svg.getBoundingClientRect(), { content, px } = point(at);
    tip.show(x ?? box.left + px * (box.width / svg.viewBox.baseVal.width), y ?? box.top + 20, ...content);
  };
  const leave = () => { at = -1; mark(-1); tip.hide(); };
  const follow = (event) => {
    const box = svg.getBoundingClientRect();
    choose(nearest((event.clientX - box.left) * (svg.viewBox.baseVal.width / box.width)), event.clientX, event.clientY);
  };
  svg.addEventListener("click", follow); // a tap: after the blur of what was chosen before
  svg.addEventListener("pointermove", follow);
  svg.addEventListener("pointerleave", unlessTouched(leave));
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: 1, ArrowLeft: -1 };
    if (event.key === "Escape") leave();
    if (event.key in moves) { event.preventDefault(); choose(at < 0 && event.key === "ArrowLeft" ? count - 1 : at + moves[event.key]); }
  });
}

// A label in SVG, with what is raised and lowered in it.
function drawnLabel(label) {
  const parts = LABEL.exec(label);
  if (!parts) return [label];
  const [, name, low, high, rest] = parts, small = { "font-size": 9 };
  return [name, ...(low ? [draw("tspan", { ...small, dy: 3 }, low), draw("tspan", { dy: -3 }, "\u200b")] : []),
    ...(high ? [draw("tspan", { ...small, dy: -4 }, high), draw("tspan", { dy: 4 }, "\u200b")] : []), rest || ""];
}

// Names at the ends of lines, moved apart where they would touch.
function endLabels(svg, ends, x, top, bottom) {
  const step = 14, sorted = [...ends].sort((a, b) => a.y - b.y);
  sorted.forEach((one, i) => { one.at = Math.max(one.y, i ? sorted[i - 1].at + step : top + 4); });
  for (let i = sorted.length - 1, most = bottom; i >= 0; i--, most -= step) sorted[i].at = Math.min(sorted[i].at, most);
  for (const { at, y, label, colour } of sorted) {
    svg.append(draw("path", { d: `M${x + 3} ${y}L${x + 10} ${at}`, stroke: colour, fill: "none" }));
    svg.append(draw("text", { x: x + 13, y: at + 4, style: { fill: colour } }, ...drawnLabel(label)));
  }
}

const keysOf = (series) => el("div", { class: "keys" }, ...series.map((one) => el("span", {}, swatch(one.style), el("span", {}, ...labelled(one.label)))));

const MARKS = ["M-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0", "M-3 -3h6v6h-6z", "M0 -4.2L4 3H-4z", "M0 -4.4L4.4 0L0 4.4L-4.4 0z"];
const DASHES = { herding: "", random: "7 4", "": "2 4", own: "1 3" };

function swatch(style, wide = 26) {
  return draw("svg", { width: wide, height: 10, "aria-hidden": "true" },
    draw("line", { x1: 1, x2: wide - 1, y1: 5, y2: 5, stroke: style.colour, "stroke-width": style.strong ? 3.2 : 2, "stroke-dasharray": style.dash }),
    draw("path", { d: MARKS[style.mark], transform: `translate(${wide / 2} 5)`, fill: style.colour }));
}

// spec: title, describe, xTitle, yTitle, x: values, xTexts, series: [{label, y, spread, style}], low, high, references, text
function lineChart(host, spec) {
  const text = spec.text || number;
  const values = spec.series.flatMap((one) => one.y).concat((spec.references || []).map((one) => one.y)).filter((v) => v !== null && v !== undefined);
  if (!values.length) return say(host, spec.empty || "Nothing to show: choose a method above.");
  place(host, (width) => {
    const height = spec.height || Math.round(Math.min(360, Math.max(230, width * 0.46)));
    const least = Math.min(...values), most = Math.max(...values), room = (most - least) * 0.06 || 1;
    const low = spec.low ?? (least >= 0 && least < most * 0.5 ? 0 : least - room), high = spec.high ?? most + room;
    const named = spec.named && width >= 560 && spec.series.length <= 13;
    const margin = named ? 18 + 7 * Math.max(6, ...spec.series.map((one) => one.label.length)) : SIZE.right;
    const { svg, inner, y } = frame(width, height, spec, low, high, margin);
    const first = spec.x[0], span = last(spec.x) - first || 1, pad = 10;
    const x = (value) => SIZE.left + pad + ((value - first) / span) * (inner.width - 2 * pad);
    xLabels(svg, spec.xTexts || spec.x, (i) => x(spec.x[i]), height, inner.width);
    for (const one of spec.references || []) {
      svg.append(draw("line", { class: "reference", x1: SIZE.left, x2: width - margin, y1: y(one.y), y2: y(one.y) }));
      if (!named) svg.append(draw("text", { x: SIZE.left + 8, y: y(one.y) + (y(one.y) < SIZE.top + 40 ? 16 : -6) }, one.label));
    }
    for (const { y: of, style } of [...spec.series].sort((a, b) => !!a.style.strong - !!b.style.strong)) {
      let path = "", pen = "M";
      of.forEach((value, i) => {
        if (value === null || value === undefined) { pen = "M"; return; }
        path += `${pen}${x(spec.x[i]).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = "L";
      });
      svg.append(draw("path", { class: `line${style.strong ? " strong" : ""}`, d: path, stroke: style.colour, "stroke-dasharray": style.dash }));
      if (of.length <= 30) of.forEach((value, i) => {
        if (value !== null && value !== undefined) svg.append(draw("path", { d: MARKS[style.mark], transform: `translate(${x(spec.x[i]).toFixed(1)} ${y(value).toFixed(1)})`, fill: style.colour }));
      });
    }
    if (named) endLabels(svg, [
      ...(spec.references || []).map((one) => ({ y: y(one.y), label: one.label, colour: "var(--ink)" })),
      ...spec.series.filter((one) => Number.isFinite(last(one.y))).map((one) => ({ y: y(last(one.y)), label: one.label, colour: one.style.colour })),
    ], width - margin - pad, SIZE.top, height - SIZE.bottom);
    const guide = draw("line", { class: "guide", y1: SIZE.top, y2: height - SIZE.bottom, visibility: "hidden" });
    svg.append(guide);
    explore(svg, spec.x.length,
      (px) => spec.x.reduce((best, value, i) => (Math.abs(x(value) - px) < Math.abs(x(spec.x[best]) - px) ? i : best), 0),
      (i) => ({ px: x(spec.x[i]), content: tipTable(`${spec.xTitle}: ${(spec.xTexts || spec.x)[i]}`, spec.series
        .filter((one) => one.y[i] !== null && one.y[i] !== undefined).sort((a, b) => b.y[i] - a.y[i])
        .map((one) => [swatch({ ...one.style, dash: "" }, 14), one.label, text(one.y[i]) + (one.spread ? ` ± ${text(one.spread[i])}` : "")])) }),
      (i) => { guide.setAttribute("visibility", i < 0 ? "hidden" : "visible"); if (i >= 0) { guide.setAttribute("x1", x(spec.x[i])); guide.setAttribute("x2", x(spec.x[i])); } });
    return [svg, ...(spec.keys && !named ? [keysOf(spec.series)] : []), numbersOf([spec.xTitle, ...spec.series.map((one) => one.label)],
      () => spec.x.map((_, i) => [(spec.xTexts || spec.x)[i], ...spec.series.map((one) => text(one.y[i]))]))];
  });
}

// spec: title, xTitle, yTitle, names: one per bar, parts: [{label, colour, values}], high, text
function stackedBars(host, spec) {
  const text = spec.text || number;
  const totals = spec.names.map((_, i) => sum(spec.parts.map((part) => part.values[i] || 0)));
  if (!totals.length || Math.max(...totals) === 0) return say(host, spec.empty || "Nothing to show.");
  place(host, (width) => {
    const height = Math.round(Math.min(340, Math.max(230, width * 0.6)));
    const { svg, inner, y } = frame(width, height, spec, 0, spec.high || Math.max(...totals) * 1.04);
    const step = inner.width / spec.names.length, thick = Math.max(1, Math.min(46, step * 0.78));
    const middle = (i) => SIZE.left + step * (i + 0.5);
    xLabels(svg, spec.names, middle, height, inner.width);
    const bands = spec.names.map((_, i) => draw("rect", { class: "band", x: middle(i) - step / 2, width: step, y: SIZE.top, height: inner.height }));
    svg.append(...bands);
    spec.names.forEach((_, i) => {
      let base = 0;
      for (const part of spec.parts) {
        const value = part.values[i] || 0;
        if (value > 0) svg.append(draw("rect", { class: thick > 4 ? "segment" : "", x: (middle(i) - thick / 2).toFixed(1), width: thick.toFixed(1), y: y(base + value).toFixed(1), height: (y(base) - y(base + value)).toFixed(1), fill: part.colour }));
        base += value;
      }
    });
    explore(svg, spec.names.length, (px) => Math.floor((px - SIZE.left) / step),
      (i) => ({ px: middle(i), content: tipTable(`${spec.xTitle} ${spec.names[i]}`, spec.parts.filter((part) => part.values[i])
        .map((part) => [el("i", { style: { background: part.colour, display: "inline-block", width: "10px", height: "10px", borderRadius: "2px" } }), part.label, text(part.values[i], i)])) }),
      (i) => bands.forEach((band, n) => band.classList.toggle("on", n === i)));
    return [svg, numbersOf([spec.xTitle, ...spec.parts.map((part) => part.label)],
      () => spec.names.map((name, i) => [name, ...spec.parts.map((part) => text(part.values[i] ?? 0, i))]))];
  });
}
