// Teaching: pictures and a name; progress; how good it is then, and what became of the classes that were known before.

const lesson = { files: [], busy: false };

function showLesson() {
  const name = byId("teach-name"), archives = lesson.files.some(isArchive);
  name.disabled = archives;
  byId("teach-go").disabled = lesson.busy || !lesson.files.length || !(archives || name.value.trim());
  const old = byId("teach-form").querySelector(".thumbs-list");
  if (old) old.remove();
  if (lesson.files.length) byId("teach-pictures").after(thumbnails(lesson.files, (i) => { lesson.files.splice(i, 1); showLesson(); }));
}

function addToLesson(files, name) {
  lesson.files.push(...files);
  if (name !== undefined) byId("teach-name").value = name;
  showLesson();
}

async function teach(event) {
  event.preventDefault();
  if (byId("teach-go").disabled) return;
  const form = new FormData(), archive = lesson.files.find(isArchive);
  if (archive) form.append("archive", archive);
  else {
    form.append("class", byId("teach-name").value.trim());
    lesson.files.forEach((file) => form.append("images", file, file.name));
  }
  lesson.busy = true;
  showLesson();
  const done = await carryOut(byId("lesson"), () => ask("/v1/learn", { method: "POST", body: form }));
  lesson.busy = false;
  if (done) { lesson.files = []; byId("teach-name").value = ""; }
  showLesson();
}

// Ask for a change, show how it goes in `host`, and then what came of it. True where it was done.
async function carryOut(host, begin) {
  const bar = el("progress", { "aria-label": "Progress" }), text = el("p", { class: "hint" }, "Sending…");
  show(host, bar, text);
  try {
    const begun = await begin();
    if (!begun.job) throw new Error(begun.error);
    show(text, "Waiting…");
    const job = await follow(begun.job, (event) => {
      if (event.of) { bar.max = event.of; bar.value = event.done; show(text, `${event.unit} ${event.done} of ${event.of}`); }
      if (event.said) show(text, event.said);
    });
    if (job.status !== "done") throw new Error(job.error || "It was not done.");
    show(host, ...outcome(job, begun.images || []));
    return true;
  } catch (error) {
    show(host, failed(error));
    return false;
  } finally {
    await refresh();
  }
}

function outcome(job, leftOut) {
  const { accuracy, classes = {}, before = {}, left } = job.result;
  const names = Object.keys(job.classes);
  const titles = { learn: `Learned: ${names.join(", ")}`, forget: `Forgotten: ${names.join(", ")}`, rename: `Renamed to ${job.to}`, correct: `Moved to ${job.to}`, undo: "The last lesson is taken back" };
  const said = [el("h3", {}, titles[job.kind] || "Done")];
  if (left) said.push(el("p", {}, left));
  said.push(...(job.result.said || []).map((text) => el("p", {}, text)));
  if (accuracy) said.push(el("p", {}, `Left out one by one, ${percent(accuracy.top1)} % of ${one(accuracy.images, "picture")} are right.`));
  const changes = Object.entries(classes).map(([name, [n, right]]) => ({ name, n, right, was: before[name] })).filter(({ n, right, was, name }) =>
    names.includes(name) || (was && Math.abs(right / n - was[1] / was[0]) > 1e-9));
  const others = Object.keys(before).filter((name) => name in classes && !names.includes(name)).length;
  const moved = changes.filter(({ name }) => !names.includes(name)).length;
  if (others) said.push(el("p", {}, moved ? `Of ${one(others, "class")} known before, ${moved} changed:` : `${one(others, "class")} known before: none does worse or better.`));
  if (changes.length) {
    const rows = changes.map(({ name, n, right, was }) => el("tr", {}, el("th", { scope: "row" }, name),
      el("td", {}, was && !names.includes(name) ? `${was[1]} of ${was[0]}` : "–"), el("td", {}, `${right} of ${n}`)));
    const head = el("tr", {}, ...["Class", "Before", "Now"].map((title) => el("th", { scope: "col" }, title)));
    said.push(el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows))));
  }
  if (leftOut.length) said.push(el("p", { class: "note" }, `${one(leftOut.length, "picture")} could not be read: ${leftOut.map(({ name }) => name).slice(0, 5).join(", ")}`));
  return said;
}

function beginLessons() {
  pictureBox(byId("teach-pictures"), { label: "Pictures to learn.", given: (files) => addToLesson(files), archives: true });
  byId("teach-name").addEventListener("input", showLesson);
  byId("teach-form").addEventListener("submit", teach);
}
