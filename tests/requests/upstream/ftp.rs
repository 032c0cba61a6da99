//! `ftp:` URLs: real servers with real trees, and servers that misbehave.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::programs::{Program, Squid, sbin};
use crate::harness::response::Response;
use crate::harness::tools::{clean, output_of, project};
use crate::harness::wayleave::command;
use crate::harness::{DEADLINE, Origin, Request, Wayleave};

const ROBOTS: &str = "User-agent: *\nDisallow: /private\nDisallow: /pub/no.txt\n";
const BIG: usize = 3_000_000;

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
        let mut command = sbin("vsftpd");
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

/// A proxy to which `files.test` is a server.
pub fn start(server: SocketAddr) -> Wayleave {
    let origin = Origin::start();
    Wayleave::start_with(&origin, |settings| {
        settings.resolve("files.test:21", server).set("upstream.response_timeout", "\"2s\"")
    })
}

pub fn get(proxy: &Wayleave, path: &str) -> Response {
    proxy.get(&format!("ftp://files.test{path}"))
}

#[test]
fn files_of_real_servers() {
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
fn what_has_no_fields_is_not_signed() {
    let (server, origin) = (vsftpd(), Origin::start());
    let dir = tempfile::tempdir().expect("a directory");
    let mut new = command();
    new.args(["keys", "new", "news"]).current_dir(dir.path());
    output_of(&mut new, b"", DEADLINE);
    let crawler = format!(
        "[[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\nmatch = {{ user_agent = \"NewsBot\" }}\nsigning_key = {:?}\n",
        dir.path().join("keys/news.pem")
    );
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .resolve("files.test:21", server.address)
            .set("signing.mode", "\"always\"")
            .set("signing.agent", "\"https://bot.test\"")
            .table(&crawler)
    });
    for url in ["ftp://files.test/pub/a%20b.txt", "http://shop.test/a"] {
        let ask = Request::get(url).agent("NewsBot/1.0");
        assert_eq!(proxy.exchange(&ask).status, 200, "{url}");
    }
    let signed = proxy.metric("wayleave_signatures_total", &[("result", "signed")]);
    assert_eq!(signed as u64, 1);
    let decisions = proxy.admin_get("/v1/decisions").text();
    let signed = decisions.matches("\"signature\":\"signed\"").count();
    assert_eq!(signed, 1, "{decisions}");
}

#[test]
fn directories_of_real_servers_and_what_is_disallowed_in_them() {
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
        for gone in ["/pub/none", "/none/"] {
            assert_eq!(get(&proxy, gone).status, 404, "{gone}");
        }
        assert_eq!(get(&proxy, "/").status, 200);
        // The rules hold, in every spelling, and the server is never asked.
        for no in [
            "/private/x.txt",
            "/private/",
            "/%70rivate/x.txt",
            "/pub/../private/x.txt",
            "//private/x.txt",
            "/pub/no.txt",
        ] {
            assert_eq!(get(&proxy, no).status, 403, "{no}");
        }
        assert_eq!(get(&proxy, "/robots.txt").text(), ROBOTS);
        let logged = server.read(log);
        assert!(logged.contains("robots.txt") && logged.contains("pub"), "{logged}");
        assert!(!logged.contains("private") && !logged.contains("no.txt"), "{logged}");
        assert!(!logged.contains("\"PORT") && !logged.contains("\"EPRT"), "{logged}");
    }
}

#[test]
fn credentials_of_the_url_log_in_and_are_never_written_down() {
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
fn what_a_server_could_take_for_something_else_is_refused() {
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
    assert_eq!(server.heard(), [""; 0]);
}

#[test]
fn a_parent_proxy_of_http_fetches_them_and_of_socks_does_not() {
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

/// A server that answers each command as a script says; without an answer it hangs.
pub struct Scripted {
    pub address: SocketAddr,
    commands: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    /// The first "command" is the connection itself.
    pub fn start(answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let commands = Arc::new(Mutex::new(Vec::new()));
        let (told, answer) = (Arc::clone(&commands), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let (told, answer) = (Arc::clone(&told), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let mut lines = BufReader::new(&stream).lines();
                    let mut to = &stream;
                    let mut command = "hello".to_owned();
                    loop {
                        if let Some(reply) = answer(&command) {
                            let _it_may_be_gone = to.write_all(reply.as_bytes());
                        }
                        let Some(Ok(line)) = lines.next() else { return };
                        told.lock().expect("nobody panics").push(line.clone());
                        command = line;
                    }
                });
            }
        });
        Self { address, commands }
    }

    fn heard(&self) -> Vec<String> {
        self.commands.lock().expect("nobody panics").clone()
    }
}

