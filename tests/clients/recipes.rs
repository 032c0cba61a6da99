//! The recipes of examples/compose. Their images are not pulled here: Docker's own Compose reads the files, and the commands in them run
//! with the same versions of the same programs, in a network namespace that has nothing but loopback.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::tools::{
    clean, node_modules, output_of, program, project, python, run, status_and_output,
    test_in_namespaces, warcprox,
};
use crate::harness::wayleave::{Settings, command};
use crate::harness::{Origin, Reply, Wayleave, Wire, eventually};

const LIMIT: Duration = Duration::from_secs(300);

/// Set inside the namespaces.
const INSIDE: &str = "WAYLEAVE_TEST_RECIPES";

/// Every service, and the site that is crawled, are this machine.
const SETUP: &str = r#"
set -eu
PATH=$PATH:/usr/sbin:/sbin
ip link set lo up
ip address add 203.0.113.7/32 dev lo
# By a route there, warcprox learns its own address, without which it loses a record.
ip route add 10.255.255.255/32 dev lo
hosts=$(mktemp)
echo '127.0.0.1 localhost wayleave prometheus warcprox' > "$hosts"
echo '203.0.113.7 shop.test' >> "$hosts"
mount --bind "$hosts" /etc/hosts
rm "$hosts"
exec "$0" "$@"
"#;

/// The address of the site: warcprox asks nothing of 127.0.0.1.
const SITE: &str = "203.0.113.7";

/// An operator's token, and its SHA-256.
const TOKEN: &str = "open sesame";
const TOKEN_SHA256: &str = "41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb";

/// Each way to start the example that its README names.
const VARIANTS: [&[&str]; 3] =
    [&["compose.yaml"], &["compose.yaml", "crawlee.yaml"], &["compose.yaml", "warcprox.yaml"]];

fn folder() -> PathBuf {
    project().join("examples/compose")
}

/// Returns the files as Compose understands them.
#[track_caller]
fn model(files: &[&str], start_urls: &str) -> Value {
    let mut compose = clean(python().with_file_name("docker-compose"));
    for file in files {
        compose.arg("--file").arg(folder().join(file));
    }
    compose.args(["config", "--format", "json"]);
    compose.env("WAYLEAVE_TOKEN", TOKEN).env("WAYLEAVE_TOKEN_SHA256", TOKEN_SHA256);
    compose.env("START_URLS", start_urls).env("USER_AGENT", "ExampleBot/1.0");
    serde_json::from_str(&output_of(&mut compose, b"", LIMIT)).expect("JSON")
}

/// A folder that stands for the volumes, configs and secrets, by their places in containers.
struct Stage {
    dir: TempDir,
    model: Value,
    places: BTreeMap<String, PathBuf>,
}

impl Stage {
    fn new(files: &[&str], start_urls: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let model = model(files, start_urls);
        let mut places = BTreeMap::new();
        for service in model["services"].as_object().expect("services").values() {
            for volume in service["volumes"].as_array().into_iter().flatten() {
                let name = volume["source"].as_str().expect("a named volume");
                let place = dir.path().join("volumes").join(name);
                std::fs::create_dir_all(&place).expect("writable");
                places.insert(text(&volume["target"]).to_owned(), place);
            }
            for config in service["configs"].as_array().into_iter().flatten() {
                let place = dir.path().join(text(&config["source"]));
                places.insert(text(&config["target"]).to_owned(), place);
            }
            for secret in service["secrets"].as_array().into_iter().flatten() {
                let name = text(&secret["source"]);
                let place = dir.path().join(name);
                std::fs::write(&place, TOKEN).expect("writable");
                places.insert(format!("/run/secrets/{name}"), place);
            }
        }
        places.insert("/srv/crawler".to_owned(), dir.path().join("crawler"));
        let stage = Self { dir, model, places };
        stage.write_configs();
        stage.copy_crawler();
        stage
    }

    fn write_configs(&self) {
        for (name, config) in self.model["configs"].as_object().expect("configs") {
            let content = match config["content"].as_str() {
                Some(content) => content.to_owned(),
                None => std::fs::read_to_string(text(&config["file"])).expect("readable"),
            };
            std::fs::write(self.dir.path().join(name), self.placed(&content)).expect("writable");
        }
    }

