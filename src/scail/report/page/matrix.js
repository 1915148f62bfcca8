// The confusion matrix of one state, on a canvas: rows are true classes, columns predicted ones.

function decode({ side, bits, data }) {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  const values = bits === 8 ? bytes : bits === 16 ? new Uint16Array(bytes.buffer) : new Uint32Array(bytes.buffer);
  return { side, values };
}

// What a CSS variable comes to in the theme that is on, as [r, g, b].
function colourOf(name) {
  const probe = el("span", { style: { color: `var(${name})` } });
  document.body.append(probe);
  const channels = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
  probe.remove();
  return channels;
}

// What stands at (row, column), in words. Rows are classes, or all classes that were new in a state.
function matrixText(level, names, first, matrix, row, column) {
  const total = sum([...matrix.values.subarray(row * matrix.side, (row + 1) * matrix.side)]);
  const count = matrix.values[row * matrix.side + column];
  const name = (i) => (level === "classes" ? `${names[i]} (state ${first[i]})` : `classes of state ${i}`);
  const share = total ? ` of ${total} images, ${percent((100 * count) / total)} %` : "";
  return tipTable(row === column && level === "classes" ? "Correct" : "Prediction",
    [["", "true:", name(row)], ["", "predicted:", name(column)], ["", "images:", `${count}${share}`]]);
}

// The pixels, enlarged, with a line where the classes of the next state begin.
function paint(canvas, pixels, scale, sizes) {
  const small = el("canvas", { width: pixels.width, height: pixels.height }), context = canvas.getContext("2d");
  small.getContext("2d").putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
  context.fillStyle = `rgb(${colourOf("--line").join(" ")})`;
  let at = 0;
  for (const size of scale > 3 ? sizes.slice(0, -1) : []) {
    at += size * scale;
    context.fillRect(at - 1, 0, 2, canvas.height);
    context.fillRect(0, at - 1, canvas.width, 2);
  }
}

function drawMatrix(host, { level, matrix, names, sizes, title }) {
  const { side, values } = matrix;
  const first = sizes.flatMap((size, state) => Array(size).fill(state));
  const canvas = el("canvas", { role: "img", tabindex: 0, "aria-label": `${title}. Arrow keys walk through the cells.` });
  const scale = Math.max(1, Math.floor(1040 / side));
  canvas.width = canvas.height = side * scale;
  canvas.style.width = `${Math.min(520, side * 48)}px`;
  const low = colourOf("--card"), high = colourOf("--accent"), pixels = new ImageData(side, side);
  for (let row = 0; row < side; row++) {
    let total = 0;
    for (let column = 0; column < side; column++) total += values[row * side + column];
    for (let column = 0; column < side; column++) {
      const share = Math.sqrt(values[row * side + column] / (total || 1)); // small shares stay visible
      const at = 4 * (row * side + column);
      low.forEach((channel, c) => { pixels.data[at + c] = channel + (high[c] - channel) * share; });
      pixels.data[at + 3] = 255;
    }
  }
  paint(canvas, pixels, scale, level === "classes" ? sizes : []);
  let at = [0, 0];
  const point = (row, column, x, y) => {
    at = [Math.max(0, Math.min(side - 1, row)), Math.max(0, Math.min(side - 1, column))];
    const box = canvas.getBoundingClientRect();
    tip.show(x ?? box.left + ((at[1] + 0.5) / side) * box.width, y ?? box.top + ((at[0] + 0.5) / side) * box.height,
      ...matrixText(level, names, first, matrix, ...at));
  };
  const follow = (event) => {
    const box = canvas.getBoundingClientRect();
    point(Math.floor(((event.clientY - box.top) / box.height) * side), Math.floor(((event.clientX - box.left) / box.width) * side), event.clientX, event.clientY);
  };
  canvas.addEventListener("click", follow);
  canvas.addEventListener("pointermove", follow);
  canvas.addEventListener("pointerleave", unlessTouched(tip.hide));
  canvas.addEventListener("blur", tip.hide);
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Escape") tip.hide();
    if (event.key in moves) { event.preventDefault(); point(at[0] + moves[event.key][0], at[1] + moves[event.key][1]); }
  });
  const ramp = el("i", { class: "ramp", style: { background: "linear-gradient(to right, var(--card), var(--accent))", border: "1px solid var(--line)" } });
  const shown = level === "classes" && side <= NAMED ? named(canvas, names.slice(0, side)) : canvas;
  show(host, el("div", {}, el("p", { class: "hint" }, "columns: predicted; rows: true"), shown,
    el("div", { class: "keys" }, el("span", {}, "0 %", ramp, "100 % of the row (square root)"))), frequent(level, names, first, matrix));
}

const NAMED = 30; // classes whose names fit beside the matrix

function named(canvas, names) {
  const of = (kind) => el("div", { class: kind, "aria-hidden": "true" }, ...names.map((name) => el("span", { title: name }, name)));
  return el("div", { class: "named" }, of("rows"), canvas, of("columns"));
}

// The confusions that happen most, as a list beside the matrix.
function frequent(level, names, first, { side, values }) {
  const found = [];
  values.forEach((count, i) => { if (count && Math.floor(i / side) !== i % side) found.push([count, Math.floor(i / side), i % side]); });
  found.sort((a, b) => b[0] - a[0]);
  const name = (i) => (level === "classes" ? names[i] : `state ${i}`);
  const rows = found.slice(0, 10).map(([count, row, column]) => el("tr", {}, el("td", {}, name(row)), el("td", {}, name(column)), el("td", { class: "number" }, String(count))));
  const head = el("tr", {}, ...["true", "predicted", "images"].map((text) => el("th", { scope: "col" }, text)));
  return el("div", {}, el("h4", {}, level === "classes" ? "Most frequent confusions" : "Most frequent confusions between states"),
    rows.length ? el("table", { class: "pairs" }, el("thead", {}, head), el("tbody", {}, ...rows)) : el("p", { class: "hint" }, "None."));
}
