// Points of (cost, value), and the line through those that nothing beats.

const UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

function amount(value, unit = "") {
  if (value === null || value === undefined) return "–";
  const [size, letter] = UNITS.find(([least]) => value >= least) || [1, ""];
  return `${+(value / size).toPrecision(3)} ${letter}${unit}`.trim();
}

// A scale by powers of ten where values lie far apart; 0 stands at the left edge.
function costScale(values, low, high) {
  const positive = values.filter((value) => value > 0), least = Math.min(...positive), most = Math.max(...values, 0);
  if (!positive.length || most / least < 20) {
    const top = most || 1;
    return { at: (value) => low + (value / top) * (high - low), ticks: ticks(0, top, 5) };
  }
  const zero = values.some((value) => value <= 0), from = Math.log10(least) - (zero ? 0.5 : 0), to = Math.log10(most);
  const powers = range(Math.floor(to) - Math.ceil(Math.log10(least)) + 1).map((i) => 10 ** (Math.ceil(Math.log10(least)) + i));
  const at = (value) => (value > 0 ? low + ((Math.log10(value) - from) / (to - from)) * (high - low) : low);
  return { at, ticks: [...(zero ? [0] : []), ...(powers.length ? powers : [least, most])] };
}

// spec: title, xTitle, yTitle, points: [{label, x, y, style}], lower: whether low values are good, unit
function scatterChart(host, spec) {
  const points = [...spec.points].sort((a, b) => a.x - b.x);
  if (!points.length) return say(host, spec.empty);
  const sign = spec.lower ? -1 : 1, front = [];
  [...points].sort((a, b) => a.x - b.x || sign * (b.y - a.y)).forEach((one) => { if (!front.length || sign * one.y > sign * last(front).y) front.push(one); });
  return place(host, (width) => {
    const height = Math.round(Math.min(400, Math.max(250, width * 0.5)));
    const values = points.map((one) => one.y), room = (Math.max(...values) - Math.min(...values)) * 0.08 || 1;
    const { svg, inner, y } = frame(width, height, spec, Math.min(...values) - room, Math.max(...values) + room);
    const scale = costScale(points.map((one) => one.x), SIZE.left + 12, SIZE.left + inner.width - 12);
    xLabels(svg, scale.ticks.map((value) => amount(value, spec.unit)), (i) => scale.at(scale.ticks[i]), height, inner.width);
    svg.append(draw("path", { class: "line", d: front.map((one, i) => `${i ? "L" : "M"}${scale.at(one.x).toFixed(1)} ${y(one.y).toFixed(1)}`).join(""), stroke: "var(--soft)", "stroke-dasharray": "4 3" }));
    const marks = points.map((one) => draw("path", { d: MARKS[one.style.mark], transform: `translate(${scale.at(one.x).toFixed(1)} ${y(one.y).toFixed(1)})`, fill: one.style.colour, "data-point": one.label }));
    svg.append(...marks);
    let before = -100;
    for (const one of front) { // names of the front, where they do not touch
      const px = scale.at(one.x), right = px > width * 0.7;
      if (px - before < 14 && front.length > 4) continue;
      before = px;
      svg.append(draw("text", { x: px + (right ? -7 : 7), y: y(one.y) - 7, "text-anchor": right ? "end" : "start" }, ...drawnLabel(one.label)));
    }
    explore(svg, points.length,
      (px) => points.reduce((best, one, i) => (Math.abs(scale.at(one.x) - px) < Math.abs(scale.at(points[best].x) - px) ? i : best), 0),
      (i) => ({ px: scale.at(points[i].x), content: tipTable(`${spec.xTitle}: ${amount(points[i].x, spec.unit)}`, points
        .filter((one) => Math.abs(scale.at(one.x) - scale.at(points[i].x)) < 4).sort((a, b) => sign * (b.y - a.y))
        .map((one) => [swatch({ ...one.style, dash: "" }, 14), one.label, percent(one.y)])) }),
      (i) => marks.forEach((mark, n) => mark.setAttribute("stroke", n === i ? "var(--ink)" : "none")));
    return [svg, numbersOf(["method", spec.xTitle, spec.yTitle, "on the line"],
      () => points.map((one) => [one.label, amount(one.x, spec.unit), percent(one.y), front.includes(one) ? "yes" : ""]))];
  });
}
