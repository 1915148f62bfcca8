// The inbox: pictures that came in unknown or doubtful, in groups that look alike. Name a group, and it is learned.

const MOST_GROUPS = 30;

async function showInbox() {
  const inbox = await ask("/v1/inbox"), shown = inbox.on || inbox.count > 0;
  byId("inbox").hidden = byId("inbox-link").hidden = !shown;
  if (!shown) return;
  show(byId("inbox-link"), inbox.count ? `Inbox (${inbox.count})` : "Inbox");
  const bounds = `It holds at most ${one(inbox.most, "picture")}, each for at most ${one(inbox.days, "day")}.`;
  show(byId("inbox-hint"), inbox.count ? `Pictures that came in and were unknown or doubtful. Name a group, or drag pictures to a class. ${bounds}` : `Nothing waits here. ${bounds}`);
  show(byId("groups"), ...inbox.groups.slice(0, MOST_GROUPS).map(groupCard));
}

function groupCard({ images }, n) {
  const chosen = new Set(images.map(({ id }) => id)), result = el("div", { "aria-live": "polite" });
  const guess = images.find(({ unknown }) => !unknown)?.top[0]?.class;
  const name = el("input", { type: "text", list: "known", maxlength: 200, autocomplete: "off", placeholder: guess ? `perhaps ${guess}` : "a name", "aria-label": `Name of group ${n + 1}` });
  const pictures = images.map(({ id, url, top, unknown }) => el("label", { class: "pick", draggable: "true", title: unknown ? "unknown" : `perhaps ${top[0]?.class}`, ondragstart: dragged(WAITING, () => [...new Set([id, ...chosen])]) },
    el("input", { type: "checkbox", checked: "", "aria-label": "Belongs to this group", onchange: (event) => { event.target.checked ? chosen.add(id) : chosen.delete(id); } }),
    el("img", { src: url, alt: "", loading: "lazy", draggable: "false" })));
  const learn = (event) => {
    event.preventDefault();
    if (name.value.trim() && chosen.size) carryOut(byId("change"), () => send("/v1/inbox/learn", { images: [...chosen], class: name.value.trim() }));
    byId("change").scrollIntoView({ block: "nearest" });
  };
  const discard = async () => {
    try { await send("/v1/inbox/discard", { images: [...chosen] }); await showInbox(); } catch (error) { show(result, failed(error)); }
  };
  return el("article", { class: "card group" }, el("div", { class: "picks" }, ...pictures),
    el("form", { class: "row", onsubmit: learn }, el("label", { class: "grow" }, "These are ", name), el("button", { type: "submit", class: "main" }, "Learn"),
      el("button", { type: "button", onclick: discard }, "Remove")), result);
}
