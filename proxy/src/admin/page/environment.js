// The variables of `wayleave env` in the words of other files and shells. These quote, because a path may contain anything.

const quoted = (text) => text.replace(/["\\$]/g, "\\$&");
/** A string of fish: a backslash escapes a quote and itself. */
const fish = (text) => `'${text.replace(/['\\]/g, "\\$&")}'`;
/** A string of PowerShell: a quote is written twice, and typographic ones count as quotes. */
const powershell = (text) => `'${text.replace(/['\u2018\u2019\u201a\u201b]/g, "$&$&")}'`;
/** A string of YAML, as JSON has it, in which Kubernetes expands no other variable. */
const yaml = (text) => JSON.stringify(text.replaceAll("$(", () => "$$("));

const each = (variables, line) => variables.map(({ name, value }) => `${line(name, value)}\n`).join("");

/** A warning for containers, in which the proxy is elsewhere. */
const elsewhere = (proxy) => (/^https?:\/\/(?:[^@/]*@)?(?:127\.|localhost|\[::1\])/.test(proxy) ? "# In a container 127.0.0.1 is the container itself: fill in the proxy's address above.\n" : "");

/** The forms besides the known clients: name, title and lines of each. */
export function otherForms({ proxy, ca, general, variables }) {
  return [
    ["other", "git, .NET, others", general],
    ["docker", "Dockerfile", `# Before these lines, COPY ca.pem to ${JSON.stringify(ca)}.\n${elsewhere(proxy)}${each(variables, (name, value) => `ENV ${name}="${quoted(value)}"`)}`],
    ["kubernetes", "Kubernetes", `# In a container of a pod, with ca.pem mounted from a ConfigMap as ${JSON.stringify(ca)}.\n${elsewhere(proxy)}env:\n${each(variables, (name, value) => `  - name: ${name}\n    value: ${yaml(value)}`)}`],
    ["fish", "fish", each(variables, (name, value) => `set -gx ${name} ${fish(value)}`)],
    ["powershell", "PowerShell", each(variables, (name, value) => `$env:${name} = ${powershell(value)}`)],
  ].map(([name, title, lines]) => ({ name, title, lines }));
}
