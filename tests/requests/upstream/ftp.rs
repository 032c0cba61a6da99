//! `ftp:` URLs: real servers, and faulty ones.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::programs::{Program, Squid};
use crate::harness::crawler::crawler;
use crate::harness::response::Response;
use crate::harness::tools::{clean, output_of, project, sbin};
use crate::harness::wayleave::command;
use crate::harness::{DEADLINE, Origin, Request, Wayleave};

const ROBOTS: &str = "User-agent: *\nDisallow: /private\nDisallow: /pub/no.txt\n";
const BIG: usize = 3_000_000;

/// Writes the files that servers serve.
pub fn tree(root: &Path) {
    let open = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    for dir in ["", "pub", "pub/sub", "private"] {
        let dir = root.join(dir);
        fs::create_dir_all(&dir).expect("it can be made");
        open(&dir, 0o755);
    }
    let big: Vec<u8> = (0..BIG).map(|i| (i % 251) as u8).collect();
    let files: [(&str, &[u8]); 6] = [
        ("robots.txt", ROBOTS.as_bytes()),
        ("pub/a b.txt", b"hello"),
        ("pub/no.txt", b"no"),
        ("pub/big", &big),
        ("private/x.txt", b"secret"),
        ("pub/<i>.txt", b"html"),
    ];
    for (name, bytes) in files {
        let file = root.join(name);
        fs::write(&file, bytes).expect("it can be written");
        open(&file, 0o644);
    }
}

pub fn vsftpd() -> Program {
    Program::start(|address, dir| {
        let root = dir.join("root");
        fs::create_dir(&root).expect("it can be made");
        tree(&root);
        let text = format!(
            "listen=YES\nlisten_address={}\nlisten_port={}\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\n\
             no_anon_password=NO\nanon_root={}\nrun_as_launching_user=YES\nxferlog_enable=YES\nlog_ftp_protocol=YES\n\
             vsftpd_log_file={}/vsftpd.log\nseccomp_sandbox=NO\n",
            address.ip(),
            address.port(),
            root.display(),
            dir.display()
        );
        let config = dir.join("vsftpd.conf");
        fs::write(&config, text).expect("it can be written");
        let mut command = clean(sbin("vsftpd"));
        command.arg(config);
        command
    })
}

fn pyftpd(more: &[&str]) -> Program {
    pyftpd_at(Ipv4Addr::LOCALHOST.into(), more)
}

pub fn pyftpd_at(ip: IpAddr, more: &[&str]) -> Program {
    Program::start_at(ip, |address, dir| {
        let root = dir.join("root");
        fs::create_dir(&root).expect("it can be made");
        tree(&root);
        let mut command = clean("/usr/bin/python3");
        command.arg(project().join("tests/origins/ftp.py"));
        command.arg(address.ip().to_string());
        command.arg(address.port().to_string()).arg(root).args(more);
        command
    })
}

/// Starts a proxy that resolves `files.test` to a server.
pub fn start(server: SocketAddr) -> Wayleave {
    let origin = Origin::start();
    Wayleave::start_with(&origin, |settings| {
        settings.resolve("files.test:21", server).set("upstream.response_timeout", "\"5s\"")
    })
}

pub fn get(proxy: &Wayleave, path: &str) -> Response {
    proxy.get(&format!("ftp://files.test{path}"))
}

#[test]
fn files_of_real_servers_are_served() {
    for (server, log) in [(vsftpd(), "vsftpd.log"), (pyftpd(&[]), "out")] {
        let proxy = start(server.address);
        let file = get(&proxy, "/pub/a%20b.txt");
        assert_eq!((file.status, &*file.text()), (200, "hello"), "{log}");
        assert_eq!(file.header("content-length"), Some("5"));
        assert!(file.header("last-modified").is_some(), "{file:?}");
        let head = proxy.exchange(&Request::new("HEAD", "ftp://files.test/pub/big"));
        assert_eq!((head.status, head.header("content-length")), (200, Some("3000000")));

        let big = get(&proxy, "/pub/big");
        assert_eq!(big.body.len(), BIG);
        assert!(big.body.iter().enumerate().all(|(i, byte)| *byte == (i % 251) as u8));
        let part = proxy
            .exchange(&Request::get("ftp://files.test/pub/big").header("Range", "bytes=502-506"));
        assert_eq!((part.status, &part.body[..]), (206, &[0, 1, 2, 3, 4][..]));
        assert_eq!(part.header("content-range"), Some("bytes 502-506/3000000"));
        let beyond = proxy
            .exchange(&Request::get("ftp://files.test/pub/big").header("Range", "bytes=3000000-"));
        assert_eq!(beyond.status, 416);
    }
}

