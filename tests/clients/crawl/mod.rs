//! Real clients crawl a hundred real robots.txt files through wayleave. Protego decides what may be fetched, and the origin's
//! record shows whether the crawlers obeyed.

mod paced;
mod purposes;
mod samples;
mod verify;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use self::samples::samples;
use crate::harness::crawler::{Crawler, crawler};
use crate::harness::tools::{clean, node_modules, output_of, program, project, python, run};
use crate::harness::{Origin, Reply, Wayleave};

/// No crawl takes a fifth of this on two cores.
pub const LIMIT: Duration = Duration::from_secs(720);

/// One URL to crawl.
#[derive(Clone)]
struct PlannedRequest {
    url: String,
    user_agent: String,
    allowed: bool,
}

/// Returns one of the forms in which real crawlers write their product token.
fn user_agent(token: &str, number: usize) -> String {
    match number % 3 {
        0 => format!("{token}/1.0"),
        1 => format!("Mozilla/5.0 (compatible; {token}/2.1; +http://crawler.example/bot.html)"),
        _ => token.to_owned(),
    }
}

/// A proxy, and an origin that serves each sample's robots.txt at a host of its own, by HTTP and HTTPS.
struct Crawl {
    origin: Origin,
    proxy: Wayleave,
    planned: Vec<PlannedRequest>,
}

/// Returns the samples' crawlers: only the owner of a well-known name may use it.
fn owners() -> impl Iterator<Item = Crawler> {
    let agents: BTreeSet<_> = samples().iter().map(|sample| &sample.agent).collect();
    let mut agents: Vec<_> = agents.into_iter().collect();
    // The first entry that `User-Agent` contains decides: Googlebot-Image comes before Googlebot.
    agents.sort_by_key(|agent| std::cmp::Reverse(agent.len()));
    let owner = |(number, agent): (usize, &String)| crawler(&format!("c{number}"), agent);
    agents.into_iter().enumerate().map(owner)
}

impl Crawl {
    fn prepare() -> Self {
        let origin = Origin::start();
        let mut planned = Vec::new();
        for (number, sample) in samples().iter().enumerate() {
            let body = std::fs::read(&sample.file).expect("each file of the manifest is there");
            origin.site(&sample.host).robots_reply(Reply::text(body));
            for scheme in ["http", "https"] {
                planned.extend(sample.paths.iter().map(|(path, allowed)| PlannedRequest {
                    url: format!("{scheme}://{}{path}", sample.host),
                    user_agent: user_agent(&sample.agent, number),
                    allowed: *allowed,
                }));
            }
        }
        let proxy = Wayleave::start_with(&origin, |mut settings| {
            for sample in samples() {
                settings = settings.resolve_to(&sample.host, &origin);
            }
            // Real files have delays of minutes; other tests cover delays.
            settings.set("politeness.crawl_delay", "\"ignore\"").with_all(owners())
        });
        Self { origin, proxy, planned }
    }

    fn client(&self, program: impl AsRef<Path>) -> Command {
        command_for(&self.proxy, program)
    }

    fn planned_as_json(&self) -> String {
        self.planned
            .iter()
            .map(|request| {
                json!({ "url": request.url, "user_agent": request.user_agent }).to_string() + "\n"
            })
            .collect()
    }

    /// Reads `{"url", "status"}` lines and checks that each allowed URL was answered 200, each other one 403.
    #[track_caller]
    fn check_answers(&self, output: &str) -> Vec<Value> {
        let answers: Vec<Value> = output
            .lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
            })
            .collect();
        let by_url: HashMap<_, _> = answers
            .iter()
            .map(|answer| (answer["url"].as_str().expect("a string"), answer))
            .collect();
        for request in &self.planned {
            let answer = by_url
                .get(request.url.as_str())
                .unwrap_or_else(|| panic!("the client has no result for {}", request.url));
            assert_eq!(
                answer["status"],
                if request.allowed { 200 } else { 403 },
                "{} as {}: {answer}",
                request.url,
                request.user_agent
            );
        }
        answers
    }
}

/// Returns a command with proxy and CA in the environment variables of all clients.
pub fn command_for(wayleave: &Wayleave, program: impl AsRef<Path>) -> Command {
    let mut command = clean(program);
    let proxy = format!("http://{}", wayleave.proxy);
    for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "PROXY"] {
        command.env(name, &proxy);
    }
    for name in ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"] {
        command.env(name, wayleave.ca_file());
    }
    command.env("HOME", wayleave.dir.path()).current_dir(wayleave.dir.path());
    command
}

#[test]
fn the_samples_are_varied() {
    let samples = samples();
    assert!(samples.len() >= 100, "{}", samples.len());
    let both = samples
        .iter()
        .filter(|sample| {
            sample.paths.iter().any(|(_, allowed)| *allowed)
                && sample.paths.iter().any(|(_, allowed)| !allowed)
        })
        .count();
    assert!(both >= 80, "only {both} files both allow and disallow something");
    let bodies: Vec<_> =
        samples.iter().map(|sample| std::fs::read(&sample.file).expect("it is there")).collect();
    let count =
        |has_trait: &dyn Fn(&[u8]) -> bool| bodies.iter().filter(|body| has_trait(body)).count();
    assert!(count(&|body| body.starts_with(b"\xef\xbb\xbf")) >= 5, "byte order marks");
    assert!(count(&|body| body.contains(&b'\r') && !body.contains(&b'\n')) >= 5, "CR alone");
    assert!(count(&|body| std::str::from_utf8(body).is_err()) >= 4, "not UTF-8");
    assert!(count(&|body| body.contains(&0)) >= 3, "NUL");
    assert!(
        count(&|body| String::from_utf8_lossy(body).to_lowercase().contains("<html")) >= 5,
        "HTML"
    );
    assert!(count(&|body| body.len() > 100_000) >= 2, "large files");
    let distinct: BTreeSet<_> = bodies.iter().collect();
    assert_eq!(distinct.len(), bodies.len(), "two files are the same");
}

