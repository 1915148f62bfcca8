// What the page shows of the model, at the start and after each change.

let measuring = 0;

async function refresh() {
  clearTimeout(measuring);
  try {
    const model = await ask("/v1/classes");
    known.classes = model.classes;
    show(byId("facts"), factsOf(model));
    showClasses();
    await showInbox();
    if (model.measuring) measuring = setTimeout(refresh, 1500); // how good it is comes a little later
  } catch (error) {
    show(byId("facts"), failed(error));
  }
}

function factsOf(model) {
  if (!model.classes.length) return "It knows nothing yet. Teach it a first class, then a second.";
  const good = model.top1 !== null ? ` Left out one by one, ${percent(model.top1)} % of its pictures are right.` : model.measuring ? " How good it is, is being measured." : "";
  return `It knows ${one(model.classes.length, "class")}.${good}`;
}

function begin() {
  document.documentElement.classList.add("scripted");
  beginTheme();
  beginLessons();
  beginTrying();
  beginClasses();
  refresh().then(showSamples).catch(() => {});
  addEventListener("dragover", (event) => event.preventDefault()); // a picture that misses its place does not replace the page
  addEventListener("drop", (event) => event.preventDefault());
}

begin();