#[test]
fn requests_by_ftp_are_not_signed() {
    let (server, origin) = (vsftpd(), Origin::start());
    let dir = tempfile::tempdir().expect("a directory");
    let mut new = command();
    new.args(["keys", "new", "news"]).current_dir(dir.path());
    output_of(&mut new, b"", DEADLINE);
    let key = dir.path().join("keys/news.pem").display().to_string();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .resolve("files.test:21", server.address)
            .set("signing.mode", "\"always\"")
            .set("signing.agent", "\"https://bot.test\"")
            .with(crawler("news", "NewsBot").set("signing_key", key))
    });
    for url in ["ftp://files.test/pub/a%20b.txt", "http://shop.test/a"] {
        assert_eq!(proxy.get_as("NewsBot/1.0", url).status, 200, "{url}");
    }
    assert_eq!(proxy.metric("wayleave_signatures_total", &[("result", "signed")]), 1.0);
    let decisions = proxy.admin_get("/v1/decisions").text();
    let signed = decisions.matches("\"signature\":\"signed\"").count();
    assert_eq!(signed, 1, "{decisions}");
}

#[test]
fn directories_of_real_servers_are_served_as_allowed() {
    for (server, log) in [(vsftpd(), "vsftpd.log"), (pyftpd(&[]), "out")] {
        let proxy = start(server.address);
        let page = get(&proxy, "/pub/");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        let text = page.text();
        assert!(
            text.contains("href=\"./a%20b.txt\"") && text.contains("href=\"./sub/\""),
            "{text}"
        );
        assert!(!text.contains("<i>"), "{text}");
        let names =
            proxy.exchange(&Request::get("ftp://files.test/pub/").header("Accept", "text/plain"));
        assert_eq!(names.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(names.text(), "<i>.txt\na b.txt\nbig\nno.txt\nsub/\n");
        let moved = get(&proxy, "/pub/sub");
        assert_eq!((moved.status, moved.header("location")), (301, Some("/pub/sub/")));
        for missing in ["/pub/none", "/none/"] {
            assert_eq!(get(&proxy, missing).status, 404, "{missing}");
        }
        assert_eq!(get(&proxy, "/").status, 200);
        // The rules apply to every spelling, and the server gets no request.
        for disallowed in [
            "/private/x.txt",
            "/private/",
            "/%70rivate/x.txt",
            "/pub/../private/x.txt",
            "//private/x.txt",
            "/pub/no.txt",
        ] {
            assert_eq!(get(&proxy, disallowed).status, 403, "{disallowed}");
        }
        assert_eq!(get(&proxy, "/robots.txt").text(), ROBOTS);
        let logged = server.read(log);
        assert!(logged.contains("robots.txt") && logged.contains("pub"), "{logged}");
        assert!(!logged.contains("private") && !logged.contains("no.txt"), "{logged}");
        assert!(!logged.contains("\"PORT") && !logged.contains("\"EPRT"), "{logged}");
    }
}

#[test]
fn credentials_of_the_url_are_used_and_never_logged() {
    let server = pyftpd(&["noanon"]);
    let proxy = start(server.address);
    // If the login fails, there is no robots.txt that disallows anything.
    assert_eq!(get(&proxy, "/pub/a%20b.txt").status, 403);
    let by = |url: &str| proxy.exchange(&Request::get(url).header("Host", "files.test"));
    let url = "ftp://user:p%3Ass%2Fw@files.test/pub/a%20b.txt";
    assert_eq!(by(url).text(), "hello");
    let wrong = by("ftp://user:wr0ng@files.test/pub/a%20b.txt");
    assert_eq!(wrong.status, 403);
    let malformed = by("ftp://user:p%3Ass%2Fw@files.test/a?b");
    assert_eq!(malformed.status, 400);
    let decisions = proxy.admin_get("/v1/decisions").text();
    let log = proxy.log();
    for text in [&decisions, &log, &malformed.text()] {
        for secret in ["p%3Ass", "p:ss", "wr0ng"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
    assert!(decisions.contains("ftp://files.test/pub/a%20b.txt"), "{decisions}");
}

#[test]
fn paths_that_a_server_could_misread_are_refused() {
    let server = Scripted::start(|_| None);
    let proxy = start(server.address);
    for path in [
        "/a%0d%0aDELE%20b",
        "/a%0aDELE",
        "/a%00.txt",
        "/a?b",
        "/p*",
        "/%5Ba-z%5D",
        "/%7Bprivate%7D",
        "/%FF%F4",
    ] {
        get(&proxy, path).expect_refusal(400, None, "http_request_error");
    }
    for user in ["a%0d%0aDELE%20b:c", "a:b%0ac", "a%FF:b"] {
        let refused = proxy.get(&format!("ftp://{user}@files.test/a"));
        refused.expect_refusal(400, None, "http_request_error");
    }
    for method in ["PUT", "DELETE", "POST", "OPTIONS"] {
        let refused = proxy.exchange(&Request::new(method, "ftp://files.test/a"));
        refused.expect_refusal(501, None, "http_request_error");
    }
    assert_eq!(server.received(), [""; 0]);
}

#[test]
fn http_parents_fetch_ftp_urls_and_socks_parents_do_not() {
    let server = pyftpd(&[]);
    let origin = Origin::start();
    let squid = Squid::default().start();
    let behind = |scheme: &str| {
        let url = format!("\"{scheme}://{}\"", squid.address);
        Wayleave::start_with(&origin, |settings| settings.set("upstream.proxy", &url))
    };
    let url = |path: &str| format!("ftp://shop.test:{}{path}", server.address.port());
    let proxy = behind("http");
    assert_eq!(proxy.get(&url("/pub/a%20b.txt")).text(), "hello");
    assert_eq!(proxy.get(&url("/private/x.txt")).status, 403);
    assert_eq!(behind("socks5").get(&url("/pub/a%20b.txt")).status, 503);
}

/// A server that replies to each command by a script, and hangs without a reply.
pub struct Scripted {
    pub address: SocketAddr,
    commands: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    /// Starts a server. A new connection is the command `hello`.
    pub fn start(reply: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let commands = Arc::new(Mutex::new(Vec::new()));
        let (received, reply) = (Arc::clone(&commands), Arc::new(reply));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let (received, reply) = (Arc::clone(&received), Arc::clone(&reply));
                std::thread::spawn(move || {
                    let mut lines = BufReader::new(&stream).lines();
                    let mut to = &stream;
                    let mut command = "hello".to_owned();
                    loop {
                        if let Some(reply) = reply(&command) {
                            let _maybe_closed = to.write_all(reply.as_bytes());
                        }
                        let Some(Ok(line)) = lines.next() else { return };
                        received.lock().expect("no holder panics").push(line.clone());
                        command = line;
                    }
                });
            }
        });
        Self { address, commands }
    }

    fn received(&self) -> Vec<String> {
        self.commands.lock().expect("no holder panics").clone()
    }
}