#[test]
fn curl_obeys() {
    let crawl = Crawl::prepare();
    let mut config = String::new();
    for request in &crawl.planned {
        config += &format!(
            "url = \"{}\"\nuser-agent = \"{}\"\noutput = \"/dev/null\"\n",
            request.url, request.user_agent
        );
        config += "silent\ngloboff\npath-as-is\nmax-time = 60\nwrite-out = \"{\\\"url\\\":\\\"%{url}\\\",\\\"status\\\":%{http_code}}\\n\"\nnext\n";
    }
    let config = config.strip_suffix("next\n").expect("there are URLs");
    let output =
        output_of(crawl.client(program("curl")).args(["-q", "-K", "-"]), config.as_bytes(), LIMIT);
    crawl.check_answers(&output);
    crawl.check_origin(&BTreeSet::new());
}

#[test]
fn wget_obeys() {
    let crawl = Crawl::prepare();
    let mut by_agent = BTreeMap::<&str, Vec<&PlannedRequest>>::new();
    for request in &crawl.planned {
        by_agent.entry(&request.user_agent).or_default().push(request);
    }
    for (user_agent, planned) in by_agent {
        let urls: String = planned.iter().map(|request| format!("{}\n", request.url)).collect();
        let mut command = crawl.client(program("wget"));
        command.args([
            "--no-config",
            "--no-verbose",
            "--tries=1",
            "--timeout=60",
            "--no-hsts",
            "--no-iri",
            "--output-document=/dev/null",
            "--input-file=-",
        ]);
        command
            .arg(format!("--user-agent={user_agent}"))
            .arg(format!("--ca-certificate={}", crawl.proxy.ca_file().display()));
        let output = run(&mut command, urls.as_bytes(), LIMIT);
        let log = String::from_utf8_lossy(&output.stderr);
        let refused = log.matches("ERROR 403: Disallowed by robots.txt.").count();
        assert_eq!(refused, planned.iter().filter(|request| !request.allowed).count(), "{log}");
    }
    crawl.check_origin(&BTreeSet::new());
}

/// Checks a client whose `script` reads requests as JSON lines.
#[track_caller]
fn check_obeys(interpreter: impl AsRef<Path>, script: &str) {
    let crawl = Crawl::prepare();
    let mut command = crawl.client(interpreter);
    command.arg(project().join("tests/clients").join(script)).env("NODE_PATH", node_modules());
    let output = output_of(&mut command, crawl.planned_as_json().as_bytes(), LIMIT);
    crawl.check_answers(&output);
    crawl.check_origin(&BTreeSet::new());
}

#[test]
fn python_requests_obeys() {
    check_obeys(python(), "crawl_requests.py");
}

#[test]
fn scrapy_obeys_with_its_own_robots_middleware_off() {
    check_obeys(python(), "crawl_scrapy.py");
}

#[test]
fn node_fetch_obeys() {
    check_obeys(program("node"), "crawl_node.cjs");
}

#[test]
fn headless_chromium_obeys() {
    let crawl = Crawl::prepare();
    trust_in_nss(&crawl.proxy);
    let script = project().join("tests/clients/crawl_chromium.cjs");
    let mut command = crawl.client(program("node"));
    command
        .arg(script)
        .env("NODE_PATH", node_modules())
        .env("CHROMIUM", program("chromium-headless-shell"));
    let output = output_of(&mut command, crawl.planned_as_json().as_bytes(), LIMIT);
    let answers = crawl.check_answers(&output);
    let upgraded = answers
        .iter()
        .filter(|answer| answer["upgraded"] == true)
        .map(|answer| answer["url"].as_str().expect("a string").to_owned());
    let upgraded: BTreeSet<_> = upgraded.collect();
    assert!(
        upgraded.iter().all(|url| url.starts_with("http://")) && upgraded.len() < 200,
        "{upgraded:?}"
    );
    crawl.check_origin(&upgraded);
}

/// Puts the proxy's CA into the NSS database that Chromium reads under `HOME`.
pub fn trust_in_nss(proxy: &Wayleave) {
    let dir = proxy.dir.path().join(".pki/nssdb");
    std::fs::create_dir_all(&dir).expect("the temporary directory can be written");
    let database = format!("sql:{}", dir.display());
    let ca = proxy.ca_file();
    let certutil = program("certutil");
    output_of(clean(&certutil).args(["-d", &database, "-N", "--empty-password"]), b"", LIMIT);
    output_of(
        clean(&certutil).args(["-d", &database, "-A", "-t", "C,,", "-n", "wayleave", "-i"]).arg(ca),
        b"",
        LIMIT,
    );
}
