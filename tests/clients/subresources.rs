//! Chromium renders pages whose robots.txt disallows what they load, with `subresources = "page"` and without.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::crawl::{LIMIT, command_for, trust_in_nss};
use crate::harness::crawler::crawler;
use crate::harness::tools::{node_modules, output_of, program, project};
use crate::harness::{Origin, Reply, Wayleave};

const SITES: usize = 20;

/// The policies of sites by which a browser still names the page, or its origin, to all that it loads.
const REFERRER_POLICIES: [&str; 5] =
    ["", "origin", "unsafe-url", "no-referrer-when-downgrade", "origin-when-cross-origin"];

const PNG: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\
    \0\0\0\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82";

/// A page that says what of it was loaded. The frame and the data are not needed to show it.
const PAGE: &str = r#"<!doctype html><title>shop</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/page.css">
<link rel="stylesheet" href="https://CDN/theme.css">
<script src="/static/classic.js"></script>
<script type="module" src="/static/module.js"></script>
<body><p id="styled">styled</p><p id="themed">themed</p><p id="imported">imported</p><p class="font">font</p>
<img id="png" src="/static/a.png"><img id="svg" src="https://CDN/a.svg">
<script>
const settled = (element) => element.complete || new Promise((done) => { element.onload = element.onerror = done; });
const status = (url) => fetch(url).then((answer) => answer.status, () => "failed");
window.addEventListener("load", async () => {
  const frame = document.createElement("iframe");
  const framed = new Promise((done) => { frame.onload = done; });
  frame.src = "/static/frame.html";
  document.body.append(frame);
  await framed;
  const images = [...document.images];
  await Promise.all(images.map(settled));
  await document.fonts.load("16px shop").catch(() => {});
  const color = (id) => getComputedStyle(document.getElementById(id)).color;
  window.rendered = {
    styled: color("styled") === "rgb(1, 2, 3)",
    themed: color("themed") === "rgb(4, 5, 6)",
    imported: color("imported") === "rgb(7, 8, 9)",
    classic: window.classic === true,
    module: window.dependency === true,
    images: images.every((image) => image.naturalWidth > 0),
    data: await status("/static/data.json"),
  };
});
</script>"#;

fn typed(content_type: &str, body: impl AsRef<[u8]>) -> Reply {
    // A browser asks other origins for fonts and modules with CORS.
    let reply = Reply::new(200).header("Content-Type", content_type);
    reply.header("Access-Control-Allow-Origin", "*").body(body)
}

/// Starts made-up sites: everything that their pages load is disallowed, at home and at a host for all of it.
fn sites() -> Origin {
    let origin = Origin::start();
    for number in 0..SITES {
        let (host, cdn) = (format!("shop-{number}.test"), format!("cdn-{number}.test"));
        let mut page = Reply::html(PAGE.replace("CDN", &cdn));
        let policy = REFERRER_POLICIES[number % REFERRER_POLICIES.len()];
        if !policy.is_empty() {
            page = page.header("Referrer-Policy", policy);
        }
        let style = "@import '/static/imported.css'; #styled { color: rgb(1, 2, 3) } \
                     body { background: url(/static/background.png) }";
        let theme = "@font-face { font-family: shop; src: url(/shop.woff2) } \
                     #themed { color: rgb(4, 5, 6) } .font { font-family: shop }";
        let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\" height=\"1\"/>";
        origin
            .site(&host)
            .disallows("/static")
            .page("/", page)
            .page("/static/page.css", typed("text/css", style))
            .page("/static/imported.css", typed("text/css", "#imported { color: rgb(7, 8, 9) }"))
            .page("/static/background.png", typed("image/png", PNG))
            .page("/static/a.png", typed("image/png", PNG))
            .page("/static/classic.js", typed("text/javascript", "window.classic = true"))
            .page("/static/module.js", typed("text/javascript", "import './dependency.js'"))
            .page("/static/dependency.js", typed("text/javascript", "window.dependency = true"))
            .page("/static/frame.html", Reply::html("a frame"))
            .page("/static/data.json", typed("application/json", "{}"));
        origin
            .site(&cdn)
            .disallows("/")
            .page("/theme.css", typed("text/css", theme))
            .page("/shop.woff2", typed("font/woff2", "not quite a font"))
            .page("/a.svg", typed("image/svg+xml", svg));
    }
    origin
}

