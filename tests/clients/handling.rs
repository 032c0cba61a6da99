//! The programs of examples/clients and of docs (refusals, scrapy, crawlee) that tell a refusal of wayleave from one of the origin, and wait if they are told to.

use std::process::Output;

use crate::clients::env::build_go;
use crate::clients::snippets::{Snippet, Stage, snippet};
use crate::harness::tools::both_streams;
use crate::harness::{Gate, Reply, Request, Wire, eventually};

const OPEN: &str = "User-agent: *\nAllow: /\n";
const REFUSED: &str = "refused by wayleave: ";

/// Replaces the waits of a Python program by lines that say so.
const WAITS_OF_PYTHON: &str = r#"
import asyncio, time

def wait(seconds):
    if seconds:
        print("waits", seconds, flush=True)

async def wait_asynchronously(seconds, *_):
    wait(seconds)

time.sleep, asyncio.sleep = wait, wait_asynchronously
"#;

/// Returns the snippet with a change to its text, if one is given.
fn program(name: &str, change: Option<[&str; 2]>) -> Snippet {
    let mut program = snippet(name);
    if let Some([from, to]) = change {
        assert!(program.text.contains(from), "{name}: no {from}");
        program.text = program.text.replace(from, to);
    }
    program
}

/// Returns the program after `wayleave env`, as a script.
fn script(program: Snippet, client: &str, stage: &Stage) -> Snippet {
    let Snippet { name, language, text } = program;
    let file = |name: &str, program: &str| {
        format!("cat > {name} <<'END-OF-PROGRAM'\n{text}END-OF-PROGRAM\n{program} {name}\n")
    };
    let used = match &*language {
        "python" => file("handle.py", "python3"),
        "js" => file("handle.mjs", "node"),
        "java" => file("Handle.java", "java"),
        "go" => {
            let source = stage.proxy.dir.path().join("handle.go");
            std::fs::write(&source, &text).expect("writable");
            format!("'{}'\n", build_go(&source).display())
        }
        _ => text,
    };
    let text = format!("eval \"$(wayleave env --client {client})\"\n{used}");
    Snippet { name, language: "sh".to_owned(), text }
}

/// Runs the program to its end.
fn output(stage: &Stage, name: &str, client: &str) -> (Output, String) {
    ended(stage, &script(program(name, None), client, stage))
}

fn ended(stage: &Stage, script: &Snippet) -> (Output, String) {
    let output = stage.run(script);
    let printed = both_streams(&output);
    (output, printed)
}

fn page() -> Reply {
    Reply::html("<title>Example Domain</title>")
}

/// Returns the requests for the page that reached the origin.
fn fetched(stage: &Stage) -> usize {
    stage.origin.seen().iter().filter(|seen| *seen == "GET https://example.com/").count()
}

#[track_caller]
fn check(name: &str, client: &str) {
    let open = Stage::with(OPEN, page(), |settings| settings);
    let (ended, printed) = output(&open, name, client);
    assert!(ended.status.success() && printed.contains("200"), "{name}: {printed}");
    assert_eq!(fetched(&open), 1, "{name}: {printed}");

    let closed = Stage::with("User-agent: *\nDisallow: /\n", page(), |settings| settings);
    let (_, printed) = output(&closed, name, client);
    assert!(printed.contains(REFUSED) && printed.contains("Disallow: /"), "{name}: {printed}");
    assert_eq!(fetched(&closed), 0, "{name}: {printed}");
    let refused = closed.proxy.metric("wayleave_requests_total", &[("outcome", "refused")]);
    assert!(refused <= 1.0, "{name} asked again in vain: {printed}");

    let reply = Reply::new(403).header("Content-Type", "application/json").body("{}");
    let own = Stage::with(OPEN, reply, |settings| settings);
    let (_, printed) = output(&own, name, client);
    assert!(printed.contains("403") && !printed.contains(REFUSED), "{name}: {printed}");
    assert_eq!(fetched(&own), 1, "{name}: {printed}");

    check_wait(name, client);
}

/// Starts an origin whose only slot is held until the gate opens.
fn busy(gate: &Gate) -> (Stage, Wire) {
    let busy = Stage::with(OPEN, page(), |settings| {
        settings.set("politeness.max_concurrent_per_origin", "1")
    });
    busy.origin.site("example.com").page("/slow", Reply::in_halves(gate));
    let mut holder = busy.proxy.tunnel("example.com:443");
    holder.send(Request::get("https://example.com/slow").origin_form());
    assert_eq!(holder.response_head().status, 200);
    (busy, holder)
}