/// Returns the replies of a correct server before a transfer.
pub fn correct_reply(command: &str) -> Option<String> {
    let reply = match command.split(' ').next().unwrap_or_default() {
        "hello" => "220 hi",
        "USER" => "331 password",
        "PASS" => "230 in",
        "TYPE" => "200 ok",
        "SIZE" | "MDTM" => "500 what?",
        "CWD" => "250 there",
        _ => return None,
    };
    Some(format!("{reply}\r\n"))
}

#[test]
fn hostile_servers_are_given_up() {
    let long = "x".repeat(10_000_000);
    let flood = "220-again\r\n".repeat(1_000_000);
    type Script = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;
    let servers: Vec<(&str, Script)> = vec![
        ("silent", Box::new(|_| None)),
        ("a line without end", Box::new(move |_| Some(format!("220 {long}")))),
        ("a banner without end", Box::new(move |_| Some(flood.clone()))),
        ("not FTP", Box::new(|_| Some("HTTP/1.1 400 Bad Request\r\n\r\n".to_owned()))),
        ("busy", Box::new(|_| Some("421 too many users\r\n".to_owned()))),
        (
            "no data connection",
            Box::new(|command| match command.split(' ').next() {
                Some("PASV") => Some("450 later\r\n".to_owned()),
                _ => correct_reply(command),
            }),
        ),
    ];
    for (name, script) in servers {
        let server = Scripted::start(script);
        let proxy = start(server.address);
        let refused = get(&proxy, "/pub/a.txt");
        refused.expect_unreachable("ftp://files.test/robots.txt");
        let commands = server.received();
        assert!(commands.iter().all(|command| !command.contains("a.txt")), "{name}: {commands:?}");
    }
}