/// Returns what the pages, and the browser, say of all sites, and the requests that these saw.
fn render(key: &str, value: &str) -> (Vec<Value>, Vec<String>) {
    let origin = sites();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings.with(crawler("pages", "PageBot").set(key, value))
    });
    trust_in_nss(&proxy);
    let mut node = command_for(&proxy, program("node"));
    node.arg(project().join("tests/clients/subresources.cjs"))
        .env("NODE_PATH", node_modules())
        .env("CHROMIUM", program("chromium-headless-shell"))
        .env("USER_AGENT", "Mozilla/5.0 (compatible; PageBot/1.0)");
    let mut urls = String::new();
    for number in 0..SITES {
        writeln!(urls, "https://shop-{number}.test/").expect("writing to a String cannot fail");
    }
    let printed = output_of(&mut node, urls.as_bytes(), LIMIT);
    let sites: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(sites.len(), SITES);
    (sites, origin.seen())
}

/// The paths that a page loads to be shown, at home and at the other host.
const LOADED: [[&str; 7]; 2] = [
    [
        "/static/page.css",
        "/static/imported.css",
        "/static/background.png",
        "/static/a.png",
        "/static/classic.js",
        "/static/module.js",
        "/static/dependency.js",
    ],
    ["/theme.css", "/shop.woff2", "/a.svg", "", "", "", ""],
];

/// Returns the statuses of what a page loaded to be shown, and of the frame.
fn statuses(number: usize, site: &Value) -> (Vec<(String, u64)>, u64) {
    let responses = site["responses"].as_object().expect("an object");
    let status = |url: &str| responses.get(url).and_then(Value::as_u64).unwrap_or_default();
    let hosts = ["shop", "cdn"].map(|kind| format!("https://{kind}-{number}.test"));
    let urls = hosts.iter().zip(LOADED).flat_map(|(host, paths)| {
        let paths = paths.into_iter().filter(|path| !path.is_empty());
        paths.map(move |path| format!("{host}{path}")).collect::<Vec<_>>()
    });
    let loaded = urls.map(|url| (url.clone(), status(&url))).collect();
    (loaded, status(&format!("{}/static/frame.html", hosts[0])))
}

#[test]
fn chromium_renders_whole_pages_with_their_subresources() {
    for (number, site) in render("subresources", "page").0.iter().enumerate() {
        let whole = json!({
            "styled": true, "themed": true, "imported": true, "classic": true, "module": true, "images": true, "data": 403,
        });
        assert_eq!(site["rendered"], whole, "{site}");
        let (loaded, frame) = statuses(number, site);
        for (url, status) in loaded {
            assert_eq!(status, 200, "{url}: {site}");
        }
        assert_eq!(frame, 403, "{site}");
    }
}

#[test]
fn chromium_renders_bare_pages_if_each_request_is_judged() {
    for (number, site) in render("subresources", "judge").0.iter().enumerate() {
        let bare = json!({
            "styled": false, "themed": false, "imported": false, "classic": false, "module": false, "images": false, "data": 403,
        });
        assert_eq!(site["rendered"], bare, "{site}");
        let (loaded, frame) = statuses(number, site);
        // What a refused style sheet or module would have loaded is not asked for, and of another origin the browser shows no refusal.
        let refused = loaded.iter().filter(|(_, status)| *status == 403).count();
        assert!(refused >= 4 && loaded.iter().all(|(_, status)| *status != 200), "{site}");
        assert_eq!(frame, 403, "{site}");
    }
}

#[test]
fn chromium_renders_pages_with_empty_files_in_place_of_refused_ones() {
    let (sites, seen) = render("refused_subresources", "empty");
    for (number, site) in sites.iter().enumerate() {
        // Every file is there, and says nothing: no script fails, and no image is shown as broken.
        let empty = json!({
            "styled": false, "themed": false, "imported": false, "classic": false, "module": false, "images": true, "data": 403,
        });
        assert_eq!(site["rendered"], empty, "{site}");
        let (loaded, frame) = statuses(number, site);
        let empty = loaded.iter().filter(|(_, status)| *status == 200).count();
        assert!(empty >= 4 && loaded.iter().all(|(_, status)| *status != 403), "{site}");
        assert_eq!(frame, 403, "{site}");
    }
    let refused: Vec<_> = seen
        .iter()
        .filter(|line| line.contains("/static") || line.contains("cdn-"))
        .filter(|line| !line.ends_with("/robots.txt"))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
}