    /// Copies what the image of the crawler has, with the packages that are installed here.
    fn copy_crawler(&self) {
        let context = PathBuf::from(text(&self.model["services"]["crawler"]["build"]["context"]));
        let place = &self.places["/srv/crawler"];
        std::fs::create_dir(place).expect("writable");
        let dockerfile = std::fs::read_to_string(context.join("Dockerfile")).expect("readable");
        assert!(dockerfile.contains("\nWORKDIR /srv/crawler\n"), "{dockerfile}");
        let copied = dockerfile.lines().filter_map(|line| line.strip_prefix("COPY "));
        for name in copied.flat_map(str::split_whitespace).filter(|name| !name.ends_with('/')) {
            std::fs::copy(context.join(name), place.join(name)).expect("the image has this file");
        }
        std::os::unix::fs::symlink(node_modules(), place.join("node_modules")).expect("writable");
    }

    /// Returns the text with the places here instead of those in containers.
    fn placed(&self, text: &str) -> String {
        let mut placed = String::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            // In the middle of another path, it would be another place.
            let is_start = !placed.ends_with(|c: char| c.is_alphanumeric() || "/._-".contains(c));
            // A longer place may begin with a shorter one.
            let mut places = self.places.iter().rev().filter(|_| is_start);
            if let Some((inside, here)) = places.find(|(inside, _)| rest.starts_with(*inside)) {
                placed += &here.display().to_string();
                rest = &rest[inside.len()..];
            } else {
                placed.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
        placed
    }

    /// Returns the command of a service with its environment.
    fn command(&self, service: &str) -> Command {
        let service = &self.model["services"][service];
        let words = service["command"].as_array().expect("a command");
        let words: Vec<_> = words.iter().map(|word| self.placed(text(word))).collect();
        self.command_with(service, &words)
    }

    fn command_with(&self, service: &Value, words: &[String]) -> Command {
        let mut command = clean("env");
        for (name, value) in service["environment"].as_object().into_iter().flatten() {
            command.arg(format!("{name}={}", self.placed(text(value))));
        }
        let path = std::env::var("PATH").expect("there is a PATH");
        let [python, warcprox] =
            [python(), warcprox()].map(|program| program.parent().expect("a file").to_owned());
        command.args(words).current_dir(self.dir.path()).env("HOME", self.dir.path());
        command.env("PATH", format!("{}:{}:{path}", python.display(), warcprox.display()));
        command
    }

    /// Starts the proxy, with the origin as `shop.test` unless a parent proxy resolves names.
    fn start_wayleave(&self, origin: &Origin) -> Wayleave {
        let own = tempfile::tempdir().expect("a temporary directory can be made");
        let settings = Settings::for_origin(own.path(), origin);
        let file = self.dir.path().join("wayleave");
        let mut config = std::fs::read_to_string(&file).expect("readable");
        if !config.contains("[upstream]") {
            write!(
                config,
                "\n[upstream]\nallow_private = [\"{SITE}/32\"]\nextra_roots = [{:?}]\n\
                 [dns.overrides]\n\"shop.test:80\" = \"{}\"\n\"shop.test:443\" = \"{}\"\n",
                own.path().join("origins.pem"),
                origin.http,
                origin.https
            )
            .expect("writing to a String cannot fail");
            std::fs::write(&file, config).expect("writable");
        }
        let proxy = Wayleave::start_with_file(&file, own, settings);
        assert_eq!((proxy.proxy.port(), proxy.admin.port()), (3128, 3129));
        // The health check of the image, which the other services wait for.
        output_of(command().args(["health", "--config"]).arg(&file), b"", LIMIT);
        output_of(&mut self.command("ca"), b"", LIMIT);
        proxy
    }

    /// Runs the crawler to its end. Returns what it wrote below /srv/pages.
    fn crawl(&self) -> String {
        let (status, printed) = status_and_output(&mut self.command("crawler"));
        assert_eq!(status, Some(0), "{printed}");
        let pages = read_all(&self.places["/srv/pages"]);
        assert!(pages.contains("Open"), "{pages}\n{printed}");
        pages
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// Returns the text of all files below a folder.
fn read_all(dir: &Path) -> String {
    let mut found = String::new();
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("readable").path();
        found += &if path.is_dir() {
            read_all(&path)
        } else {
            String::from_utf8_lossy(&std::fs::read(&path).expect("readable")).into_owned()
        };
    }
    found
}

/// A service that keeps running; killed when dropped.
struct Service(Child);

impl Service {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().expect("it can be started"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

/// A site with pages that may be fetched and one that may not, each linked from the first.
fn shop() -> Origin {
    let origin = Origin::start_at(SITE);
    origin
        .site("shop.test")
        .disallows("/private")
        .page("/", Reply::html("<title>Shop</title><a href=/open>a</a><a href=/private/a>b</a>"))
        .page("/open", Reply::html("<title>Open</title>"))
        .page("/private/a", Reply::html("<title>Secret</title>"));
    origin
}

#[track_caller]
fn check_pages(origin: &Origin, pages: &str) {
    assert!(pages.contains("wayleave;") && pages.contains("Disallow: /private"), "{pages}");
    assert!(!pages.contains("Secret"), "{pages}");
    let seen = origin.seen();
    for path in ["/robots.txt", "/", "/open"] {
        assert!(seen.contains(&format!("GET https://shop.test{path}")), "{seen:?}");
    }
    assert!(!seen.iter().any(|line| line.contains("/private")), "{seen:?}");
    for request in origin.requests().iter().filter(|it| it.target != "/robots.txt") {
        let user_agent = request.header("user-agent").unwrap_or_default();
        assert!(user_agent.starts_with("ExampleBot/1.0"), "{user_agent}");
    }
}

/// Runs the calling test in namespaces, as often as it takes to be inside.
fn inside(test: &str, run: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return run();
    }
    let test = format!("clients::recipes::{test}");
    let options = ["--mount", "--propagation", "private"];
    test_in_namespaces(&options, SETUP, &test, INSIDE, Duration::from_secs(500));
}

#[test]
fn scrapy_crawls_and_prometheus_scrapes() {
    inside("scrapy_crawls_and_prometheus_scrapes", || {
        let origin = shop();
        let stage = Stage::new(&["compose.yaml"], "https://shop.test/ http://shop.test/");
        let _proxy = stage.start_wayleave(&origin);
        check_pages(&origin, &stage.crawl());
        check_prometheus(&stage);
    });
}

/// The scrape has the right password, address and job, and the rules are loaded.
fn check_prometheus(stage: &Stage) {
    let file = stage.dir.path().join("prometheus");
    let config = std::fs::read_to_string(&file).expect("readable");
    std::fs::write(&file, config.replace("15s", "1s")).expect("writable");
    let mut promtool = clean(program("promtool"));
    output_of(promtool.args(["check", "config"]).arg(&file), b"", LIMIT);
    // The image's entry point is the program.
    let service = &stage.model["services"]["prometheus"];
    let arguments = service["command"].as_array().expect("arguments").iter();
    let words = ["prometheus".to_owned()].into_iter();
    let words: Vec<_> = words.chain(arguments.map(|word| stage.placed(text(word)))).collect();
    let log = std::fs::File::create(stage.dir.path().join("log")).expect("writable");
    let mut command = stage.command_with(service, &words);
    command.stderr(log);
    let _prometheus = Service::start(command);
    let address = ([127, 0, 0, 1], 9090).into();
    let get = |path: &str| {
        let mut wire = Wire::connect(address);
        wire.send(format!("GET {path} HTTP/1.1\r\nHost: prometheus\r\nConnection: close\r\n\r\n"));
        wire.response().text()
    };
    eventually("prometheus listens", || std::net::TcpStream::connect(address).is_ok());
    let refused = "/api/v1/query?query=wayleave_requests_total%7Boutcome=%22refused%22,\
                   reason=%22rule%22%7D%3E0";
    eventually("a refusal is in a scrape", || get(refused).contains("\"reason\":\"rule\""));
    assert!(get("/api/v1/rules").contains("WayleaveDown"), "{}", get("/api/v1/rules"));
}

#[test]
fn crawlee_crawls_with_chromium() {
    inside("crawlee_crawls_with_chromium", || {
        let origin = shop();
        let stage = Stage::new(&["compose.yaml", "crawlee.yaml"], "https://shop.test/");
        let _proxy = stage.start_wayleave(&origin);
        check_pages(&origin, &stage.crawl());
    });
}

#[test]
fn warcprox_archives_what_wayleave_forwards() {
    inside("warcprox_archives_what_wayleave_forwards", || {
        let origin = shop();
        // The parent proxy resolves names, so nothing leads to the origin's ports but the URLs.
        let [http, https] = [origin.http.port(), origin.https.port()];
        let urls = format!("http://shop.test:{http}/ https://shop.test:{https}/");
        let stage = Stage::new(&["compose.yaml", "warcprox.yaml"], &urls);
        let warcprox = Service::start(stage.command("warcprox"));
        eventually("warcprox listens", || std::net::TcpStream::connect("127.0.0.1:8000").is_ok());
        let _proxy = stage.start_wayleave(&origin);
        let pages = stage.crawl();
        assert!(!pages.contains("Secret"), "{pages}");
        let mut stop = Command::new("sh");
        let mut warcprox = warcprox;
        stop.args(["-c", &format!("kill -TERM {}", warcprox.0.id())]);
        assert!(run(&mut stop, b"", LIMIT).status.success());
        warcprox.0.wait().expect("it ends");
        check_archive(&stage, [http, https], &origin);
    });
}

/// Every WARC together has what was forwarded, robots.txt included, and nothing that was refused.
fn check_archive(stage: &Stage, [http, https]: [u16; 2], origin: &Origin) {
    let list = "import sys, glob; from warcio.archiveiterator import ArchiveIterator\n\
                for name in glob.glob(sys.argv[1] + '/warcs/*.warc.gz'):\n\
                \x20   for record in ArchiveIterator(open(name, 'rb')):\n\
                \x20       print(record.rec_type, record.rec_headers.get_header('WARC-Target-URI'))";
    let mut reader = clean(python());
    reader.args(["-c", list]).arg(&stage.places["/srv/archive"]);
    let records = output_of(&mut reader, b"", LIMIT);
    let archived: BTreeSet<_> =
        records.lines().filter_map(|line| line.strip_prefix("response ")).collect();
    let sites = [format!("http://shop.test:{http}"), format!("https://shop.test:{https}")];
    let expected: BTreeSet<_> = sites
        .iter()
        .flat_map(|site| ["/robots.txt", "/", "/open"].map(|path| format!("{site}{path}")))
        .collect();
    assert_eq!(archived, expected.iter().map(String::as_str).collect(), "{records}");
    assert!(!origin.seen().iter().any(|line| line.contains("/private")), "{:?}", origin.seen());
}

#[test]
fn crawlers_reach_wayleave_only() {
    for files in VARIANTS {
        let model = model(files, "https://example.com/");
        assert_eq!(model["networks"]["crawl"]["internal"], true, "{files:?}");
        let mut neighbours = BTreeSet::new();
        for (name, service) in model["services"].as_object().expect("services") {
            let networks = service["networks"].as_object().expect("networks");
            if networks.contains_key("crawl") {
                neighbours.insert(name.as_str());
            }
            let is_crawler = name == "crawler" || name == "ca";
            assert_eq!(is_crawler, networks.keys().eq(["crawl"]), "{files:?}: {name}");
            assert!(service["privileged"].is_null() && service["network_mode"].is_null());
        }
        assert_eq!(neighbours, BTreeSet::from(["ca", "crawler", "wayleave"]), "{files:?}");
    }
}

#[test]
fn the_configurations_of_recipes_are_right() {
    for files in VARIANTS {
        let model = model(files, "https://example.com/");
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let file = dir.path().join("config.toml");
        // Made by warcprox when it starts.
        let content = text(&model["configs"]["wayleave"]["content"]);
        let content = content.replace("\"/srv/archive/ca.pem\"", "");
        std::fs::write(&file, content).expect("writable");
        let (status, printed) =
            status_and_output(command().args(["config", "check", "--config"]).arg(&file));
        assert_eq!(status, Some(0), "{files:?}: {printed}");
    }
}

#[test]
fn a_recipe_without_a_token_says_what_to_do() {
    let mut compose = clean(python().with_file_name("docker-compose"));
    compose.arg("--file").arg(folder().join("compose.yaml"));
    // A file .env next to compose.yaml has the token of whoever tried the example.
    compose.args(["--env-file", "/dev/null", "config", "--quiet"]);
    compose.env_remove("WAYLEAVE_TOKEN_SHA256");
    let (status, printed) = status_and_output(&mut compose);
    assert_ne!(status, Some(0));
    assert!(printed.contains("README.md says how to make a token"), "{printed}");
}

/// The images have the versions that are tested.
#[test]
fn images_of_recipes_have_the_versions_of_the_tests() {
    let read = |path: &str| std::fs::read_to_string(project().join(path)).expect("readable");
    let scrapy = read("examples/compose/scrapy/requirements.txt");
    let tested = read("tests/clients/requirements.txt");
    assert!(tested.lines().any(|line| line == scrapy.trim()), "{scrapy}");
    let packages = |path: &str| serde_json::from_str::<Value>(&read(path)).expect("JSON");
    let tested = packages("tests/clients/package.json");
    let crawlee = packages("examples/compose/crawlee/package.json");
    for (name, version) in crawlee["dependencies"].as_object().expect("packages") {
        assert_eq!(*version, tested["dependencies"][name], "{name}");
    }
    let image = text(&model(VARIANTS[0], "")["services"]["wayleave"]["image"]).to_owned();
    assert_eq!(image, concat!("wayleave:", env!("CARGO_PKG_VERSION")));
}
