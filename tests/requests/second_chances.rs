//! Another server, another connection or another version, where the first one fails without having served anything.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use h2::Reason;

use crate::fleet::relay::Relay;
use crate::harness::dns::{Answer, NameServer};
use crate::harness::h2_frames::GOAWAY;
use crate::harness::tls::Authority;
use crate::harness::{Certificate, Gate, Origin, Request, Wayleave, eventually};

fn asking(origin: &Origin, servers: &[&NameServer]) -> Wayleave {
    let servers: Vec<_> = servers.iter().map(|server| server.address.to_string()).collect();
    Wayleave::start_with(origin, |settings| settings.set("dns.servers", &format!("{servers:?}")))
}

#[test]
fn names_resolve_if_one_of_two_dns_servers_refuses() {
    let origin = Origin::start();
    let port = origin.http.port();
    let (bad, good) = (NameServer::start(), NameServer::start());
    bad.set("failure.example", Answer::ServerFailure);
    bad.set("refusal.example", Answer::Refusal);
    for host in ["failure.example", "refusal.example"] {
        good.set(host, Answer::Addresses(vec![[127, 0, 0, 1].into()]));
        origin.site(host);
    }
    for servers in [[&bad, &good], [&good, &bad]] {
        let proxy = asking(&origin, &servers);
        for host in ["failure.example", "refusal.example"] {
            assert_eq!(proxy.get(&format!("http://{host}:{port}/a")).status, 200, "{host}");
        }
    }
}

#[test]
fn names_resolve_if_queries_for_ipv6_are_lost() {
    let origin = Origin::start();
    let names = NameServer::start();
    names.set("old.example", Answer::OnlyIpv4([127, 0, 0, 1].into()));
    origin.site("old.example");
    let proxy = Wayleave::start_with(&origin, |settings| {
        let servers = format!("[\"{}\"]", names.address);
        // Less than three tries for IPv6 take.
        settings.set("dns.servers", &servers).set("upstream.connect_timeout", "\"4s\"")
    });
    let answer = proxy.get(&format!("http://old.example:{}/a", origin.http.port()));
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Starts an origin that closes a connection which has served before as soon as `/race` is requested on it. Returns its
/// address, and the number of connections that begin with `/race`.
fn origin_that_closes_kept_connections() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let address = listener.local_addr().expect("a bound socket has an address");
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || serve_until_race(&stream, &counted));
        }
    });
    (address, connections)
}

fn serve_until_race(stream: &TcpStream, begun_by_race: &AtomicUsize) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    for number in 0.. {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let mut line = String::new();
            (reader.read_line(&mut line).ok()? > 0).then_some(())?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            head += &line;
        }
        if head.contains(" /race ") {
            if number > 0 {
                return None;
            }
            begun_by_race.fetch_add(1, Ordering::SeqCst);
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        let body = if head.contains(" /robots.txt ") { "User-agent: *\nDisallow:\n" } else { "ok" };
        write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).ok()?;
    }
    None
}

#[test]
fn a_post_is_sent_on_a_new_connection() {
    let (address, begun_by_race) = origin_that_closes_kept_connections();
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| settings.resolve("race.test", address));
    let post = Request::new("POST", "http://race.test/race").body("pay=1");
    for _ in 0..5 {
        assert_eq!(proxy.get("http://race.test/warm").status, 200);
        let answer = proxy.exchange(&post);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(begun_by_race.load(Ordering::SeqCst), 5);
}

#[test]
fn requests_that_were_not_begun_are_sent_again() {
    let origin = Origin::start();
    origin.site("busy.test").http2_only().refuse_streams(Reason::REFUSED_STREAM, 2);
    origin.site("closed.test").http2_only().refuse_streams(Reason::REFUSED_STREAM, usize::MAX);
    let proxy = Wayleave::start(&origin);
    let client = proxy.http2("busy.test:443");
    assert_eq!(client.get("/a").status, 200);
    let body = "0123456789".repeat(6000);
    let post = |url: &str, body: &str| Request::new("POST", url).body(body);
    assert_eq!(client.exchange(&post("https://busy.test/small", &body)).status, 200);
    let requests = origin.requests();
    let last = requests.iter().rfind(|request| request.target == "/small").expect("it arrived");
    assert_eq!(last.body().start, body.as_bytes());
    assert_eq!(requests.iter().filter(|request| request.target == "/small").count(), 3);
    let client = proxy.http2("closed.test:443");
    client.get("/b").expect_refusal(502, None, "http_protocol_error");
    let requests = origin.requests();
    assert_eq!(requests.iter().filter(|request| request.target == "/b").count(), 4, "bounded");
}

