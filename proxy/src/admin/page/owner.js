// Owners, as the configuration names them: a team, or an address to write to.

import { h, harmless } from "./dom.js";

/**
 * An e-mail address of the plain kind. What else RFC 5322 allows, such as quoted words, names before the address or a question
 * mark, stays text: mail programs differ about it.
 */
const ADDRESS = /^[\p{L}\p{N}_+'-]+(?:\.[\p{L}\p{N}_+'-]+)*@[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+$/u;

/** The longest subject: some systems cut a longer command line. */
const MAX_SUBJECT = 200;

/** The URL of a mail to an owner (RFC 6068), or null if it is not an address. `about` are the words of the subject. */
function mailTo(owner, about) {
  if (!ADDRESS.test(owner)) return null;
  const [local, host] = owner.split("@");
  // An array of characters, because half of a character cannot be encoded.
  const subject = [...harmless(["wayleave", ...about].join(" "))].slice(0, MAX_SUBJECT).join("");
  return `mailto:${encodeURIComponent(local)}@${encodeURIComponent(host)}?subject=${encodeURIComponent(subject)}`;
}

/** An owner: a link to write to if it is an address. */
export function ownerLink(owner, ...about) {
  const href = mailTo(owner, about);
  return href ? h("a", { href }, owner) : owner;
}