const NO_SLOT: [(&str, &str); 2] = [("outcome", "refused"), ("reason", "concurrency")];

/// Holds the only slot at the origin until the program has been refused, so that it has to come back.
#[track_caller]
fn check_wait(name: &str, client: &str) {
    let gate = Gate::closed();
    let (busy, _holder) = busy(&gate);
    let (ended, printed) = std::thread::scope(|scope| {
        let program = scope.spawn(|| output(&busy, name, client));
        eventually("it is refused", || {
            program.is_finished() || busy.proxy.metric("wayleave_requests_total", &NO_SLOT) > 0.0
        });
        gate.open();
        program.join().expect("running it does not panic")
    });
    assert!(ended.status.success() && printed.contains("200"), "{name}: {printed}");
    assert!(!printed.contains(REFUSED), "{name}: {printed}");
    assert_eq!(fetched(&busy), 1, "{name}: {printed}");
}

/// Checks that after its last attempt the program does not wait once more.
#[track_caller]
fn check_waits(name: &str, client: &str) {
    let gate = Gate::closed();
    let (busy, _holder) = busy(&gate);
    let recorder = busy.proxy.dir.path().join("recorder");
    std::fs::create_dir(&recorder).expect("writable");
    std::fs::write(recorder.join("sitecustomize.py"), WAITS_OF_PYTHON).expect("writable");
    let mut script = script(program(name, None), client, &busy);
    script.text = format!(
        "export PYTHONPATH='{}'\nsleep() {{ echo waits \"$1\"; }}\n{}",
        recorder.display(),
        script.text
    );
    let (_, printed) = ended(&busy, &script);
    assert!(printed.contains(REFUSED), "{name}: {printed}");
    let waits = printed.lines().filter(|line| line.starts_with("waits ")).count();
    assert_eq!(
        (busy.proxy.metric("wayleave_requests_total", &NO_SLOT), waits),
        (3.0, 2),
        "{name}: {printed}"
    );
}

/// Checks that the program reads a refusal that came as a page, because it asked for HTML by this change.
#[track_caller]
fn check_html(name: &str, client: &str, change: [&str; 2]) {
    let closed = Stage::with("User-agent: *\nDisallow: /\n", page(), |settings| settings);
    let script = script(program(name, Some(change)), client, &closed);
    let (_, printed) = ended(&closed, &script);
    assert!(printed.contains(REFUSED) && printed.contains("Disallow: /"), "{name}: {printed}");
}

#[test]
fn curl_tells_refusals_apart() {
    check("handle-curl", "curl");
    check_waits("handle-curl", "curl");
    check_html("handle-curl", "curl", [r#"curl -sS"#, r#"curl -sS -H 'Accept: text/html'"#]);
}

#[test]
fn requests_tells_refusals_apart() {
    check("handle-requests", "python");
    check_waits("handle-requests", "python");
    check_html(
        "handle-requests",
        "python",
        [r#"session.get(url)"#, r#"session.get(url, headers={"Accept": "text/html"})"#],
    );
}

#[test]
fn httpx_tells_refusals_apart() {
    check("handle-httpx", "python");
    check_waits("handle-httpx", "python");
    check_html(
        "handle-httpx",
        "python",
        [r#"client.get(url)"#, r#"client.get(url, headers={"Accept": "text/html"})"#],
    );
}

#[test]
fn aiohttp_tells_refusals_apart() {
    check("handle-aiohttp", "python");
    check_waits("handle-aiohttp", "python");
    check_html(
        "handle-aiohttp",
        "python",
        [r#"session.get(url)"#, r#"session.get(url, headers={"Accept": "text/html"})"#],
    );
}

#[test]
fn scrapy_tells_refusals_apart() {
    check("handle-scrapy", "scrapy");
}

#[test]
fn crawlee_tells_refusals_apart() {
    check("handle-crawlee", "node");
}

#[test]
fn node_tells_refusals_apart() {
    check("handle-node", "node");
    check_html(
        "handle-node",
        "node",
        [
            r#"fetch(url, options)"#,
            r#"fetch(url, { ...options, headers: { accept: "text/html" } })"#,
        ],
    );
}

#[test]
fn go_tells_refusals_apart() {
    check("handle-go", "go");
}

#[test]
fn java_tells_refusals_apart() {
    check("handle-java", "java");
    check_html(
        "handle-java",
        "java",
        [
            r#"URI.create("https://example.com/"))"#,
            r#"URI.create("https://example.com/")).header("Accept", "text/html")"#,
        ],
    );
}
