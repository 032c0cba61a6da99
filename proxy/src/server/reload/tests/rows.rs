//! Every key of the configuration, with other values than its default.

/// A key, values for it, and what else must be set before and after it is changed.
pub(super) struct KeyRow {
    /// `section.key`; of the first `[[crawler]]` and `[[rule]]` as `crawler.key` and `rule.key`.
    pub(super) key: &'static str,
    /// As in the file; `FILES` stands for the directory of the test's files.
    pub(super) values: &'static [&'static str],
    pub(super) with: &'static [(&'static str, &'static str)],
}

const fn row(key: &'static str, values: &'static [&'static str]) -> KeyRow {
    KeyRow { key, values, with: &[] }
}

const fn row_with(
    key: &'static str,
    values: &'static [&'static str],
    with: &'static [(&'static str, &'static str)],
) -> KeyRow {
    KeyRow { key, values, with }
}

const TLS: &[(&str, &str)] =
    &[("proxy.certificate", "\"FILES/a.pem\""), ("proxy.key", "\"FILES/a.key\"")];
const CLIENT_CERTIFICATES: &[(&str, &str)] = &[
    ("proxy.certificate", "\"FILES/a.pem\""),
    ("proxy.key", "\"FILES/a.key\""),
    ("proxy.client_ca", "\"FILES/a.pem\""),
];
const SIGNING: &[(&str, &str)] =
    &[("signing.mode", "\"always\""), ("signing.agent", "\"https://bot.test\"")];
const REDIS: &[(&str, &str)] =
    &[("store.kind", "\"redis\""), ("store.url", "\"redis://127.0.0.1:1\"")];
const HASH: &str = "\"$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R5$LuxT+OtgKkKBrjKrgmJhpb7slBkaiVpQZAOvzKq9SDY\"";
const OTHER_HASH: &str = "\"$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R6$LuxT+OtgKkKBrjKrgmJhpb7slBkaiVpQZAOvzKq9SDY\"";
const ACCOUNT: &[(&str, &str)] =
    &[("crawler.match.username", "\"news\""), ("crawler.password_hash", HASH)];
const PURPOSES: &[(&str, &str)] = &[("crawler.purposes", "[\"search\"]")];
const EXCEPTION: &[(&str, &str)] =
    &[("rule.owner", "\"us\""), ("rule.reason", "\"contract\""), ("rule.expires", "2100-01-01")];

