//! c-icap's client, of another implementation.

use std::time::Duration;

use super::IcapGated;
use crate::gateway::ROBOTS;
use crate::harness::Origin;
use crate::harness::crawler::crawler;
use crate::harness::tools::{clean, output_of};

/// Runs c-icap-client with these arguments. Returns what it prints.
fn client(gated: &IcapGated, service: &str, arguments: &[&str]) -> String {
    let mut command = clean("c-icap-client");
    let port = gated.icap.port().to_string();
    command.args(["-i", "127.0.0.1", "-p", &port, "-s", service, "-v"]).args(arguments);
    // It prints heads to its standard error.
    let mut shell = clean("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" 2>&1"]);
    shell.arg(command.get_program()).args(command.get_args());
    output_of(&mut shell, b"", Duration::from_secs(60))
}

#[test]
fn c_icap_reads_the_options_and_the_answers() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = IcapGated::start_with(&origin, |settings| {
        settings.with(crawler("index", "C-ICAP-Client").purposes(["search"]))
    });
    let options = client(&gated, "response", &[]);
    assert!(options.contains("Allow 204: Yes") && options.contains("Preview: 0"), "{options}");
    let file = gated.gated.proxy.dir.path().join("page.html");
    let page = "<!doctype html><meta name=robots content=noindex><p>the page";
    std::fs::write(&file, page).expect("it is ours");
    let file = file.to_str().expect("text");
    let host = ["-hx", "Host: shop.test"];
    let ask = |url: &str| client(&gated, "request", &[&["-req", url][..], &host].concat());
    let allowed = ask("http://shop.test/a");
    assert!(allowed.contains("204"), "{allowed}");
    let refused = ask("http://shop.test/private");
    assert!(refused.contains("HTTP/1.1 403") && refused.contains("\"reason\""), "{refused}");
    let shown = client(
        &gated,
        "response",
        &[
            &["-resp", "http://shop.test/a", "-f", file][..],
            &host,
            &["-rhx", "Content-Type: text/html"],
        ]
        .concat(),
    );
    assert!(shown.contains("HTTP/1.1 403") && !shown.contains("the page"), "{shown}");
}
