//! The page for operators, driven in a browser against a proxy with traffic.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use wayleave_evidence::Sha256Digest;

use crate::harness::crawler::{Crawler, crawler};
use crate::harness::tools::{both_streams, clean, node_modules, program, project, run};
use crate::harness::wayleave::command;
use crate::harness::{Origin, Reply, Wayleave};

/// It takes one to three minutes where nothing else runs.
const LIMIT: Duration = Duration::from_secs(900);

const TOKEN: &str = "0f5d3c0ad4b6e1f2a9c8b7d6e5f40312";
const TEAM_TOKEN: &str = "6b1a0c52d79e4f83b2c6a4e09d315f78";
/// The output of `printf %s TOKEN | sha256sum`.
const TOKEN_SHA256: &str = "\"8bebe8c98c7ba4a63db78dd61ce6e2af08fbd3101104b12c6195b6686b1049a1\"";

fn sites() -> Origin {
    let origin = Origin::start();
    origin.site("shop.test").robots(
        "# Robots of the shop\nUser-agent: NewsBot\nDisallow: /private\nAllow: /private/press\n\nUser-agent: *\nDisallow: /images\nDisallow: /private\nCrawl-delay: 0\n",
    );
    origin.site("news.test").robots("User-agent: *\nDisallow:\n");
    // Dialects in which the first match decides disagree with those in which the longest does.
    origin.site("museum.test").robots("User-agent: *\nDisallow: /halls\nAllow: /halls/west\n");
    let section = |line: u32| format!("Disallow: /section-{line}/\n");
    let sections: String = (2..=200).map(section).collect();
    let spoofed = "Disallow: /spoofed\u{202e}gnp.exe\n";
    origin.site("long.test").robots(format!("User-agent: *\n{sections}{spoofed}"));
    origin.site("usage.test").robots("User-agent: *\nContent-Usage: train-ai=n\nAllow: /\n");
    origin.site("slow.test").robots("User-agent: *\nCrawl-delay: 300\nAllow: /\n");
    origin.site("feeds.partner.test").disallows("/");
    origin.site("edge.test").page("/a", Reply::new(403));
    origin.site("down.test").robots_reply(Reply::new(503));
    origin.site("gone.test").robots_reply(Reply::new(404));
    origin
}

/// Returns the date in so many days, as the configuration writes it.
fn day(days: u64) -> String {
    let at = SystemTime::now() + Duration::from_hours(24 * days);
    humantime::format_rfc3339_seconds(at).to_string()[..10].to_owned()
}

/// Owners, none of which is a plain address: a link to some of them would write to others, too.
const NO_ADDRESSES: [&str; 11] = [
    "Team 1",
    "data@example.com?bcc=x@example.org",
    "data?bcc=x@example.org",
    "data%0Abcc=x@example.org",
    "data@example.com,x@example.org",
    "data@example.com&bcc=x",
    r#""data x"@example.com"#,
    "Data <data@example.com>",
    "data@example.com\u{2028}bcc:x@example.org",
    "javascript:alert(1)@example.org",
    r#"data@example.com" onclick="alert(1)"#,
];

/// Returns crawlers, of which one is observed, one has a password and one trains models.
fn crawlers() -> Vec<Crawler> {
    let team = |number: usize| {
        let owner = NO_ADDRESSES.get(number - 1).unwrap_or(&"");
        crawler(&format!("team-{number}"), "Team")
            .matched_by("user_agent", format!("Team{number}Bot"))
            .set("owner", *owner)
    };
    let hash = "$argon2id$v=19$m=19456,t=2,p=1$c29tZSBzYWx0IGhlcmU$LuxT+OtgKkKBrjKrgmJhpb7slBkaiVpQZAOvzKq9SDY";
    let guest = crawler("guest", "GuestBot").matched_by("username", "guest");
    let others = [
        crawler("news", "NewsBot").set("owner", "desk+bots@example.com"),
        crawler("images", "ImageBot").observed(),
        guest.set("password_hash", hash).set("requests_per_day", 5000),
        crawler("mislaid", "OtherName").matched_by("user_agent", "MislaidBot"),
        crawler("trainer", "TrainerBot").purposes(["train-ai"]),
    ];
    (1..=20).map(team).chain(others).collect()
}

