//! The programs of docs/handling.md, which tell a refusal of wayleave from one of the origin, and wait if they are told to.

use std::process::Output;

use crate::clients::env::build_go;
use crate::clients::snippets::{Snippet, Stage, snippet};
use crate::harness::tools::both_streams;
use crate::harness::{Gate, Reply, Request, eventually};

const OPEN: &str = "User-agent: *\nAllow: /\n";
const REFUSED: &str = "refused by wayleave: ";

/// Returns the snippet after `wayleave env`, as a script.
fn script(name: &str, client: &str, stage: &Stage) -> Snippet {
    let Snippet { language, text, .. } = snippet(name);
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
    Snippet { name: name.to_owned(), language: "sh".to_owned(), text }
}

/// Runs the program to its end.
fn output(stage: &Stage, name: &str, client: &str) -> (Output, String) {
    let output = stage.run(&script(name, client, stage));
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

/// Holds the only slot at the origin until the program has been refused, so that it has to come back.
#[track_caller]
fn check_wait(name: &str, client: &str) {
    let busy = Stage::with(OPEN, page(), |settings| {
        settings.set("politeness.max_concurrent_per_origin", "1")
    });
    let gate = Gate::closed();
    busy.origin.site("example.com").page("/slow", Reply::in_halves(&gate));
    let mut holder = busy.proxy.tunnel("example.com:443");
    holder.send(Request::get("https://example.com/slow").origin_form());
    assert_eq!(holder.response_head().status, 200);
    let (ended, printed) = std::thread::scope(|scope| {
        let program = scope.spawn(|| output(&busy, name, client));
        let refused = [("outcome", "refused"), ("reason", "concurrency")];
        eventually("it is refused", || {
            program.is_finished() || busy.proxy.metric("wayleave_requests_total", &refused) > 0.0
        });
        gate.open();
        program.join().expect("running it does not panic")
    });
    assert!(ended.status.success() && printed.contains("200"), "{name}: {printed}");
    assert!(!printed.contains(REFUSED), "{name}: {printed}");
    assert_eq!(fetched(&busy), 1, "{name}: {printed}");
}

#[test]
fn curl_tells_refusals_apart() {
    check("handle-curl", "curl");
}

#[test]
fn requests_tells_refusals_apart() {
    check("handle-requests", "python");
}

#[test]
fn httpx_tells_refusals_apart() {
    check("handle-httpx", "python");
}

#[test]
fn aiohttp_tells_refusals_apart() {
    check("handle-aiohttp", "python");
}

#[test]
fn scrapy_tells_refusals_apart() {
    check("handle-scrapy", "scrapy");
}

#[test]
fn node_tells_refusals_apart() {
    check("handle-node", "node");
}

#[test]
fn go_tells_refusals_apart() {
    check("handle-go", "go");
}

#[test]
fn java_tells_refusals_apart() {
    check("handle-java", "java");
}
