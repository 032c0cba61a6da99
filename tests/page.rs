//! The page for operators, driven in a browser against a proxy with traffic.

use std::time::{Duration, SystemTime};

use crate::harness::tools::{clean, node_modules, output_of, program, project};
use crate::harness::{Origin, Reply, Wayleave};

const LIMIT: Duration = Duration::from_secs(300);

const TOKEN: &str = "0f5d3c0ad4b6e1f2a9c8b7d6e5f40312";
/// What `printf %s TOKEN | sha256sum` prints for that.
const TOKEN_SHA256: &str = "\"8bebe8c98c7ba4a63db78dd61ce6e2af08fbd3101104b12c6195b6686b1049a1\"";

fn sites() -> Origin {
    let origin = Origin::start();
    origin.site("shop.test").robots(
        "# Robots of the shop\nUser-agent: NewsBot\nDisallow: /private\nAllow: /private/press\n\nUser-agent: *\nDisallow: /images\nDisallow: /private\nCrawl-delay: 0\n",
    );
    origin
        .site("news.test")
        .robots("User-agent: *\nDisallow:\n");
    // Those who take the first rule that matches disagree with those who take the longest.
    origin
        .site("museum.test")
        .robots("User-agent: *\nDisallow: /halls\nAllow: /halls/west\n");
    let section = |line: u32| format!("Disallow: /section-{line}/\n");
    let sections: String = (2..=200).map(section).collect();
    let spoofed = "Disallow: /spoofed\u{202e}gnp.exe\n";
    origin
        .site("long.test")
        .robots(format!("User-agent: *\n{sections}{spoofed}"));
    origin.site("down.test").robots_reply(Reply::new(503));
    origin.site("gone.test").robots_reply(Reply::new(404));
    origin
}

/// The day after so many days, as the configuration writes it.
fn day(days: u64) -> String {
    let at = SystemTime::now() + Duration::from_hours(24 * days);
    humantime::format_rfc3339_seconds(at).to_string()[..10].to_owned()
}

/// Two crawlers, one of them observed and one with a password; a refusal, and exceptions that expire soon, late and long ago.
fn tables() -> String {
    let (soon, late) = (day(9), day(300));
    let team = |number: u32| {
        format!(
            "[[crawler]]\nname = \"team-{number}\"\ntokens = [\"Team\"]\nmatch = {{ user_agent = \"Team{number}Bot\" }}\n"
        )
    };
    let teams: String = (1..=20).map(team).collect();
    format!(
        "{teams}[[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\nmatch = {{ user_agent = \"NewsBot\" }}\n\
         [[crawler]]\nname = \"images\"\ntokens = [\"ImageBot\"]\nmatch = {{ user_agent = \"ImageBot\" }}\nmode = \"observe\"\n\
         [[crawler]]\nname = \"guest\"\ntokens = [\"GuestBot\"]\nmatch = {{ username = \"guest\" }}\n\
         password_hash = \"$argon2id$v=19$m=19456,t=2,p=1$c29tZSBzYWx0IGhlcmU$LuxT+OtgKkKBrjKrgmJhpb7slBkaiVpQZAOvzKq9SDY\"\n\
         [[rule]]\naction = \"refuse\"\nhosts = [\"shop.test\"]\npaths = [\"/internal/\"]\nowner = \"legal@example.com\"\nreason = \"contract 2026-17\"\n\
         [[rule]]\naction = \"allow\"\nhosts = [\"shop.test\"]\npaths = [\"/feeds/\"]\nowner = \"data@example.com\"\nreason = \"agreed by mail\"\nexpires = \"{soon}\"\n\
         [[rule]]\naction = \"allow\"\nhosts = [\".partner.test\"]\nowner = \"far@example.com\"\nreason = \"contract\"\nexpires = \"{late}\"\n\
         [[rule]]\naction = \"allow\"\nhosts = [\"old.test\"]\nowner = \"data@example.com\"\nreason = \"pilot\"\nexpires = \"2026-01-01\"\n"
    )
}

#[test]
fn every_function_of_the_page_works() {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, |settings| settings.table(&tables()));
    let guarded = Wayleave::start_with(&origin, |settings| {
        settings.set("admin.token_sha256", TOKEN_SHA256)
    });
    let pictures = project().join("target/screenshots");
    std::fs::create_dir_all(&pictures).expect("target/ is writable");
    let mut command = clean(program("node"));
    command
        .arg(project().join("tests/clients/page.cjs"))
        .env("NODE_PATH", node_modules())
        .env("CHROMIUM", program("chromium"))
        .env("HOME", proxy.dir.path())
        .env("PROXY", format!("http://{}", proxy.proxy))
        .env("ADMIN", format!("http://{}", proxy.admin))
        .env("TOKEN_ADMIN", format!("http://{}", guarded.admin))
        .env("TOKEN", TOKEN)
        .env("CONFIG", proxy.dir.path().join("config.toml"))
        .env("PICTURES", pictures);
    let output = output_of(&mut command, b"", LIMIT);
    let done: Vec<_> = output.lines().collect();
    assert_eq!(done.last(), Some(&"noComplaints"), "{output}");
    assert_eq!(done.len(), 18, "{output}");
}

#[test]
fn the_page_is_whole_without_other_machines() {
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
    assert!(
        !page.contains("style=") && !page.contains("<style"),
        "{page}"
    );
    assert!(!page.contains("<script>"), "{page}");
    assert_eq!(proxy.admin_get("/assets/nothing.js").status, 404);
    assert_eq!(proxy.admin_get("/assets/..%2Fmod.rs").status, 404);
}