/// Returns a refusal, and exceptions that expire soon, late and long ago.
fn rules() -> String {
    let (soon, late) = (day(9), day(300));
    format!(
        "[[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\npaths = [\"/internal/\"]\nowner = \"legal@example.com\"\nreason = \"contract 2026-17\"\n\
         [[rule]]\naction = \"allow\"\nhosts = [\"shop.test\"]\npaths = [\"/feeds/\"]\nowner = \"data@example.com\"\nreason = \"agreed by mail\"\nexpires = \"{soon}\"\n\
         [[rule]]\naction = \"allow\"\nhosts = [\".partner.test\"]\nowner = \"far@example.com\"\nreason = \"contract\"\nexpires = \"{late}\"\n\
         [[rule]]\naction = \"allow\"\nhosts = [\"old.test\"]\nowner = \"data@example.com\"\nreason = \"pilot\"\nexpires = \"2026-01-01\"\n"
    )
}

#[test]
fn every_function_of_the_page_works() -> Result<(), String> {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.resolve("shop.test:8080", origin.http).with_all(crawlers()).table(&rules())
    });
    let changing = "http://changing.test";
    let old = "User-agent: *\nDisallow: /old\nDisallow: /both\n";
    origin.site("changing.test").robots(old);
    assert_eq!(proxy.get(&format!("{changing}/old")).status, 403);
    let new = "User-agent: *\nDisallow: /new\nDisallow: /newer\nDisallow: /both\n";
    origin.site("changing.test").robots(new);
    let refresh = "/v1/robots/http%3A%2F%2Fchanging.test/refresh";
    assert_eq!(proxy.admin_request("POST", refresh).status, 200);
    assert_eq!(proxy.get(&format!("{changing}/new")).status, 403);
    // Nobody has used this one, and its documentation is elsewhere.
    let fresh = Wayleave::start_with(&origin, |settings| {
        settings.set("admin.docs_url", "\"https://wiki.example/wayleave/docs/\"")
    });
    let snippet = proxy.dir.path().join("exception.toml");
    let guarded = Wayleave::start_with(&origin, |settings| {
        let digest = Sha256Digest::of(TEAM_TOKEN.as_bytes());
        let team = format!("[{{ sha256 = \"{digest}\", role = \"read\", team = \"news\" }}]");
        settings.set("admin.token_sha256", TOKEN_SHA256).set("admin.tokens", &team)
    });
    let pictures = project().join("target/screenshots");
    std::fs::create_dir_all(&pictures).expect("target/ is writable");
    let mut command = clean(program("node"));
    command
        .arg(project().join("tests/clients/page.cjs"))
        .env("NODE_PATH", node_modules())
        .env("CHROMIUM", program("chromium-headless-shell"))
        .env("HOME", proxy.dir.path())
        .env("PROXY", format!("http://{}", proxy.proxy))
        .env("ADMIN", format!("http://{}", proxy.admin))
        .env("TOKEN_ADMIN", format!("http://{}", guarded.admin))
        .env("TOKEN", TOKEN)
        .env("TEAM_TOKEN", TEAM_TOKEN)
        .env("CONFIG", proxy.dir.path().join("config.toml"))
        .env("FRESH", format!("http://{}", fresh.admin))
        .env("FRESH_PROXY", format!("http://{}", fresh.proxy))
        .env("CURL", program("curl"))
        .env("SNIPPET", &snippet)
        .env("PICTURES", pictures);
    if let Ok(steps) = std::env::var("STEPS") {
        command.env("STEPS", steps);
    }
    let output = run(&mut command, b"", LIMIT);
    if !output.status.success() {
        // An error is printed last: among the lines of a busy log nobody would find it.
        eprintln!("{}", proxy.log());
        return Err(both_streams(&output));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    let steps: Vec<_> = printed.lines().collect();
    assert_eq!(steps.last(), Some(&"noComplaints"), "{printed}");
    if std::env::var_os("STEPS").is_none() {
        assert_eq!(steps.len(), 65, "{printed}");
    }
    if snippet.exists() {
        expect_exception(&proxy, &snippet);
    }
    Ok(())
}

/// Checks that the exception that the page shows is right once it is filled in, and not before.
fn expect_exception(proxy: &Wayleave, snippet: &Path) {
    let config = proxy.config_with_ports();
    let before = std::fs::read_to_string(&config).expect("a file");
    let check = |name: &Path| {
        let rule = std::fs::read_to_string(name).expect("the page's text");
        std::fs::write(&config, format!("{before}{rule}")).expect("it can be written");
        command().args(["config", "check", "--config"]).arg(&config).output().expect("it runs")
    };
    let filled = check(snippet);
    assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
    let unfilled = check(&snippet.with_added_extension("unfilled"));
    let mistakes = String::from_utf8_lossy(&unfilled.stderr).into_owned();
    for key in ["owner", "reason", "expires"] {
        assert!(mistakes.contains(&format!("[[rule]] 5.{key}")), "{key}: {mistakes}");
    }
}