#[test]
fn requests_above_a_goaway_are_sent_again() {
    let origin = Origin::start();
    // robots.txt is fetched by HTTP/1.1. The frame says that no stream was served, with the code NO_ERROR.
    origin.site("away.test").frames(&[(GOAWAY, 0, vec![0; 8])]);
    let proxy = Wayleave::start(&origin);
    let client = proxy.http2("away.test:443");
    let post = Request::new("POST", "https://away.test/b").body("a=1");
    client.exchange(&post).expect_refusal(502, None, "http_protocol_error");
    assert_eq!(origin.connections(), 1 + 4, "on a new connection each time");
}

#[test]
fn an_origin_that_wants_http_1_gets_it() {
    let origin = Origin::start();
    origin.site("old.test").refuse_streams(Reason::HTTP_1_1_REQUIRED, usize::MAX);
    let proxy = Wayleave::start(&origin);
    let client = proxy.http2("old.test:443");
    let post = Request::new("POST", "https://old.test/post").body("a=1");
    assert_eq!(client.exchange(&post).status, 200);
    assert_eq!(client.get("/a").status, 200);
    let requests = origin.requests();
    let versions: Vec<_> =
        requests.iter().map(|request| (&*request.target, request.version)).collect();
    let pages: Vec<_> = versions.iter().filter(|(target, _)| *target != "/robots.txt").collect();
    assert_eq!(
        pages,
        [&("/post", "HTTP/2"), &("/post", "HTTP/1.1"), &("/a", "HTTP/1.1")],
        "remembered: {versions:?}"
    );
}

#[test]
fn a_burst_above_the_origins_limit_is_served() {
    let (origin, gate) = (Origin::start(), Gate::closed());
    // robots.txt is fetched by HTTP/1.1.
    let site = origin.site("narrow.test").disallows("/private");
    site.max_streams(1).settings_after(&gate);
    let proxy = Wayleave::start(&origin);
    let client = proxy.http2("narrow.test:443");
    assert_eq!(client.get("/robots.txt").status, 200);
    let post = |number| Request::new("POST", &format!("https://narrow.test/{number}")).body("a=1");
    std::thread::scope(|scope| {
        let mut under_way = Vec::new();
        for number in 0..5 {
            let before = origin.connections();
            let request = post(number);
            under_way.push(scope.spawn({
                let client = &client;
                move || client.exchange(&request)
            }));
            // The origin has not said what it permits, so no other request is sent on a connection that has one.
            eventually("it has a connection of its own", || origin.connections() > before);
        }
        gate.open();
        for request in under_way {
            assert_eq!(request.join().expect("it is answered").status, 200);
        }
    });
    let posts: Vec<_> = (5..35).map(post).collect();
    let statuses: Vec<_> = client.exchange_all(&posts).iter().map(|answer| answer.status).collect();
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
}

#[test]
fn a_silent_http_2_connection_is_left_after_a_timeout() {
    let origin = Origin::start();
    origin.site("quiet.test").http2_only();
    let router = Relay::to(origin.https.port());
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .resolve("quiet.test:443", router.address())
            .set("upstream.response_timeout", "\"2s\"")
    });
    let client = proxy.http2("quiet.test:443");
    assert_eq!(client.get("/a").status, 200);
    router.forget();
    client.get("/b").expect_refusal(504, None, "http_response_timeout");
    assert_eq!(client.get("/c").status, 200, "on a new connection");
}

#[test]
fn changes_of_the_systems_roots_take_effect() {
    let origin = Origin::start();
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let bundle = dir.path().join("roots.pem");
    let other = Authority::new("another root").pem;
    let both = format!("{other}{}", Authority::unknown().pem);
    std::fs::write(&bundle, &other).expect("the directory can be written");
    let proxy = Wayleave::start_after(
        &origin,
        &format!("unset SSL_CERT_DIR; export SSL_CERT_FILE={}", bundle.display()),
    );
    let status = |host: &str| {
        origin.site(host).certificate(Certificate::UnknownAuthority);
        proxy.get(&format!("https://{host}/a")).status
    };
    assert_ne!(status("before.test"), 200);
    std::fs::write(&bundle, &both).expect("the directory can be written");
    assert_eq!(proxy.admin_request("POST", "/v1/reload").status, 200);
    assert_eq!(status("added.test"), 200);
    std::fs::write(&bundle, &other).expect("the directory can be written");
    eventually("the change is noticed", || proxy.log().contains("hosts or roots changed"));
    eventually("it is in effect", || proxy.get("https://added.test/b").status == 502);
}
