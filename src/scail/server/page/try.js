// Trying: the five best classes with their odds, unknown where it is unknown, and the exemplars that are nearest.

const MOST_ANSWERS = 12;

async function predict(files) {
  const form = new FormData();
  files.forEach((file) => form.append("images", file, file.name));
  return (await ask("/v1/predict?top=5&nearest=3&keep=false", { method: "POST", body: form })).images;
}

async function tryPictures(files) {
  const host = byId("answers"), waiting = el("p", { class: "hint" }, "Looking…");
  host.prepend(waiting);
  try {
    for (let i = 0; i < files.length; i += 16) {
      const part = files.slice(i, i + 16), answers = await predict(part);
      answers.forEach((answer, n) => host.insertBefore(answerCard(answer, part[n]), waiting.nextSibling));
    }
  } catch (error) {
    host.insertBefore(failed(error), waiting.nextSibling);
  }
  waiting.remove();
  while (host.children.length > MOST_ANSWERS) host.lastChild.remove();
}

// What the camera sees: one card that changes.
async function tryLive(file) {
  try {
    const [answer] = await predict([file]);
    const card = answerCard(answer, file), old = byId("answers").querySelector(".live");
    card.classList.add("live");
    if (old) old.replaceWith(card); else byId("answers").prepend(card);
  } catch { /* the next look may do better */ }
}

function answerCard(answer, file) {
  const url = URL.createObjectURL(file);
  const picture = el("img", { src: url, alt: answer.name, onload: () => URL.revokeObjectURL(url) });
  if (answer.error) return el("article", { class: "answer" }, picture, el("div", {}, el("p", { class: "note" }, `${answer.name}: ${answer.error}`)));
  const title = answer.unknown ? el("h3", { class: "unknown" }, "unknown") : el("h3", {}, answer.top[0].class);
  const rows = answer.top.map(({ class: name, probability }) => el("tr", {}, el("th", { scope: "row" }, name),
    el("td", { class: "odds" }, el("meter", { min: 0, max: 1, value: probability, "aria-label": `odds of ${name}` })), el("td", {}, `${percent(100 * probability)} %`)));
  const near = (answer.nearest || []).map(({ class: name, exemplar, similarity }) => el("figure", {},
    el("img", { src: `/v1/exemplars/${exemplar}.png`, alt: `a learned picture of ${name}`, loading: "lazy" }), el("figcaption", {}, name, el("small", {}, ` ${similarity.toFixed(2)}`))));
  const why = answer.unknown ? [el("p", { class: "hint" }, "It is like nothing that was learned. The nearest classes are:")] : [];
  const again = el("button", { type: "button", onclick: () => { addToLesson([file], ""); byId("teach-name").focus(); } }, "Teach this picture");
  return el("article", { class: "answer" }, el("div", {}, picture, again),
    el("div", {}, title, ...why, el("table", { class: "guesses" }, el("tbody", {}, ...rows)),
      ...(near.length ? [el("h4", {}, "Nearest learned pictures"), el("div", { class: "near" }, ...near)] : [])));
}

async function showSamples() {
  const { samples } = await ask("/v1/samples");
  const host = byId("samples");
  host.hidden = !samples.length;
  const fetched = async ({ url, name }) => new File([await (await fetch(url)).blob()], `${name}.png`, { type: "image/png" });
  const pictures = samples.map((sample) => el("button", { type: "button", class: "sample", "aria-label": `Try ${sample.name}`, onclick: async () => tryPictures([await fetched(sample)]) },
    el("img", { src: sample.url, alt: "", loading: "lazy" })));
  show(host, el("p", { class: "hint" }, "Or try one of these, which it has not learned:"), el("div", { class: "samples" }, ...pictures));
}

function beginTrying() {
  pictureBox(byId("try-pictures"), { label: "Pictures to try.", given: tryPictures, live: tryLive });
}
