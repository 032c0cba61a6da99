// What the page asks the proxy, and how it listens.

const KEY = "wayleave-token";

/** The proxy's own words for why something cannot be had. */
export class Refusal extends Error {
  constructor(status, answer) {
    super(answer?.error ?? `the proxy answered with ${status}`);
    this.status = status;
    this.mistakes = answer?.mistakes ?? [];
  }
}

let asking = null;

/** Asks for the token, once however many calls want it; says so if the one given was wrong. */
function wantToken(wasWrong) {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("token");
    dialog.querySelector("[role=alert]").textContent = wasWrong ? "This is not the token: its SHA-256 is not admin.token_sha256." : "";
    const input = dialog.querySelector("input");
    input.value = "";
    dialog.addEventListener("close", () => {
      asking = null;
      if (input.value) sessionStorage.setItem(KEY, input.value.trim());
      resolve(Boolean(input.value));
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

async function send(method, path, signal) {
  for (;;) {
    const token = sessionStorage.getItem(KEY);
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    let response;
    try {
      response = await fetch(path, { method, headers, signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refusal(0, { error: "The proxy does not answer." });
    }
    if (response.status !== 401) return response;
    // Another call may have been given the token meanwhile.
    if (sessionStorage.getItem(KEY) !== token) continue;
    if (!(await wantToken(Boolean(token)))) throw new Refusal(401, { error: "The proxy answers nothing without its token." });
  }
}

async function call(method, path) {
  const response = await send(method, path);
  const text = await response.text();
  let answer = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch {
    throw new Refusal(response.status);
  }
  if (!response.ok) throw new Refusal(response.status, answer);
  return answer;
}

/** Has the browser keep an answer as a file: a link alone could not show a token. */
export async function download(path, name) {
  const response = await send("GET", path);
  if (!response.ok) throw new Refusal(response.status, await response.json().catch(() => null));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

export const get = (path) => call("GET", path);
export const post = (path) => call("POST", path);
export const remove = (path) => call("DELETE", path);

/** A query string of what is neither empty nor absent. */
export function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

/** Server-sent events: EventSource cannot show a token. Comes back after a break until it is closed. */
export function listen(path, heard, state) {
  const stop = new AbortController();
  (async () => {
    for (let pause = 500; !stop.signal.aborted; pause = Math.min(pause * 2, 10_000)) {
      try {
        const response = await send("GET", path, stop.signal);
        if (!response.ok) throw new Refusal(response.status);
        state(true);
        pause = 500;
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) break;
          const events = (rest + value).split("\n\n");
          rest = events.pop();
          for (const text of events) event(text, heard);
        }
      } catch (error) {
        if (stop.signal.aborted) return;
      }
      state(false);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  })();
  return () => stop.abort();
}

function event(text, heard) {
  let name = null;
  let data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (name) heard(name, JSON.parse(data));
}
