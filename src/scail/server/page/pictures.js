// A place for pictures: files that are dropped, pasted or chosen, and the camera.

const MOST_SHOWN = 40;

function pictureBox(host, { label, given, live, archives }) {
  const input = el("input", { type: "file", multiple: "", accept: archives ? "image/*,.zip,application/zip" : "image/*", "aria-label": label });
  const capture = el("input", { type: "file", accept: "image/*", capture: "environment", hidden: "", tabindex: -1 });
  const zone = el("label", { class: "drop" }, input, el("span", {}, el("b", {}, label), " Drop pictures here, or choose them."));
  const camera = cameraOf(capture, given, live);
  const take = (files) => { const found = [...files]; if (found.length) given(found); };
  for (const chosen of [input, capture]) chosen.addEventListener("change", () => { take(chosen.files); chosen.value = ""; });
  zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => { event.preventDefault(); zone.classList.remove("over"); take(event.dataTransfer.files); });
  zone.addEventListener("paste", (event) => take(event.clipboardData.files));
  show(host, zone, capture, camera);
}

// A button that opens the camera. Without a safe connection a browser has none; a phone's own camera then takes one picture.
function cameraOf(capture, given, live) {
  const host = el("div", { class: "camera" });
  let stream = null, timer = 0;
  const video = el("video", { playsinline: "", muted: "", "aria-label": "Camera" });
  video.muted = true;
  // The camera's first picture takes a moment.
  const ready = () => video.videoWidth ? null : new Promise((done) => video.addEventListener("loadeddata", done, { once: true }));
  const frame = () => new Promise(async (resolve) => {
    await ready();
    const canvas = el("canvas", { width: video.videoWidth, height: video.videoHeight });
    canvas.getContext("2d").drawImage(video, 0, 0);
    canvas.toBlob((blob) => resolve(blob && new File([blob], "camera.jpg", { type: "image/jpeg" })), "image/jpeg", 0.92);
  });
  const close = () => {
    clearTimeout(timer);
    stream?.getTracks().forEach((track) => track.stop());
    stream = null;
    closed();
  };
  const look = async () => {
    const began = Date.now(), file = stream && await frame();
    if (file && stream) await live(file);
    if (stream) timer = setTimeout(look, Math.max(100, 600 - (Date.now() - began)));
  };
  async function open() {
    if (!navigator.mediaDevices?.getUserMedia) { capture.click(); return; }
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    } catch {
      closed("The camera cannot be used here.");
      return;
    }
    video.srcObject = stream;
    const shoot = el("button", { type: "button", onclick: async () => { const file = await frame(); if (file) given([file]); } }, "Take a picture");
    show(host, video, el("div", { class: "row" }, ...(live ? [] : [shoot]), el("button", { type: "button", onclick: close }, "Close the camera")));
    await video.play();
    if (live) look();
  }
  function closed(said) {
    show(host, el("button", { type: "button", onclick: open }, "Camera"), ...(said ? [el("span", { class: "hint" }, said)] : []));
  }
  closed();
  return host;
}

// Small pictures of files, each with a button that takes it away.
function thumbnails(files, remove) {
  const shown = files.slice(0, MOST_SHOWN).map((file, i) => {
    const url = URL.createObjectURL(file), isPicture = !isArchive(file);
    const picture = isPicture ? el("img", { src: url, alt: file.name, onload: () => URL.revokeObjectURL(url) }) : el("span", { class: "file" }, file.name);
    return el("li", {}, picture, el("button", { type: "button", "aria-label": `Remove ${file.name}`, onclick: () => remove(i) }, "×"));
  });
  const more = files.length > MOST_SHOWN ? [el("li", { class: "file" }, `and ${files.length - MOST_SHOWN} more`)] : [];
  return el("ul", { class: "thumbs-list", "aria-label": "Pictures to learn" }, ...shown, ...more);
}

const isArchive = (file) => /\.zip$/i.test(file.name) || file.type === "application/zip";