/// The replies of a correct server before a transfer.
pub fn proper(command: &str) -> Option<String> {
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
fn hostile_servers_end_within_their_bounds() {
    let long = "x".repeat(10_000_000);
    let flood = "220-again\r\n".repeat(1_000_000);
    type Answer = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;
    let servers: Vec<(&str, Answer)> = vec![
        ("nothing is said", Box::new(|_| None)),
        ("a line without end", Box::new(move |_| Some(format!("220 {long}")))),
        ("a banner without end", Box::new(move |_| Some(flood.clone()))),
        ("not FTP", Box::new(|_| Some("HTTP/1.1 400 Bad Request\r\n\r\n".to_owned()))),
        ("busy", Box::new(|_| Some("421 too many users\r\n".to_owned()))),
        (
            "for now not",
            Box::new(|command| match command.split(' ').next() {
                Some("PASV") => Some("450 later\r\n".to_owned()),
                _ => proper(command),
            }),
        ),
    ];
    for (what, answer) in servers {
        let server = Scripted::start(answer);
        let proxy = start(server.address);
        let refused = get(&proxy, "/pub/a.txt");
        refused.expect_unreachable("ftp://files.test/robots.txt");
        let asked = server.heard();
        assert!(asked.iter().all(|command| !command.contains("a.txt")), "{what}: {asked:?}");
    }
}

#[test]
fn data_comes_from_the_servers_own_address_only() {
    let data = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = data.local_addr().expect("it is bound").port();
    // The named host listens at the same port and may be dialled, so it would notice a connection.
    let elsewhere = TcpListener::bind(("127.0.0.9", port)).expect("the port is free there");
    let pasv = passive_at(data, [127, 0, 0, 9], |mut stream| {
        stream.write_all(b"page").expect("it is read");
    });
    let server = Scripted::start(move |command| match command {
        "PASV" => Some(pasv.clone()),
        "RETR ./robots.txt" => Some("550 none\r\n".to_owned()),
        "RETR ./a.txt" => Some("150 here\r\n226 done\r\n".to_owned()),
        _ => proper(command),
    });
    let origin = Origin::start();
    let proxy = Wayleave::start_with(&origin, |settings| {
        settings
            .resolve("files.test:21", server.address)
            .set("upstream.allow_private", "[\"127.0.0.0/8\"]")
    });
    let page = get(&proxy, "/a.txt");
    assert_eq!((page.status, page.text().as_str()), (200, "page"));
    elsewhere.set_nonblocking(true).expect("it can be asked");
    assert!(elsewhere.accept().is_err(), "nobody came");
    assert!(server.heard().iter().any(|command| command == "PASV"));
}

/// Serves data connections; the reply to PASV that names where.
pub fn passive(serve: fn(TcpStream)) -> String {
    let data = TcpListener::bind("127.0.0.1:0").expect("a port");
    passive_at(data, [127, 0, 0, 1], serve)
}

/// Serves on a given listener, while the reply names another address.
fn passive_at(data: TcpListener, told: [u8; 4], serve: fn(TcpStream)) -> String {
    let port = data.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for stream in data.incoming() {
            let stream = stream.expect("a connection");
            std::thread::spawn(move || serve(stream));
        }
    });
    let (high, low) = (port / 256, port % 256);
    let [a, b, c, d] = told;
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
        _ => proper(command),
    });
    let proxy = start(server.address);
    let refused = get(&proxy, "/pub/");
    let problem = refused.expect_refusal(502, None, "http_protocol_error");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("longer than 1 MiB"), "{detail}");
}

#[test]
fn a_time_that_cannot_be_read_is_left_out() {
    let pasv = passive(|mut stream| stream.write_all(b"page").expect("it is read"));
    let server = Scripted::start(move |command| match command {
        "PASV" => Some(pasv.clone()),
        "MDTM ./robots.txt" | "MDTM ./a.txt" => Some("213 191000101000000\r\n".to_owned()),
        "RETR ./robots.txt" => Some("550 none\r\n".to_owned()),
        "RETR ./a.txt" => Some("150 here\r\n226 done\r\n".to_owned()),
        _ => proper(command),
    });
    let proxy = start(server.address);
    let page = get(&proxy, "/a.txt");
    assert_eq!((page.status, page.text().as_str()), (200, "page"));
    assert_eq!(page.header("Last-Modified"), None);
}
