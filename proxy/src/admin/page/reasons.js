// Reasons of decisions, in words: as docs/metrics.md has them, which a test compares.

import { h } from "./dom.js";

const MEANINGS = {
  rule: "a rule of the crawler's group in robots.txt",
  "no-matching-rule": "no rule of the group matches",
  "no-matching-group": "no group names the crawler, and there is none for *",
  "robots-txt-itself": "/robots.txt is always allowed",
  unavailable: "there is no robots.txt (4xx); koster1996 disallows everything after 401 and 403",
  "redirect-lost": "its redirects led nowhere (too many, or no usable Location); koster1996 disallows everything",
  unreachable: "robots.txt cannot be fetched, and there is no usable copy; forwarded: it has failed for longer than robots.max_stale, and there never was a copy",
  "too-costly": "robots.txt is made so that finding the rule for this URL takes too long; it counts as disallowed",
  "policy-exception": "a [[rule]] allows it",
  bypass: "https.bypass lists the host",
  "policy-rule": "a [[rule]] refuses it",
  payment: "the origin answered 402, or 401 and asks for a licence, to a crawler with purposes",
  preference: "the site refuses the use for one of the crawler's purposes, or says nothing about it and unstated is \"refuse\"",
  "crawl-delay": "too soon after the crawler's last request to the origin",
  "origin-rests": "the origin answered 429 or 503 and is left alone",
  unrecorded: "the decision log cannot be written, and log.on_failure is \"refuse\"",
  concurrency: "politeness.max_concurrent_per_origin requests of the crawler are in progress",
  unidentified: "proxy.require_crawler, and no [[crawler]] matches",
  "wrong-password": "wrong credentials in Proxy-Authorization, or changed since the tunnel was opened",
  "wrong-certificate": "the client's certificate expired, or proxy.client_ca changed, since its connection began",
  "password-checks": "too many passwords are waiting to be checked: 4 from one client address, or 32 in total",
  "https-refused": "https.mode = \"refuse\"",
  "foreign-token": "User-Agent names somebody else's crawler",
  "token-missing": "User-Agent names none of the crawler's tokens",
  destination_ip_prohibited: "the name resolves to an internal address; failed: found only when connecting",
  "malformed-request": "the request is malformed; failed: only its body",
  misdirected: "inside a tunnel, but for another origin",
  "unsupported-scheme": "neither http, https nor ftp, or ftp with another method than GET and HEAD",
  proxy_loop_detected: "the request has already passed through this proxy; failed: the parent proxy is this proxy",
  proxy_configuration_error: "the parent proxy does not accept our credentials",
  "head-too-large": "no readable request head arrived",
  "head-timeout": "no readable request head arrived",
  "unsupported-version": "no readable request head arrived",
  "body-timeout": "the client stopped sending the request's body",
  "max-forwards": "OPTIONS or TRACE with Max-Forwards: 0: answered with 200 here, and not forwarded",
  connection_limit_reached: "proxy.max_connections are open, or proxy.max_connections_per_client",
  "proxy-protocol": "a load balancer in proxy.proxy_protocol sent no valid PROXY header",
  "tls-required": "plain HTTP came to an https:// listener",
  dns_error: "the origin's name does not exist, or could not be resolved",
  dns_timeout: "the origin's name was not resolved in time",
  destination_ip_unroutable: "no way to the origin's address",
  connection_refused: "no connection to the origin, or the parent proxy opens no tunnel to it",
  connection_timeout: "no connection to the origin, or the parent proxy opens no tunnel to it",
  connection_terminated: "the connection broke, or stalled",
  connection_write_timeout: "the connection broke, or stalled",
  tls_protocol_error: "the TLS handshake with the origin failed, or its certificate is not valid for it",
  tls_certificate_error: "the TLS handshake with the origin failed, or its certificate is not valid for it",
  tls_alert_received: "the TLS handshake with the origin failed, or its certificate is not valid for it",
  http_request_error: "the request cannot be written in the HTTP version of the origin",
  http_response_incomplete: "the response was cut short, or did not arrive",
  http_response_timeout: "the response was cut short, or did not arrive",
  http_response_header_section_size: "the response's head is too large, or it is not HTTP",
  http_protocol_error: "the response's head is too large, or it is not HTTP",
  "client-closed": "the client left before the response was complete",
};

/** Every reason, in the order of the document. */
export const REASONS = Object.keys(MEANINGS);

/** What a reason means; the reason itself if it is not known here. */
export const meaning = (reason) => MEANINGS[reason] ?? reason;

/** The first words of that, where there is no room for all. */
export const brief = (reason) => meaning(reason).split(";")[0];

/** A reason as a word that says its meaning to who points at it, and a link to the decisions made for it. */
export const reasonLink = (reason, href) => h("a", { class: "reason", href, title: meaning(reason) }, reason);