#[test]
fn data_connections_go_to_the_servers_own_address_only() {
    let data = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = data.local_addr().expect("it is bound").port();
    // The address in the reply listens, and may be connected to, so a connection would be noticed.
    let elsewhere = TcpListener::bind(("127.0.0.9", port)).expect("the port is free there");
    let pasv = passive_at(data, [127, 0, 0, 9], |mut stream| {
        stream.write_all(b"page").expect("it is read");
    });
    let server = Scripted::start(move |command| match command {
        "PASV" => Some(pasv.clone()),
        "RETR ./robots.txt" => Some("550 none\r\n".to_owned()),
        "RETR ./a.txt" => Some("150 here\r\n226 done\r\n".to_owned()),
        _ => correct_reply(command),
    });
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .resolve("files.test:21", server.address)
            .set("upstream.allow_private", "[\"127.0.0.0/8\"]")
    });
    let page = get(&proxy, "/a.txt");
    assert_eq!((page.status, page.text().as_str()), (200, "page"));
    elsewhere.set_nonblocking(true).expect("a listener need not block");
    assert!(elsewhere.accept().is_err(), "a connection was made");
    assert!(server.received().iter().any(|command| command == "PASV"));
}

/// Serves data connections, and returns the reply to PASV.
pub fn passive(serve: fn(TcpStream)) -> String {
    let data = TcpListener::bind("127.0.0.1:0").expect("a port");
    passive_at(data, [127, 0, 0, 1], serve)
}

/// Serves data connections of a listener, and returns a reply to PASV with another address.
fn passive_at(data: TcpListener, address: [u8; 4], serve: fn(TcpStream)) -> String {
    let port = data.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for stream in data.incoming() {
            let stream = stream.expect("a connection");
            std::thread::spawn(move || serve(stream));
        }
    });
    let (high, low) = (port / 256, port % 256);
    let [a, b, c, d] = address;
    format!("227 Entering Passive Mode ({a},{b},{c},{d},{high},{low})\r\n")
}

#[test]
fn a_listing_without_end_is_given_up() {
    let pasv = passive(|mut stream| {
        let line = "type=file;size=1; name\r\n".repeat(1000);
        while stream.write_all(line.as_bytes()).is_ok() {}
    });
    let server = Scripted::start(move |command| match command.split(' ').next() {
        Some("PASV") => Some(pasv.clone()),
        Some("MLSD") => Some("150 here\r\n".to_owned()),
        // There is no robots.txt.
        Some("RETR") => Some("550 none\r\n".to_owned()),
        Some("SIZE") => Some("500 what?\r\n".to_owned()),
        _ => correct_reply(command),
    });
    let proxy = start(server.address);
    let refused = get(&proxy, "/pub/");
    let problem = refused.expect_refusal(502, None, "http_protocol_error");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("longer than 1 MiB"), "{detail}");
}

#[test]
fn a_long_listing_is_cut_and_says_so() {
    let pasv = passive(|mut stream| {
        let lines: String = (0..9_000)
            .map(|number| format!("-rw-r--r-- 1 a b 3 Jan 01 2026 {number:04}\r\n"))
            .collect();
        let _maybe_closed = stream.write_all(lines.as_bytes());
    });
    let server = Scripted::start(move |command| match command.split(' ').next() {
        Some("PASV") => Some(pasv.clone()),
        Some("MLSD") => Some("500 what?\r\n".to_owned()),
        Some("LIST") => Some("150 here\r\n226 done\r\n".to_owned()),
        Some("RETR") => Some("550 none\r\n".to_owned()),
        _ => correct_reply(command),
    });
    let proxy = start(server.address);
    let page = get(&proxy, "/pub/");
    assert_eq!(page.status, 200, "{}", page.text());
    assert_eq!(page.text().matches("<li><a href=\"./").count(), 2_000);
    assert!(page.text().contains("7000 further lines of the server's listing are left out"));
}

#[test]
fn a_malformed_modification_time_is_omitted() {
    let pasv = passive(|mut stream| stream.write_all(b"page").expect("it is read"));
    let server = Scripted::start(move |command| match command {
        "PASV" => Some(pasv.clone()),
        "MDTM ./robots.txt" | "MDTM ./a.txt" => Some("213 191000101000000\r\n".to_owned()),
        "RETR ./robots.txt" => Some("550 none\r\n".to_owned()),
        "RETR ./a.txt" => Some("150 here\r\n226 done\r\n".to_owned()),
        _ => correct_reply(command),
    });
    let proxy = start(server.address);
    let page = get(&proxy, "/a.txt");
    assert_eq!((page.status, page.text().as_str()), (200, "page"));
    assert_eq!(page.header("Last-Modified"), None);
}
