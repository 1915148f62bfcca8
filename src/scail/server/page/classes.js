// Every class with its exemplars; one at a time is opened to rename it, to forget it, and to put its pictures right.

const WAITING = "application/x-scail-inbox";
const known = { classes: [], opened: null };

function showClasses() {
  const wanted = byId("filter").value.trim().toLowerCase();
  const shown = known.classes.filter(({ name }) => name.toLowerCase().includes(wanted));
  byId("filter-label").hidden = known.classes.length < 12;
  byId("undo").hidden = !known.classes.length;
  show(byId("class-list"), ...shown.map(classCard));
  show(byId("known"), ...known.classes.map(({ name }) => el("option", { value: name })));
}

function classCard(of) {
  const good = of.measured ? `${of.right} of ${of.measured} right` : "not measured";
  const facts = [of.images === null ? one(of.exemplars, "exemplar") : one(of.images, "picture"), good];
  const pictures = of.first.map((url) => el("img", { src: url, alt: "", loading: "lazy" }));
  const card = el("button", { type: "button", class: "class-card", onclick: () => openClass(of.name) },
    el("b", {}, of.name), el("span", { class: "strip" }, ...pictures), el("small", {}, facts.join(" · ")),
    ...(of.measured ? [el("meter", { min: 0, max: 1, low: 0.6, high: 0.9, optimum: 1, value: of.right / of.measured, "aria-label": "share that is right" })] : []));
  acceptDrops(card, of.name);
  return card;
}

// Pictures of the inbox that are dropped onto a class belong to it.
function acceptDrops(card, name) {
  const waits = (event) => event.dataTransfer.types.includes(WAITING);
  card.addEventListener("dragover", (event) => { if (waits(event)) { event.preventDefault(); card.classList.add("over"); } });
  card.addEventListener("dragleave", () => card.classList.remove("over"));
  card.addEventListener("drop", (event) => {
    card.classList.remove("over");
    if (!waits(event)) return;
    event.preventDefault();
    const images = JSON.parse(event.dataTransfer.getData(WAITING));
    carryOut(byId("change"), () => send("/v1/inbox/learn", { images, class: name }));
  });
}

const dragged = (type, ids) => (event) => event.dataTransfer.setData(type, JSON.stringify(ids()));

async function openClass(name) {
  const of = known.classes.find((found) => found.name === name), dialog = byId("class-dialog");
  if (!of) return;
  const { exemplars } = await ask(`/v1/exemplars?class=${encodeURIComponent(name)}&most=200`);
  const chosen = new Set(), result = el("div", { "aria-live": "polite" });
  const act = async (begin) => { if (await carryOut(result, begin)) { show(byId("change"), ...result.childNodes); dialog.close(); } };
  const tools = el("div", { class: "row", hidden: "" });
  const pictures = exemplars.map(({ id, url }) => el("label", { class: "pick" },
    el("input", { type: "checkbox", "aria-label": "Choose this picture", onchange: (event) => { event.target.checked ? chosen.add(id) : chosen.delete(id); tools.hidden = !chosen.size; } }),
    el("img", { src: url, alt: `learned as ${name}`, loading: "lazy" })));
  const to = el("input", { type: "text", list: "known", maxlength: 200, autocomplete: "off", "aria-label": "Class that these pictures belong to" });
  const newName = el("input", { type: "text", value: name, maxlength: 200, autocomplete: "off", "aria-label": "New name" });
  tools.append(
    el("form", { class: "row", onsubmit: (event) => { event.preventDefault(); if (to.value.trim()) act(() => send("/v1/correct", { images: [...chosen], to: to.value.trim() })); } },
      el("label", {}, "They belong to ", to), el("button", { type: "submit" }, "Move them")),
    el("button", { type: "button", onclick: () => act(() => send("/v1/forget", { class: name, images: [...chosen] })) }, "Forget them"));
  const sure = el("div", { class: "row", hidden: "" }, el("span", {}, `Forget ${name} and all its pictures?`),
    el("button", { type: "button", class: "danger", onclick: () => act(() => send("/v1/forget", { class: name })) }, "Yes, forget it"),
    el("button", { type: "button", onclick: () => { sure.hidden = true; } }, "No"));
  const facts = [of.since ? `learned first on ${new Date(of.since.replace(/([+-]\d\d)(\d\d)$/, "$1:$2")).toLocaleString()}` : null,
    of.images === null ? null : one(of.images, "picture"), one(of.exemplars, "exemplar"), of.measured ? `${of.right} of ${of.measured} right when left out` : null];
  show(dialog,
    el("div", { class: "row" }, el("h2", { id: "class-name", class: "grow" }, name), el("button", { type: "button", onclick: () => dialog.close() }, "Close")),
    el("p", { class: "hint" }, facts.filter(Boolean).join(" · ")),
    el("form", { class: "row", onsubmit: (event) => { event.preventDefault(); if (newName.value.trim() !== name) act(() => send("/v1/rename", { class: name, to: newName.value.trim() })); } },
      el("label", {}, "Name ", newName), el("button", { type: "submit" }, "Rename"),
      el("button", { type: "button", onclick: () => { sure.hidden = false; sure.querySelector("button").focus(); } }, "Forget this class")),
    sure, result,
    ...(exemplars.length ? [el("p", { class: "hint" }, "Pictures that it keeps. Choose those that are wrong.")] : []), tools,
    el("div", { class: "picks" }, ...pictures));
  dialog.showModal();
}

function beginClasses() {
  byId("filter").addEventListener("input", showClasses);
  byId("undo").addEventListener("click", () => carryOut(byId("change"), () => ask("/v1/undo", { method: "POST" })));
}
