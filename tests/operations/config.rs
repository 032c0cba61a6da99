//! Mistakes in the configuration file and their messages, which are the same for `serve`.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use crate::harness::tools;
use crate::harness::wayleave::command;

fn check(text: &str, arguments: &[&str]) -> Output {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("my.toml"), text).expect("writable");
    run(dir.path(), arguments)
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    tools::run(
        command().args(arguments).args(["--config", "my.toml"]).current_dir(dir),
        b"",
        Duration::from_secs(120),
    )
}

fn complaints(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect()
}

/// Returns the warnings of a successful `config check` about crawlers, each a name with its `match` and further keys.
fn warnings(crawlers: &[(&str, &str)]) -> Vec<String> {
    let table = |(name, keys): &(&str, &str)| format!("[[crawler]]\nname = \"{name}\"\n{keys}\n");
    let output = check(&crawlers.iter().map(table).collect::<String>(), &["config", "check"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    complaints(&output)
}

#[test]
fn a_crawler_that_an_earlier_one_hides_is_named() {
    let hidden = [
        [r#"user_agent = "AcmeNews""#, r#"user_agent = "AcmeNewsImages""#],
        [r#"user_agent = "acmenews""#, r#"user_agent = "The AcmeNews""#],
        [r#"addresses = ["10.0.0.0/8"]"#, r#"addresses = ["10.1.0.0/16", "10.2.3.4"]"#],
        [r#"addresses = ["10.0.0.0/9", "10.128.0.0/9"]"#, r#"addresses = ["10.0.0.0/8"]"#],
        [r#"addresses = ["fd00::/8"]"#, r#"addresses = ["fd00::1"], user_agent = "A""#],
    ];
    let tables = |[first, second]: [&str; 2]| {
        [first, second].map(|keys| format!("match = {{ {keys} }}\ntokens = [\"AcmeBot\"]"))
    };
    for case in hidden {
        let [first, second] = tables(case);
        let printed = warnings(&[("news", &first), ("images", &second)]);
        let expected = "wayleave: warning: [[crawler]] 2 \"images\" can never match: \"news\", which comes first, \
                        matches all the same requests; put \"images\" first";
        assert_eq!(printed, [expected], "{case:?}");
    }
    let not_hidden = [
        [r#"user_agent = "AcmeNewsImages""#, r#"user_agent = "AcmeNews""#],
        [r#"user_agent = "AcmeNews""#, r#"addresses = ["10.0.0.0/8"]"#],
        [r#"addresses = ["10.0.0.0/8"]"#, r#"addresses = ["10.0.0.0/7"]"#],
        [
            r#"addresses = ["10.0.0.0/8"], user_agent = "A""#,
            r#"addresses = ["10.1.0.0/16"], user_agent = "B""#,
        ],
        [r#"addresses = ["0.0.0.0/0"]"#, r#"addresses = ["::/0"]"#],
    ];
    for case in not_hidden {
        let [first, second] = tables(case);
        assert!(warnings(&[("news", &first), ("images", &second)]).is_empty(), "{case:?}");
    }
}

#[test]
fn a_crawler_that_only_matches_by_its_purposes_is_named() {
    let table = |purposes: &str| {
        format!(
            "match = {{ user_agent = \"Acme\" }}\ntokens = [\"AcmeBot\"]\npurposes = {purposes}"
        )
    };
    let printed =
        warnings(&[("news", &table("[\"search\"]")), ("trainer", &table("[\"train-ai\"]"))]);
    let expected = "wayleave: warning: [[crawler]] 2 \"trainer\" only matches requests that state by Wayleave-Purpose a purpose \
                    that \"news\", which comes first, does not declare";
    assert_eq!(printed, [expected]);
}

#[test]
fn a_crawler_that_takes_every_request_is_named() {
    let news = "match = { user_agent = \"AcmeNews\" }\ntokens = [\"AcmeNews\"]";
    let printed = warnings(&[("news", news), ("images", "tokens = [\"AcmeImages\"]")]);
    let expected = "wayleave: warning: [[crawler]] 2 \"images\" has no match: it takes every request that no earlier [[crawler]] \
                    matches, whoever sends it; if that is not meant, add one such as match = { user_agent = \"AcmeImages\" }";
    assert_eq!(printed, [expected]);
    let printed = warnings(&[("images", "tokens = [\"AcmeImages\"]")]);
    assert!(printed[0].contains("it takes every request, whoever sends it"), "{printed:?}");
}

#[test]
fn a_name_that_googles_dialect_does_not_find_is_named() {
    let keys = |tokens: &str, dialect: &str| {
        format!(
            "match = {{ user_agent = \"Majestic\" }}\ntokens = [{tokens}]\ndialect = \"{dialect}\""
        )
    };
    let printed = warnings(&[("majestic", &keys("\"MJ12bot\", \"Majestic\"", "google"))]);
    let expected = "wayleave: warning: [[crawler]] 1 \"majestic\" ignores groups for \"MJ12bot\": dialect \"google\" reads names only up \
                    to the first character that is not a letter, \"-\" or \"_\"";
    assert_eq!(printed, [expected]);
    for dialect in ["rfc9309", "koster1996", "selfhtml", "strictest"] {
        assert!(warnings(&[("majestic", &keys("\"MJ12bot\"", dialect))]).is_empty(), "{dialect}");
    }
    assert!(warnings(&[("images", &keys("\"Majestic-Image_Bot\"", "google"))]).is_empty());
}

#[test]
fn every_mistake_is_reported_at_once_with_line_and_key() {
    let text = r#"
[proxy]
listen = ["localhost:3128"]
header_timeout = "ten seconds"
frobnicate = true

[robots]
max_age = "48h"
max_size = "a lot"
dialect = "google-ish"

[upstream]
allow_private = ["10.0.0.0/40"]

[dns.overrides]
"a b" = "127.0.0.1"
"#;
    let expected = [
        ("my.toml:3: proxy.listen", ""),
        ("my.toml:4: proxy.header_timeout", ""),
        ("my.toml:5: proxy.frobnicate", "unknown key"),
        ("my.toml:8: robots.max_age", "2.4"),
        ("my.toml:9: robots.max_size", ""),
        ("my.toml:10: robots.dialect", "google"),
        ("my.toml:13: upstream.allow_private", ""),
        ("my.toml:16: dns.overrides", ""),
    ];
    for command in [&["config", "check"][..], &["serve"]] {
        let output = check(text, command);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {output:?}");
        let complaints = complaints(&output);
        assert_eq!(complaints.len(), expected.len(), "one line per mistake: {complaints:#?}");
        for ((start, part), complaint) in expected.iter().zip(&complaints) {
            assert!(
                complaint.starts_with(start) && complaint.contains(part),
                "{complaint} should start with {start} and contain {part}"
            );
        }
    }
}

#[test]
fn contradictory_and_invalid_values_are_refused() {
    let texts = [
        "[proxy]\nlisten = []\n",
        "[robots]\nmax_age = \"24h\"\nmax_stale = \"1h\"\n",
        "[[crawler]]\nname = \"a\"\ntokens = [\"A\"]\nmatch = { user_agent = \"A\" }\n[[crawler]]\nname = \"a\"\ntokens = [\"B\"]\nmatch = { user_agent = \"B\" }\n",
        "[[crawler]]\nname = \"a\"\ntokens = []\nmatch = { user_agent = \"A\" }\n",
        "[proxy]\nlisten = [\"127.0.0.1:7777\"]\n[admin]\nlisten = \"127.0.0.1:7777\"\n",
        "[proxy]\nname = \"two words\"\n",
        "[https]\nbypass = [\"*\"]\n",
        "[https]\nbypass = [\"*bank*\"]\n",
        "[https]\nmode = \"blind\"\n",
    ];
    for text in texts {
        let output = check(text, &["config", "check"]);
        assert_eq!(output.status.code(), Some(2), "{text}: {output:?}");
        assert!(complaints(&output).iter().all(|line| line.starts_with("my.toml:")), "{output:?}");
    }
}

#[test]
fn a_file_without_mistakes_is_reported_in_one_line() {
    let output = check(
        "[[crawler]]\nname = \"a\"\ntokens = [\"A\"]\nmatch.user_agent = \"A\"\n",
        &["config", "check"],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, "my.toml: no mistakes, 1 crawler, 0 rules\n");
    let gateways = "gateway.listen = [\"http://127.0.0.1:3141\", \"grpc://[::1]:3140\"]";
    let output = check(gateways, &["config", "check"]);
    let printed = String::from_utf8_lossy(&output.stdout);
    let asked = "asked at http://127.0.0.1:3141, asked at grpc://[::1]:3140";
    assert_eq!(printed, format!("my.toml: no mistakes, 0 crawlers, 0 rules, {asked}\n"));
}

#[test]
fn an_unreadable_file_and_invalid_toml_are_reported() {
    let output = check("[proxy\nlisten = 3\n", &["config", "check"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaints(&output)[0].starts_with("my.toml:1"), "{output:?}");
    let dir = tempfile::tempdir().expect("a directory");
    let missing = run(dir.path(), &["serve"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(complaints(&missing)[0].contains("my.toml"), "{missing:?}");
}

#[test]
fn tables_are_numbered_as_in_refusals_and_logs() {
    let rule = "[[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\n";
    let crawler = "[[crawler]]\nname = \"a\"\ntokens = [\"A\"]\nmatch = { user_agent = \"A\" }\n";
    let text = format!("{rule}{rule}nonsense = 1\n{crawler}mode = \"obey\"\n");
    let output = check(&text, &["config", "check"]);
    let complaints = complaints(&output);
    assert!(complaints[0].starts_with("my.toml:7: [[rule]] 2.nonsense: "), "{complaints:?}");
    assert!(complaints[1].starts_with("my.toml:12: [[crawler]] 1.mode: "), "{complaints:?}");
}

#[test]
fn an_expired_exception_causes_a_warning() {
    let exception = |expires: &str| {
        format!(
            "[[rule]]\naction = \"allow\"\nhosts = [\"shop.test\"]\nowner = \"data@example.com\"\n\
             reason = \"pilot\"\nexpires = \"{expires}\"\n"
        )
    };
    let text = exception("2999-01-01") + &exception("2020-01-01");
    let output = check(&text, &["config", "check"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let expected = "wayleave: warning: [[rule]] 2 (allow) has had no effect since it expired at 2020-01-01T00:00:00Z: \
                    pilot (owner data@example.com)";
    assert_eq!(complaints(&output), [expected]);
}

/// A `[[crawler]]`, an exception for `hosts` and a refusal for `shop.test`.
fn crawler_and_rules(token: &str, rules: &[(&str, &str)]) -> String {
    let mut text = format!(
        "[[crawler]]\nname = \"news\"\ntokens = [\"{token}\"]\nmatch = {{ user_agent = \"{token}\" }}\n"
    );
    for (action, keys) in rules {
        text += &format!("[[rule]]\n{keys}\naction = \"{action}\"\n");
        if *action == "allow" {
            text += "owner = \"o\"\nreason = \"r\"\nexpires = \"2999-01-01\"\n";
        }
    }
    text
}

#[test]
fn settings_that_weaken_enforcement_cause_warnings() {
    let refusal = ("refuse", "hosts = [\"shop.test\"]");
    let rules = |rules: &[(&str, &str)]| crawler_and_rules("AcmeBot", rules);
    let cases = [
        // The place, and the beginning of the message.
        (rules(&[("allow", "hosts = [\"*\"]")]), "6: [[rule]] 1.hosts: this exception is for all hosts"),
        (rules(&[("allow", "hosts = [\"a.test\", \"*.com\"]")]), "6: [[rule]] 1.hosts: this exception is for all hosts that"),
        (
            rules(&[("allow", "hosts = [\".test\"]"), refusal]),
            "13: [[rule]] 2.action: this refusal never applies until 2999-01-01T00:00:00Z: [[rule]] 1,",
        ),
        (
            rules(&[refusal, ("allow", "hosts = [\"shop.test\"]\ncrawlers = [\"*\"]"), refusal]),
            "17: [[rule]] 3.action: this refusal never applies",
        ),
        (crawler_and_rules("Googlebot", &[]), "3: [[crawler]] 1.tokens: \"Googlebot\" is the name of a crawler of Google"),
        (crawler_and_rules("gptbot", &[]), "3: [[crawler]] 1.tokens: \"gptbot\" is the name of a crawler of OpenAI"),
        (
            "[[crawler]]\nname = \"a\"\ntokens = [\"A\"]\nmatch = { addresses = [\"0.0.0.0/0\", \"::/0\"] }\n".to_owned(),
            "4: [[crawler]] 1.match: addresses are all that there are",
        ),
        ("\n[upstream]\nallow_private = [\"0.0.0.0/0\"]\n".to_owned(), "3: upstream.allow_private: 0.0.0.0/0 allows more"),
        ("[upstream]\nallow_private = [\"::/0\"]\n".to_owned(), "2: upstream.allow_private: ::/0 allows more"),
        (
            "upstream.allow_private = [\"0.0.0.0/1\", \"128.0.0.0/1\"]\n".to_owned(),
            "1: upstream.allow_private: 0.0.0.0/0 allows more",
        ),
        (
            "upstream.allow_private = [\"169.254.0.0/16\"]\n".to_owned(),
            "1: upstream.allow_private: crawlers can reach 169.254.169.254",
        ),
        ("[proxy]\nlisten = [\"0.0.0.0:3128\"]\n".to_owned(), "2: proxy.listen: whoever reaches 0.0.0.0:3128"),
        ("[gateway]\nlisten = [\"http://127.0.0.1:1\", \"http://10.1.2.3:3141\"]\n".to_owned(), "2: gateway.listen: whoever reaches http://10.1.2.3:3141"),
        ("[proxy]\nlisten = [\"127.0.0.1:1\", \"[::]:3128\"]\n".to_owned(), "2: proxy.listen: whoever reaches [::]:3128"),
        ("proxy.proxy_protocol = [\"0.0.0.0/0\"]\n".to_owned(), "1: proxy.proxy_protocol: every client can claim"),
        ("https.bypass = [\"*.co.uk\"]\n".to_owned(), "1: https.bypass: \"*.co.uk\" is for all hosts"),
        ("[log]\nevents = true\ndecisions = \"\"\n".to_owned(), "3: log.decisions: no decision is logged"),
    ];
    for (text, expected) in cases {
        let output = check(&text, &["config", "check"]);
        assert_eq!(output.status.code(), Some(0), "{text}: {output:?}");
        let [warning] = &complaints(&output)[..] else { panic!("one warning: {text}: {output:?}") };
        let expected = format!("wayleave: warning: my.toml:{expected}");
        assert!(warning.starts_with(&expected), "{warning}\nshould start with\n{expected}");
    }
}

#[test]
fn settings_that_weaken_nothing_cause_no_warnings() {
    let refusal = ("refuse", "hosts = [\"shop.test\"]");
    for text in [
        crawler_and_rules("AcmeBot", &[refusal, ("allow", "hosts = [\".shop.test\"]")]),
        crawler_and_rules("AcmeBot", &[("allow", "hosts = [\"*.shop.test\"]"), refusal]),
        crawler_and_rules(
            "AcmeBot",
            &[("allow", "hosts = [\".test\"]\npaths = [\"/a\"]"), refusal],
        ),
        crawler_and_rules(
            "AcmeBot",
            &[("allow", "hosts = [\".test\"]\ncrawlers = [\"news\"]"), refusal],
        ),
        crawler_and_rules("Googlebot-of-ours", &[]),
        "upstream.allow_private = [\"10.0.0.0/8\", \"fc00::/7\"]\n".to_owned(),
        "proxy = { listen = [\"0.0.0.0:3128\"], require_crawler = true }\n".to_owned(),
        "proxy = { listen = [\"10.1.2.3:3128\"], proxy_protocol = [\"10.0.0.0/8\"] }\n".to_owned(),
        "https.bypass = [\"*.shop.co.uk\"]\n".to_owned(),
    ] {
        let output = check(&text, &["config", "check"]);
        assert_eq!(
            (output.status.code(), complaints(&output).len()),
            (Some(0), 0),
            "{text}: {output:?}"
        );
    }
}

#[test]
fn a_warning_about_an_included_table_names_its_own_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let own =
        crawler_and_rules("AcmeBot", &[("allow", "hosts = [\"*.test\"]\ncrawlers = [\"news\"]")]);
    std::fs::write(dir.path().join("my.toml"), format!("include = [\"team.toml\"]\n{own}"))
        .expect("writable");
    let included = "\n[[rule]]\naction = \"refuse\"\nhosts = [\"a.test\"]\ncrawlers = [\"news\"]\n";
    std::fs::write(dir.path().join("team.toml"), included).expect("writable");
    let output = run(dir.path(), &["config", "check"]);
    let expected = "wayleave: warning: team.toml:3: [[rule]] 2.action: this refusal never applies";
    assert!(complaints(&output)[0].starts_with(expected), "{output:?}");
}
