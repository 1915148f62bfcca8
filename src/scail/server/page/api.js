// Asking the server. A 401 opens the dialog for the token, and the question is asked once more.

let signingIn = null;

function signIn() {
  signingIn = signingIn || new Promise((resolve) => {
    const dialog = byId("sign-in"), form = byId("sign-in-form"), error = byId("sign-in-error");
    dialog.oncancel = (event) => event.preventDefault(); // nothing can be done without it
    form.onsubmit = async (event) => {
      event.preventDefault();
      const body = JSON.stringify({ token: byId("token").value });
      const response = await fetch("/v1/sign-in", { method: "POST", headers: { "Content-Type": "application/json" }, body });
      error.hidden = response.ok;
      if (!response.ok) { show(error, (await response.json()).error); return; }
      byId("token").value = "";
      dialog.close();
      signingIn = null;
      resolve();
    };
    dialog.showModal();
  });
  return signingIn;
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The server cannot be reached. Is it still running?");
  }
  if (response.status === 401) {
    await signIn();
    return ask(path, options);
  }
  const isJson = (response.headers.get("content-type") || "").includes("json");
  const answer = isJson ? await response.json() : {};
  if (!response.ok && !answer.images) throw new Error(answer.error || `The server answered with ${response.status}.`);
  return answer;
}

const send = (path, value) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });

// Follow a job to its end; `told` gets each event.
function follow(job, told) {
  return new Promise((resolve, reject) => {
    const stream = new EventSource(`/v1/jobs/${job.id}/events`);
    stream.onmessage = (event) => told(JSON.parse(event.data));
    stream.addEventListener("end", (event) => { stream.close(); resolve(JSON.parse(event.data)); });
    stream.onerror = async () => {
      if (stream.readyState !== EventSource.CLOSED) return; // it comes back by itself, from where it was
      try { resolve(await ask(`/v1/jobs/${job.id}?wait=60`)); } catch (error) { reject(error); }
    };
  });
}

const failed = (error) => el("p", { class: "note" }, error.message || String(error));
const one = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;
