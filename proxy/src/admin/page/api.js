// Requests to the proxy's API, and its stream of events.

const KEY = "wayleave-token";

/** An error of the API, with the proxy's own message. */
export class Refusal extends Error {
  constructor(status, answer) {
    super(answer?.error ?? `the proxy answered with ${status}`);
    this.status = status;
    this.mistakes = answer?.mistakes ?? [];
  }
}

let tokenPrompt = null;

/** Asks for the token in one dialog, however many requests wait for it. Says so if the last one was wrong. */
function askForToken(wasWrong) {
  tokenPrompt ??= new Promise((resolve) => {
    const dialog = document.getElementById("token");
    dialog.querySelector("[role=alert]").textContent = wasWrong ? "This is not a token of this proxy: its SHA-256 is not in [admin]." : "";
    const input = dialog.querySelector("input");
    input.value = "";
    dialog.addEventListener("close", () => {
      tokenPrompt = null;
      if (input.value) sessionStorage.setItem(KEY, input.value.trim());
      resolve(Boolean(input.value));
    }, { once: true });
    dialog.showModal();
  });
  return tokenPrompt;
}

async function request(method, path, signal, body) {
  for (;;) {
    const token = sessionStorage.getItem(KEY);
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    let response;
    try {
      response = await fetch(path, { method, headers, signal, body });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Refusal(0, { error: "The proxy does not answer." });
    }
    if (response.status !== 401) return response;
    // The user may have entered the token for another request in the meantime.
    if (sessionStorage.getItem(KEY) !== token) continue;
    if (!(await askForToken(Boolean(token)))) throw new Refusal(401, { error: "The proxy needs its token." });
  }
}

async function call(method, path, { signal, body } = {}) {
  const response = await request(method, path, signal, body);
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

/** Saves a response as a file. A plain link could not send the token. */
export async function download(path, name) {
  const response = await request("GET", path);
  if (!response.ok) throw new Refusal(response.status, await response.json().catch(() => null));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

export const get = (path, signal) => call("GET", path, { signal });
/** The answer, or null if `own` (an AbortController) gave it up meanwhile: something else was asked for. */
export const getUnlessGivenUp = (path, own) => get(path, own.signal).catch((error) => {
  if (own.signal.aborted) return null;
  throw error;
});
export const post = (path) => call("POST", path);
/** Posts a text. */
export const send = (path, text) => call("POST", path, { body: text });
export const remove = (path) => call("DELETE", path);

/** Returns a query string of the parameters that are neither empty nor absent. One with several values is repeated. */
export function query(parameters) {
  const given = Object.entries(parameters).flatMap(([name, values]) => [values].flat().map((value) => [name, value]))
    .filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

/** Receives server-sent events, and connects again after a failure until it is closed. EventSource cannot send a token. */
export function listen(path, onEvent, onConnection) {
  const stop = new AbortController();
  (async () => {
    for (let pause = 500; !stop.signal.aborted; pause = Math.min(pause * 2, 10_000)) {
      try {
        const response = await request("GET", path, stop.signal);
        if (!response.ok) throw new Refusal(response.status);
        onConnection(true);
        pause = 500;
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = "";
        for (;;) {
          const { value, done } = await reader.read();
          if (done) break;
          const events = (rest + value).split("\n\n");
          rest = events.pop();
          for (const text of events) event(text, onEvent);
        }
      } catch (error) {
        if (stop.signal.aborted) return;
      }
      onConnection(false);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  })();
  return () => stop.abort();
}

function event(text, onEvent) {
  let name = null;
  let data = "";
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (name) onEvent(name, JSON.parse(data));
}

/** What only tokens for all teams are told; null for others. */
export const forAllTeams = (path) => get(path).catch((error) => {
  if (error.status === 403) return null;
  throw error;
});
