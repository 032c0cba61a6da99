//! `wayleave env`: the settings that make a client use the proxy and trust its CA.
//!
//! The output can be passed to `eval` in a POSIX shell; everything else in it is a comment. Each client reads different
//! variables, in different case, and finds its root certificates in its own way: comments next to the lines explain that.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use wayleave_config::Config;
use wayleave_config::ListenAddress;

use super::config_file::load_keys;
use super::terminal::{CommandResult, absolute_path, print, unusable};
use crate::environment::{KnownClient, ProxyUrl, shell_lines};

#[derive(Debug, Args)]
pub(super) struct EnvArguments {
    /// Print only what this client needs [default: variables that suit most clients]
    #[arg(long, value_enum)]
    client: Option<KnownClient>,
    /// The proxy's URL as seen from the crawler's machine [default: the first listener, as seen from this one]
    #[arg(long, value_name = "URL")]
    proxy: Option<ProxyUrl>,
    /// The path of the CA's certificate on the crawler's machine [default: this machine's ca.crt]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

pub(super) fn run(arguments: &EnvArguments, file: Option<&Path>) -> CommandResult {
    // On another machine there is no configuration, and none is needed if everything is given.
    if let (Some(proxy), Some(certificate)) = (&arguments.proxy, &arguments.ca) {
        return print_lines(arguments.client, proxy, certificate);
    }
    let (config, _) = load_keys(file, &["proxy.listen", "state.dir", "https.ca_dir"])?;
    let Some(proxy) =
        arguments.proxy.clone().or_else(|| address_to_dial(&config).map(ProxyUrl::from))
    else {
        return Err(unusable(
            "no HTTP proxy in proxy.listen has a known port: for port 0 the system chooses one when the proxy starts, \
             and `wayleave serve` prints it (or give --proxy)",
        ));
    };
    if let Some(certificate) = &arguments.ca {
        return print_lines(arguments.client, &proxy, certificate);
    }
    let certificate = absolute_path(&config.https.ca_dir).join("ca.crt");
    // No lines: a shell that evaluated them would have clients that can use TLS no more.
    if let Err(error) = File::open(&certificate) {
        return Err(unusable(&explain_unreadable(&certificate, &error, config.admin.listen)));
    }
    print_lines(arguments.client, &proxy, &certificate)
}

fn print_lines(client: Option<KnownClient>, proxy: &ProxyUrl, certificate: &Path) -> CommandResult {
    // Lines with another path would have clients that trust nothing.
    let Some(path) = certificate.to_str() else {
        let path = certificate.display();
        return Err(unusable(&format!(
            "{path} is not UTF-8: copy the file to a path that is, and pass that as --ca"
        )));
    };
    Ok(print(&shell_lines(client, proxy, path)))
}

/// Explains why the certificate cannot be read, and names a remedy. A service keeps it in a directory that only root can
/// read, and serves it at `admin`.
fn explain_unreadable(certificate: &Path, error: &io::Error, admin: SocketAddr) -> String {
    let path = certificate.display();
    match error.kind() {
        ErrorKind::NotFound => format!(
            "{path} does not exist yet: start `wayleave serve` once, or run `wayleave ca init`. If wayleave runs as a \
             service: `curl -sSfo ca.pem http://{admin}/ca.pem`, and pass --ca \"$PWD/ca.pem\""
        ),
        ErrorKind::PermissionDenied => format!(
            "{path} cannot be read (permission denied): give others access to its directories (chmod o+x), or \
             fetch it from the admin listener, at /ca.pem"
        ),
        _ => format!("{path} cannot be read: {error}"),
    }
}

/// Returns the address that a client on this machine connects to: that of the first HTTP proxy with a known port, preferably one
/// without TLS.
pub(super) fn address_to_dial(config: &Config) -> Option<ListenAddress> {
    let known = config.proxy.listen.iter().copied().filter(|listen| listen.address.port() != 0);
    ListenAddress::for_local_clients(known)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use clap::ValueEnum;
    use wayleave_config::Config;

    use super::{address_to_dial, print_lines, shell_lines};
    use crate::environment::KnownClient;

    fn example(client: Option<KnownClient>) -> String {
        let proxy = "http://[::1]:3128".parse().expect("a proxy");
        shell_lines(client, &proxy, "/var/lib/it's here/ca.crt")
    }

    fn shell(arguments: &[&str]) -> String {
        let output = Command::new("sh").args(arguments).output().expect("there is a shell");
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && complaint.is_empty(), "{arguments:?}: {complaint}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    fn every_client_gets_lines_that_a_shell_can_read() {
        for client in KnownClient::value_variants() {
            let text = example(Some(*client));
            assert!(text.lines().any(|line| !line.starts_with('#')), "{text}");
            let places = ["@URL@", "@HOST@", "@PORT@", "@NO_PROXY@", "@CERTIFICATE@"];
            assert!(!places.iter().any(|place| text.contains(place)), "{text}");
            assert!(text.contains(r"'/var/lib/it'\''s here/ca.crt'"), "{text}");
            assert!(text.contains("3128"), "{text}");
            shell(&["-n", "-c", &text]);
        }
    }

    #[test]
    fn evaluated_lines_set_what_clients_read() {
        let script =
            r#"eval "$1"; printf '%s\n' "$http_proxy" "$HTTPS_PROXY" "$no_proxy" "$SSL_CERT_FILE""#;
        let shown = shell(&["-c", script, "sh", &example(None)]);
        let expected = [
            "http://[::1]:3128",
            "http://[::1]:3128",
            "localhost,127.0.0.1,::1",
            "/var/lib/it's here/ca.crt",
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn wget_becomes_a_function_that_trusts_the_ca() {
        let script = r#"eval "$1"; wget() { :; }; command() { printf '%s\n' "$@"; }; eval "$1"; wget -q URL"#;
        let shown = shell(&["-c", script, "sh", &example(Some(KnownClient::Wget))]);
        assert_eq!(shown, "wget\n--ca-certificate=/var/lib/it's here/ca.crt\n-q\nURL\n");
    }

    #[test]
    fn a_path_that_is_not_utf_8_is_an_error() {
        use std::os::unix::ffi::OsStrExt;
        let proxy = "http://[::1]:3128".parse().expect("a proxy");
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(b"/caf\xe9/ca.crt"));
        assert!(print_lines(None, &proxy, path).is_err());
    }

    #[test]
    fn tls_to_the_proxy_is_said_to_be_possible_or_not() {
        use crate::environment::{AIOHTTP_NOTE, NO_TLS_NOTE, ProxyUrl, ROOTS_NOTE};
        let proxy: ProxyUrl = "https://proxy.example:3130".parse().unwrap();
        let lines = |client| shell_lines(client, &proxy, "/ca.crt");
        assert!(lines(Some(KnownClient::Wget)).starts_with(NO_TLS_NOTE));
        assert!(lines(Some(KnownClient::Curl)).starts_with(ROOTS_NOTE));
        // It would go around the proxy without a word.
        for client in [Some(KnownClient::Python), None] {
            assert!(lines(client).starts_with(AIOHTTP_NOTE), "{client:?}");
            assert!(!example(client).contains(AIOHTTP_NOTE), "{client:?}");
        }
        assert!(lines(None).contains("https_proxy=https://proxy.example:3130 "));
        assert!(!example(None).contains(ROOTS_NOTE));
    }

    #[test]
    fn clients_dial_the_first_known_port_on_this_machine() {
        let dialled = |listen: &[&str]| {
            let mut config = Config::default();
            config.proxy.listen =
                listen.iter().map(|text| text.parse().expect("an address")).collect();
            address_to_dial(&config).map(|address| address.to_string())
        };
        assert_eq!(dialled(&["127.0.0.1:0"]), None);
        assert_eq!(dialled(&["127.0.0.1:0", "0.0.0.0:8080"]).as_deref(), Some("127.0.0.1:8080"));
        assert_eq!(dialled(&["[::]:8080"]).as_deref(), Some("[::1]:8080"));
        assert_eq!(dialled(&["10.1.2.3:8080"]).as_deref(), Some("10.1.2.3:8080"));
        let captures = ["socks5://127.0.0.1:1080", "redirect://127.0.0.1:3131"];
        assert_eq!(dialled(&captures), None);
        let last = dialled(&[captures[0], captures[1], "https://127.0.0.1:3130"]);
        assert_eq!(last.as_deref(), Some("https://127.0.0.1:3130"));
    }
}
