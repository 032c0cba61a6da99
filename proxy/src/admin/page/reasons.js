// Reasons of decisions, in words: as docs/metrics.md has them, which a test compares.

import { reasonDocs } from "./docs.js";
import { h } from "./dom.js";

/** The rows of the document: reasons, the outcomes that they have, and what they mean then. */
const MEANINGS = [
  ["rule", "forwarded, observed, refused", "a rule of the crawler's group in robots.txt"],
  ["no-matching-rule", "forwarded, tunnelled", "no rule of the group matches"],
  ["no-matching-group", "forwarded, tunnelled", "no group names the crawler, and there is none for *"],
  ["robots-txt-itself", "forwarded", "/robots.txt is always allowed"],
  ["unavailable", "forwarded, tunnelled", "there is no robots.txt (4xx)"],
  ["unavailable", "observed, refused", "robots.txt was answered with 401 or 403, after which koster1996 disallows everything"],
  ["redirect-lost", "forwarded, tunnelled", "the redirects of robots.txt led nowhere (too many, or no usable Location): treated as if there were none"],
  ["redirect-lost", "observed, refused", "the redirects of robots.txt led nowhere (too many, or no usable Location), after which koster1996 disallows everything"],
  ["unreachable", "observed, refused", "robots.txt cannot be fetched, and there is no usable copy"],
  ["unreachable", "forwarded, tunnelled", "robots.txt could not be fetched for longer than robots.max_stale, and there never was a copy"],
  ["too-costly", "observed, refused", "robots.txt, or another statement of the origin about use, takes too long to match against this URL, which counts as disallowed"],
  ["policy-exception", "forwarded, tunnelled", "one of your rules ([[rule]]) allows it"],
  ["bypass", "tunnelled", "https.bypass lists the host"],
  ["policy-rule", "observed, refused", "one of your rules ([[rule]]) refuses it"],
  ["payment", "forwarded", "the origin answered with 402, or with 401 and a request for a licence; the client gets that response, and nothing is paid"],
  ["preference", "observed, refused", "the site refuses the use for one of the crawler's purposes, or states nothing about it and unstated is \"refuse\""],
  ["subresource-of", "forwarded", "robots.txt disallows it, but the crawler has subresources = \"page\", and a page loads it that was just allowed"],
  ["subresource-type", "observed, refused", "robots.txt disallows it, and the response is not the script, style sheet, image, font or media for which a page's request may pass"],
  ["response-too-large", "observed, refused", "the response is longer than max_response_bytes of the crawler"],
  ["response-too-large", "failed", "the response grew longer than max_response_bytes of the crawler, and was cut"],
  ["crawl-delay", "observed, refused", "too soon after the crawler's last request to the origin"],
  ["origin-rests", "observed, refused", "after a 429 or 503, or a RateLimit of which nothing is left, the origin or this URL gets no requests for a while, from any client or from this one"],
  ["unrecorded", "refused", "the decision log cannot be written, and log.on_failure is \"refuse\""],
  ["concurrency", "observed, refused", "politeness.max_concurrent_per_origin requests of the crawler are in progress"],
  ["budget", "observed, refused", "requests_per_day, bytes_per_day or new_origins_per_day of the crawler is spent until midnight UTC"],
  ["unidentified", "observed, refused", "proxy.require_crawler, and no [[crawler]] matches"],
  ["wrong-password", "refused", "wrong credentials in Proxy-Authorization or for SOCKS5, or changed since the tunnel was opened"],
  ["wrong-certificate", "refused", "the client's certificate expired, or proxy.client_ca changed, since its connection began"],
  ["password-checks", "refused", "too many passwords are waiting to be checked: 4 from one client address, or 32 in total"],
  ["https-refused", "observed, refused", "https.mode = \"refuse\""],
  ["foreign-token", "observed, refused", "User-Agent is the name of someone else's well-known crawler"],
  ["purpose-not-declared", "refused", "Wayleave-Purpose states what no matching [[crawler]] declares"],
  ["token-missing", "observed, refused", "User-Agent names none of the crawler's tokens"],
  ["destination_ip_prohibited", "refused", "the name resolves to an internal address"],
  ["destination_ip_prohibited", "failed", "the name resolves to an internal address, which was found only when connecting"],
  ["malformed-request", "refused", "the request is malformed"],
  ["malformed-request", "failed", "the request's body is malformed"],
  ["misdirected", "refused", "inside a tunnel, but for another origin; or captured, but for another port"],
  ["unsupported-scheme", "refused", "neither http, https nor ftp, or ftp with a method other than GET and HEAD"],
  ["proxy_loop_detected", "refused", "the request has already passed through this proxy, or a captured connection is the proxy's own"],
  ["proxy_loop_detected", "failed", "the parent proxy is this proxy"],
  ["proxy_configuration_error", "failed", "the parent proxy does not accept our credentials"],
  ["proxy_internal_error", "failed", "this machine lacks something that a connection needs, such as a file descriptor; the origin was not asked, and did not fail"],
  ["target-too-long", "refused", "the request target is longer than 16 KiB, the most that is judged"],
  ["head-too-large", "refused", "the request head is too large"],
  ["head-timeout", "refused", "the request head, or the first bytes in an uninspected tunnel, did not arrive within proxy.header_timeout"],
  ["unsupported-version", "refused", "the request is in an HTTP version other than 1.0, 1.1 and 2"],
  ["body-timeout", "failed", "the client stopped sending the request's body, or sent it too slowly while it held a slot of politeness.max_concurrent_per_origin"],
  ["max-forwards", "refused", "OPTIONS or TRACE with Max-Forwards: 0: answered with 200 here, and not forwarded"],
  ["connection_limit_reached", "refused", "proxy.max_connections are open, or proxy.max_connections_per_client, or almost as many files as the process may open"],
  ["proxy-protocol", "refused", "a load balancer in proxy.proxy_protocol sent no valid PROXY header"],
  ["tls-required", "refused", "plain HTTP arrived at an https:// listener"],
  ["not-http", "refused", "on a captured connection, neither TLS nor HTTP came, and https.bypass does not list the host"],
  ["not-redirected", "refused", "a client connected to a redirect:// or tproxy:// listener by itself"],
  ["dns_error", "failed", "the origin's name does not exist, or could not be resolved"],
  ["dns_timeout", "failed", "the origin's name was not resolved in time"],
  ["destination_ip_unroutable", "failed", "no route to the origin's address"],
  ["connection_refused", "failed", "no connection to the origin, or the parent proxy did not open a tunnel to it"],
  ["connection_timeout", "failed", "no connection to the origin in time, or the parent proxy did not open a tunnel to it in time"],
  ["connection_terminated", "failed", "the connection broke"],
  ["connection_write_timeout", "failed", "the connection stalled"],
  ["tls_protocol_error", "failed", "the TLS handshake with the origin failed"],
  ["tls_certificate_error", "failed", "the origin's certificate is not valid for it"],
  ["tls_alert_received", "failed", "the origin ended the TLS handshake with an alert"],
  ["http_request_error", "failed", "the request cannot be expressed in the origin's HTTP version"],
  ["http_response_incomplete", "failed", "the response was cut short"],
  ["http_response_timeout", "failed", "the response did not arrive in time"],
  ["http_response_header_section_size", "failed", "the response's head is too large"],
  ["http_protocol_error", "failed", "the response is not HTTP"],
  ["client-closed", "failed", "the client left or stopped reading before the response was complete; the origin did not fail"],
  ["shutdown", "failed", "the proxy ended before the response was complete: proxy.shutdown_grace was over, or a second signal to stop arrived"],
].map(([reasons, outcomes, words]) => ({ reasons: reasons.split(", "), outcomes: outcomes.split(", "), words }));

/** Every reason, in the order of the document. */
export const REASONS = [...new Set(MEANINGS.flatMap(({ reasons }) => reasons))];

/** What a reason means for an outcome; without one, for each that it can have; the reason itself if it is not known here. */
export function meaning(reason, outcome = "") {
  const rows = MEANINGS.filter(({ reasons }) => reasons.includes(reason));
  const its = rows.filter(({ outcomes }) => !outcome || outcomes.includes(outcome));
  if (its.length > 1) return its.map(({ outcomes, words }) => `${words} (${outcomes.join(", ")})`).join("; ");
  return (its[0] ?? rows[0])?.words ?? reason;
}

/** The first words of that, where there is no room for all. */
export const brief = (reason, outcome) => meaning(reason, outcome).split(";")[0];

/** A reason as a word that says its meaning to who points at it, and a link to the decisions made for it; with one to the docs. */
export function reasonLink(reason, href, outcome, withDocs = true) {
  const link = h("a", { class: "reason", href, title: meaning(reason, outcome) }, reason);
  return withDocs ? h("span", {}, link, " ", reasonDocs(reason, outcome)) : link;
}