#[test]
fn the_page_shows_the_lines_that_env_prints() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let path = "/v1/connect?proxy=http://proxy.example:3128&ca=/etc/ssl/it's%20here.pem";
    let found = proxy.admin_get(path).json();
    let clients = found["clients"].as_array().expect("a list");
    assert_eq!(clients.len(), 8, "{found}");
    for client in clients {
        let name = client["name"].as_str().expect("a name");
        let printed = command()
            .args(["env", "--client", name, "--proxy", "http://proxy.example:3128"])
            .args(["--ca", "/etc/ssl/it's here.pem"])
            .output()
            .expect("it runs");
        let printed = String::from_utf8(printed.stdout).expect("text");
        assert_eq!(client["lines"], *printed, "{name}");
        assert!(printed.contains("proxy.example"), "{printed}");
    }
    let banner = proxy.log();
    let fingerprint = found["ca_sha256"].as_str().expect("a fingerprint");
    assert!(banner.contains(fingerprint), "{banner}");
    let page = format!("http://{}/#/connect", proxy.admin);
    assert!(banner.contains(&page), "{banner}");
    let here = proxy.admin_get("/v1/connect").json();
    let path = here["ca"].as_str().expect("a path");
    assert!(Path::new(path).is_absolute() && Path::new(path).exists(), "{here}");
    for refused in ["ftp://a/", "http://a$({touch,pwned})b:3128", "http://a:3128/?b"] {
        let path = format!("/v1/connect?proxy={refused}");
        assert_eq!(proxy.admin_get(&path).status, 400, "{refused}");
    }
    assert_eq!(proxy.admin_get("/v1/connect?ca=a%0Ab").status, 400);
}

#[test]
fn the_page_needs_no_other_host() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let page = proxy.admin_get("/").text();
    let assets = page.split('"').filter(|part| part.starts_with("/assets/"));
    let assets: Vec<_> = assets.collect();
    assert!(assets.len() >= 5, "{page}");
    for asset in assets {
        let answer = proxy.admin_get(asset);
        assert_eq!(answer.status, 200, "{asset}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    assert!(!page.contains("style=") && !page.contains("<style"), "{page}");
    assert!(!page.contains("<script>"), "{page}");
    assert_eq!(proxy.admin_get("/assets/nothing.js").status, 404);
    assert_eq!(proxy.admin_get("/assets/..%2Fmod.rs").status, 404);
}

/// Returns the values of an attribute in HTML.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    html.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn every_document_is_a_page_whose_links_have_targets() {
    let origin = Origin::start();
    let proxy = Wayleave::start(&origin);
    let (mut pages, mut sources) = (BTreeMap::new(), 0);
    for file in std::fs::read_dir(project().join("docs")).expect("a directory") {
        let path = file.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let page = proxy.admin_get(&format!("/docs/{name}"));
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"), "{name}");
        let policy = page.header("content-security-policy").expect("a policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
            "{policy}"
        );
        pages.insert(name, page.text());
    }
    let list = proxy.admin_get("/docs/").text();
    assert_eq!(list, pages["README.md"]);
    let without_slash = proxy.admin_get("/docs");
    assert_eq!((without_slash.status, without_slash.header("location")), (308, Some("/docs/")));
    for (name, page) in &pages {
        assert!(
            name == "README.md" || list.contains(&format!(" href=\"{name}\"")),
            "{name} is listed"
        );
        assert!(!page.contains("<script") && !page.contains(" style="), "{name}");
        for link in attributes(page, "href") {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "/" | "/docs/" | "/assets/icon.svg" | "/assets/page.css" => continue,
                path if path.starts_with("http") => continue,
                "" => page,
                // The page of a file outside of docs/.
                path if !path.ends_with(".md") => {
                    let source = proxy.admin_get(&format!("/docs/{path}"));
                    assert_eq!((source.status, anchor), (200, ""), "{name}: {link}");
                    sources += 1;
                    continue;
                }
                path => pages.get(path).unwrap_or_else(|| panic!("{name}: {link}")),
            };
            let found = anchor.is_empty() || attributes(target, "id").contains(&anchor);
            assert!(found, "{name}: {link}");
        }
        assert_eq!(attributes(page, "src"), ["/assets/icon.svg"], "{name}");
    }
    assert!(sources >= 5, "{sources}");
    let config = proxy.admin_get("/docs/config.toml").text();
    assert!(config.contains("[proxy]\n# The addresses with ports"), "{config}");
    for missing in ["nothing.md", "page.png", "..%2FREADME.md"] {
        assert_eq!(proxy.admin_get(&format!("/docs/{missing}")).status, 404, "{missing}");
    }
}