pub(super) const ROWS: &[KeyRow] = &[
    row("proxy.listen", &["[\"127.0.0.1:3130\"]"]),
    row_with("proxy.certificate", &["\"FILES/b.pem\""], TLS),
    row_with("proxy.key", &["\"FILES/copy.key\""], TLS),
    row_with("proxy.client_ca", &["\"FILES/b.pem\""], CLIENT_CERTIFICATES),
    row("proxy.header_timeout", &["\"7s\""]),
    row("proxy.idle_timeout", &["\"7s\""]),
    row("proxy.shutdown_grace", &["\"7s\""]),
    row("proxy.max_connections", &["7"]),
    row("proxy.max_connections_per_client", &["7"]),
    row("proxy.proxy_protocol", &["[\"10.0.0.0/8\"]"]),
    row("proxy.decision_id", &["true"]),
    row("proxy.name", &["\"edge\""]),
    row("proxy.require_crawler", &["true"]),
    row("proxy.mode", &["\"observe\""]),
    row("admin.listen", &["\"127.0.0.1:3130\""]),
    row(
        "admin.token_sha256",
        &["\"0011223344556677889900112233445566778899001122334455667788990011\""],
    ),
    row(
        "admin.tokens",
        &[
            "[{ sha256 = \"0011223344556677889900112233445566778899001122334455667788990011\", role = \"read\" }]",
            "[{ sha256 = \"0011223344556677889900112233445566778899001122334455667788990011\", role = \"operate\", team = \"a\" }]",
        ],
    ),
    row("admin.docs_url", &["\"https://wiki.example/docs\""]),
    row("gateway.listen", &["[\"http://127.0.0.1:3141\"]"]),
    row(
        "gateway.tokens",
        &[
            "[{ sha256 = \"0011223344556677889900112233445566778899001122334455667788990011\", crawler = \"news\" }]",
        ],
    ),
    row("https.mode", &["\"tunnel\"", "\"refuse\""]),
    row("https.ca_dir", &["\"other-ca\""]),
    row("https.bypass", &["[\"bank.test\"]"]),
    row("upstream.allow_private", &["[\"10.0.0.0/8\"]"]),
    row("upstream.extra_roots", &["[\"FILES/a.pem\"]", "[\"FILES/b.pem\"]"]),
    row("upstream.connect_timeout", &["\"3s\""]),
    row("upstream.response_timeout", &["\"3s\""]),
    row("upstream.idle_connections", &["3"]),
    row("upstream.proxy", &["\"http://127.0.0.1:9\"", "\"socks5://u:p@127.0.0.1:9\""]),
    row("upstream.proxy_bypass", &["[\"*.corp.test\"]"]),
    row("upstream.source_addresses", &["[\"127.0.0.2\"]"]),
    row("dns.servers", &["[\"127.0.0.1:5353\"]"]),
    row("dns.overrides", &["{ \"a.test\" = \"127.0.0.1\" }"]),
    row("robots.dialect", &["\"google\"", "\"strictest\""]),
    row("robots.answer", &["\"origin\""]),
    row("robots.user_agent", &["\"ExampleBot/1.0\""]),
    row("robots.fetch_timeout", &["\"4s\""]),
    row("robots.max_redirects", &["0"]),
    row("robots.max_size", &["\"1MiB\""]),
    row("robots.max_age", &["\"1h\""]),
    row("robots.max_stale", &["\"40d\""]),
    row("robots.error_ttl", &["\"5s\""]),
    row(
        "robots.pinned",
        &[
            "[{ origin = \"https://a.test\", file = \"FILES/a.txt\" }]",
            "[{ origin = \"https://b.test\", file = \"FILES/a.txt\" }]",
        ],
    ),
    row("robots.memory", &["\"1MiB\"", "\"1GiB\""]),
    row("state.dir", &["\"other-state\""]),
    row("state.max_size", &["\"16MiB\""]),
    row_with("store.kind", &["\"embedded\""], REDIS),
    row_with("store.url", &["\"redis://127.0.0.1:2\""], REDIS),
    row_with("store.cluster", &["true"], REDIS),
    row_with("store.password_file", &["\"FILES/a.key\""], REDIS),
    row_with(
        "store.ca_file",
        &["\"FILES/a.pem\""],
        &[("store.kind", "\"redis\""), ("store.url", "\"rediss://127.0.0.1:1\"")],
    ),
    row_with("store.prefix", &["\"other\""], REDIS),
    row_with("store.partitions", &["8"], REDIS),
    row_with("store.keep", &["\"20d\""], REDIS),
    row_with("store.timeout", &["\"50ms\""], REDIS),
    row_with("store.on_loss", &["\"home\""], REDIS),
    row_with("store.key_file", &["\"FILES/a.key\""], REDIS),
    row_with("store.node", &["\"n1\""], REDIS),
    row_with(
        "signing.mode",
        &["\"always\"", "\"on-request\""],
        &[("signing.agent", "\"https://bot.test\"")],
    ),
    row_with("signing.agent", &["\"https://other.test\""], SIGNING),
    row_with("signing.discovery", &["\"uri\""], SIGNING),
    row_with("signing.form", &["\"string\""], SIGNING),
    row_with("signing.plain_http", &["false"], SIGNING),
    row_with("signing.lifetime", &["\"30s\""], SIGNING),
    row("preferences.sources", &["[\"tdmrep\"]", "[\"rsl\"]"]),
    row("preferences.on_answer", &["\"label\""]),
    row("preferences.meta_scan", &["\"1KiB\"", "\"0\""]),
    row("preferences.rsl_user", &["\"non-commercial\""]),
    row("preferences.rsl_geo", &["\"DE\""]),
    row("politeness.crawl_delay", &["\"wait\"", "\"ignore\""]),
    row("politeness.max_wait", &["\"3s\""]),
    row("politeness.default_delay", &["\"3s\""]),
    row("politeness.min_delay", &["\"3s\""]),
    row("politeness.max_delay", &["\"1m\""]),
    row("politeness.max_concurrent_per_origin", &["3"]),
    row("politeness.rate_limit_fields", &["false"]),
    row("politeness.adaptive", &["true"]),
    row("politeness.share", &["\"domain\"", "\"address\""]),
    row("evidence.key", &["\"other.key\""]),
    row("log.format", &["\"json\""]),
    row("log.events", &["false"]),
    row("log.decisions", &["\"\"", "\"other.jsonl\""]),
    row("log.body_digest", &["\"sha-256\""]),
    row("log.decisions_max_size", &["\"1MiB\""]),
    row("log.decisions_max_age", &["\"1h\""]),
    row("log.decisions_keep", &["\"7d\""]),
    row("log.decisions_max_total", &["\"1GiB\""]),
    row("log.decisions_compress", &["true"]),
    row("log.client_address", &["\"network\"", "\"keyed\""]),
    row("log.on_failure", &["\"refuse\""]),
    row("log.otlp_endpoint", &["\"http://127.0.0.1:4318\""]),
    row("traces.otlp_endpoint", &["\"http://127.0.0.1:4318\""]),
    row("traces.sample_ratio", &["0.5"]),
    row("crawler.name", &["\"images\""]),
    row("crawler.tokens", &["[\"ImageBot\"]"]),
    row("crawler.match.user_agent", &["\"NewsBot\""]),
    row("crawler.match.addresses", &["[\"10.0.0.0/8\"]"]),
    row_with("crawler.match.username", &["\"images\""], ACCOUNT),
    row_with("crawler.match.certificate", &["\"DNS:news.test\""], CLIENT_CERTIFICATES),
    row_with("crawler.password_hash", &[OTHER_HASH], ACCOUNT),
    row("crawler.dialect", &["\"google\"", "\"selfhtml\""]),
    row("crawler.mode", &["\"observe\""]),
    row("crawler.contact", &["\"https://bot.test\""]),
    row("crawler.owner", &["\"news@example.com\""]),
    row("crawler.trigger", &["\"fetcher\""]),
    row("crawler.default_delay", &["\"2s\""]),
    row("crawler.min_delay", &["\"2s\""]),
    row("crawler.subresources", &["\"page\""]),
    row("crawler.refused_subresources", &["\"empty\""]),
    row("crawler.requests_per_day", &["1000"]),
    row("crawler.bytes_per_day", &["\"1GiB\""]),
    row("crawler.max_response_bytes", &["\"20MiB\""]),
    row("crawler.new_origins_per_day", &["10"]),
    row("crawler.user_agent", &["\"NewsBot/1.0\""]),
    row("crawler.user_agent_must_contain_token", &["true"]),
    row("crawler.source_address", &["\"127.0.0.3\""]),
    row("crawler.agent", &["\"https://news.bot.test\""]),
    row("crawler.signing_key", &["\"FILES/news.pem\"", "\"FILES/next.pem\""]),
    row("crawler.purposes", &["[\"train-ai\"]", "[\"search\", \"train-ai\"]"]),
    row_with("crawler.purpose_tokens", &["{ search = \"NewsBot-Search\" }"], PURPOSES),
    row_with("crawler.content_use", &["\"reference\""], PURPOSES),
    row_with("crawler.unstated", &["\"refuse\""], PURPOSES),
    row_with("rule.action", &["\"allow\""], EXCEPTION),
    row_with("rule.legal", &["true"], &[("rule.owner", "\"legal@example.com\"")]),
    row("rule.hosts", &["[\"*.b.test\"]"]),
    row("rule.paths", &["[\"/private\"]"]),
    row("rule.crawlers", &["[\"asserted\"]"]),
    row("rule.purposes", &["[\"train-ai\"]"]),
    row("rule.methods", &["[\"POST\"]"]),
    row("rule.owner", &["\"us\""]),
    row("rule.reason", &["\"they asked\""]),
    row("rule.expires", &["2100-01-01"]),
];
