// The API's description, read from /openapi.json: what to send, what comes back.

const shapeOf = (api, schema, depth = 0) => {
  if (!schema) return "nothing";
  if (schema.$ref) {
    const name = last(schema.$ref.split("/"));
    return depth > 4 ? name : shapeOf(api, api.components.schemas[name], depth + 1);
  }
  if (schema.anyOf) return schema.anyOf.map((part) => shapeOf(api, part, depth)).join(" or ");
  if (schema.type === "array") return `[${shapeOf(api, schema.items, depth)}, …]`;
  if (schema.properties) {
    const pad = "  ".repeat(depth + 1);
    const inside = Object.entries(schema.properties).map(([name, of]) => `${pad}${JSON.stringify(name)}: ${shapeOf(api, of, depth + 1)}`);
    return `{\n${inside.join(",\n")}\n${"  ".repeat(depth)}}`;
  }
  return schema.format === "binary" ? "file" : schema.type || "anything";
};

const curlOf = (method, path, body) => {
  const words = [method === "get" ? "curl" : "curl -X POST", `${location.origin}${path}`];
  const kinds = Object.keys(body?.content || {});
  if (kinds[0] === "multipart/form-data") words.splice(1, 0, path.endsWith("learn") ? "-F class=rabbit -F images=@one.jpg -F images=@two.jpg" : "-F images=@one.jpg -F images=@two.jpg");
  else if (kinds[0]) words.splice(1, 0, "-H 'Content-Type: application/json' -d '{…}'");
  return words.join(" ");
};

function route(api, path, method, of) {
  const told = (title, content) => [el("h4", {}, title), el("pre", { tabindex: 0 }, content)];
  const parameters = (of.parameters || []).map(({ name, in: where, description, schema }) =>
    el("li", {}, el("code", {}, name), ` (${where}${schema?.default === undefined ? "" : `, ${schema.default} if left out`}) ${description || ""}`));
  const bodies = Object.entries(of.requestBody?.content || {}).flatMap(([kind, { schema }]) => told(`Send ${kind}`, shapeOf(api, schema)));
  const answers = Object.entries(of.responses).map(([status, { description }]) => el("li", {}, el("code", {}, status), ` ${description}`));
  const good = Object.entries(of.responses).find(([status]) => status.startsWith("2"));
  const back = Object.entries(good?.[1].content || {}).flatMap(([kind, { schema }]) => told(`Comes back: ${kind}`, shapeOf(api, schema)));
  return el("details", { class: "card" }, el("summary", {}, el("b", {}, `${method.toUpperCase()} ${path}`), ` ${of.summary || ""}`),
    el("p", {}, of.description || ""), ...(parameters.length ? [el("h4", {}, "Parameters"), el("ul", {}, ...parameters)] : []),
    ...bodies, ...back, el("h4", {}, "Status"), el("ul", {}, ...answers), ...told("For example", curlOf(method, path, of.requestBody)));
}

async function beginDocs() {
  document.documentElement.classList.add("scripted");
  beginTheme();
  const api = await (await fetch("/openapi.json")).json();
  show(byId("about"), `${api.info.description} Version ${api.info.version}.`);
  const routes = Object.entries(api.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, of]) => route(api, path, method, of)));
  show(byId("routes"), ...routes);
}

beginDocs();
