//! squid, which asks by a helper program.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use super::{Gated, ROBOTS};
use crate::harness::client::Wire;
use crate::harness::origin::reply::Step;
use crate::harness::wayleave::{BINARY, command};
use crate::harness::{Gate, Origin, Reply, Request, Response, eventually};
use crate::requests::upstream::programs::{Program, Squid};

/// Starts squid by the recipe of docs/gateways.md, with a program that its user can reach.
fn squid(gated: &Gated, has_users: bool) -> Program {
    let folder = gated.proxy.dir.path();
    let open = |path: &Path| fs::set_permissions(path, Permissions::from_mode(0o755));
    let helper = folder.join(if has_users { "asks-users" } else { "wayleave" });
    fs::copy(BINARY, &helper).expect("it can be copied");
    open(folder).and_then(|()| open(&helper)).expect("they are ours");
    // openssl passwd -apr1 -salt saltsalt secret
    fs::write(folder.join("users"), "user:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0\n")
        .expect("it is ours");
    let users = folder.join("users");
    let program =
        format!("auth_param basic program /usr/lib/squid/basic_ncsa_auth {}\n", users.display());
    let (users, login) = if has_users { (program.as_str(), " %ul") } else { ("", "") };
    let rules = format!(
        "{users}external_acl_type wayleave ttl=0 negative_ttl=0 cache=0 concurrency=50 children-max=2 children-startup=1 \
         %METHOD %URI %{{User-Agent}}>h %SRC{login} {} gateway squid --url http://{}\n\
         acl leave external wayleave\nhttp_access deny !leave all\n",
        helper.display(),
        gated.gateway
    );
    Squid { rules: Box::leak(rules.into_boxed_str()), ..Squid::default() }.start()
}

fn get(squid: &Program, url: &str) -> Response {
    let mut wire = Wire::connect(squid.address);
    wire.send(Request::get(url).absolute_form());
    wire.response()
}

#[test]
fn squid_sends_what_is_allowed_and_fails_closed() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gated = Gated::start_with(&origin, |settings| {
        settings.resolve(&format!("shop.test:{}", origin.http.port()), origin.http)
    });
    let users = squid(&gated, true);
    let squid = squid(&gated, false);
    let site = format!("http://shop.test:{}", origin.http.port());
    assert_eq!(get(&squid, &format!("{site}/a?b=%2f")).status, 200, "{}", squid.read("cache.log"));
    assert_eq!(get(&squid, &format!("{site}/private/a")).status, 403);
    assert_eq!(get(&squid, &format!("{site}/%70rivate")).status, 403);
    let seen = origin.seen();
    let pages: Vec<_> = seen.iter().filter(|line| !line.ends_with("/robots.txt")).collect();
    assert_eq!(pages, [&format!("GET {site}/a?b=%2f")]);
    // With %ul, squid asks for a password first.
    let of_user = |path: &str| Request::get(&format!("{site}{path}"));
    for (path, field, status) in [
        ("/b", None, 407),
        ("/b", Some("Basic dXNlcjpzZWNyZXQ="), 200),
        ("/private/b", Some("Basic dXNlcjpzZWNyZXQ="), 403),
    ] {
        let request =
            field.map_or(of_user(path), |field| of_user(path).header("Proxy-Authorization", field));
        let mut wire = Wire::connect(users.address);
        wire.send(request.absolute_form());
        assert_eq!(wire.response().status, status, "{path} {field:?}: {}", users.read("cache.log"));
    }
    let seen = origin.seen();
    assert!(!seen.iter().any(|line| line.contains("/private")), "{seen:?}");
    let asked = gated.proxy.admin_get("/v1/decisions?via=gateway&outcome=refused").json();
    assert_eq!(asked["decisions"].as_array().map(Vec::len), Some(3), "{asked}");
    drop(gated.proxy.kill());
    assert_eq!(get(&squid, &format!("{site}/a")).status, 403);
    assert_eq!(origin.seen().len(), seen.len());
}

#[test]
fn the_helper_answers_each_line_when_it_can() {
    let origin = Origin::start();
    origin.site("shop.test").robots(ROBOTS);
    let gate = Gate::closed();
    origin
        .site("slow.test")
        .robots_reply(Reply::new(200).step(Step::Wait(gate.clone())).body(ROBOTS));
    let gated = Gated::start(&origin);
    let mut helper = command()
        .args(["gateway", "squid", "--url", &format!("http://{}", gated.gateway)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut input = helper.stdin.take().expect("piped");
    let mut lines = BufReader::new(helper.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    input.write_all(b"0 GET http://slow.test/a NewsBot/1.0 127.0.0.1 -\n").expect("it reads");
    eventually("it is asked about", || !origin.seen().is_empty());
    input.write_all(b"1 GET http://shop.test/private - 127.0.0.1 -\n").expect("it reads");
    let refused = next();
    assert!(
        refused.starts_with("1 ERR message=\"") && refused.contains(" log=\"rule "),
        "{refused}"
    );
    input.write_all(b"2 GET http://shop.test/a - 127.0.0.1 -\n").expect("it reads");
    assert_eq!(next(), "2 OK");
    input.write_all(b"3 nonsense\n").expect("it reads");
    assert!(next().starts_with("3 BH message="));
    gate.open();
    assert_eq!(next(), "0 OK");
    drop(gated.proxy.kill());
    input.write_all(b"4 GET http://shop.test/a - 127.0.0.1 -\n").expect("it reads");
    assert!(next().starts_with("4 BH message=\"asking wayleave at"));
    drop(input);
    assert!(helper.wait().expect("it ends").success());
}
