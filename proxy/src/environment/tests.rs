//! Evaluates the lines for clients in real shells, with values that try to inject commands.

use std::path::Path;
use std::process::Command;

use super::{
    GENERAL_TEMPLATE, KnownClient, ProxyUrl, general_variables, shell_lines, trust_variables,
};

/// A path full of characters that are special to a shell.
const CERTIFICATE: &str = "/ca/it's \"$HOME\" `touch pwned` $(touch pwned) $({touch,pwned}) \\;touch pwned;#*?~&|<>!\n touch pwned\n# =\u{e9}/ca.crt";

/// The URL that a password full of such characters is escaped to.
const ESCAPED: &str =
    "http://a%24%28touch%20pwned%29:%60touch%20pwned%60%27%22%3B%26%7C%5C@proxy.example:3128";

fn clients() -> impl Iterator<Item = Option<KnownClient>> {
    let all = KnownClient::ALL.map(|(client, _)| Some(client));
    all.into_iter().chain([None])
}

/// Evaluates `lines` and then `script` in `directory`, and returns the output. The tools that the lines call print their
/// arguments.
fn evaluated(shell: &str, directory: &Path, lines: &str, script: &str) -> String {
    let tools = "keytool() { printf '%s\\n' \"$@\"; }; certutil() { printf '%s\\n' \"$@\"; }";
    let output = Command::new(shell)
        .args(["-c", &format!("{tools}\neval \"$1\"\n{script}"), "sh", lines])
        .current_dir(directory)
        .env("HOME", directory)
        .output()
        .expect("there is a shell");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.is_empty(), "{shell}: {complaint}: {lines}");
    String::from_utf8(output.stdout).expect("text")
}

/// Two shells, because brace expansion exists in bash but not in Debian's sh.
const SHELLS: [&str; 2] = ["sh", "bash"];

#[test]
fn no_line_for_a_client_runs_what_a_path_or_a_password_says() {
    let password = "http://a$(touch%20pwned):`touch%20pwned`'\"%3B&|%5C@proxy.example:3128";
    for proxy in [password, "http://[::1]:3128", "https://proxy.example"] {
        let proxy: ProxyUrl = proxy.parse().expect(proxy);
        for (client, shell) in clients().flat_map(|client| SHELLS.map(|shell| (client, shell))) {
            let directory = tempfile::tempdir().expect("a directory");
            let text = shell_lines(client, &proxy, CERTIFICATE);
            let variables = "printf '%s\\n' \"$http_proxy\" \"$SSL_CERT_FILE$CURL_CA_BUNDLE$NODE_EXTRA_CA_CERTS\" \"$JAVA_TOOL_OPTIONS\"";
            let wget = match client {
                Some(KnownClient::Wget) => "command() { printf '%s\\n' \"$@\"; }; wget URL",
                _ => "",
            };
            let shown = evaluated(shell, directory.path(), &text, &format!("{variables}\n{wget}"));
            assert!(!directory.path().join("pwned").exists(), "{client:?}, {shell}: {text}");
            assert!(shown.contains(CERTIFICATE), "{client:?}, {shell}: {shown}");
            let is_argument = matches!(client, Some(KnownClient::Java | KnownClient::Playwright));
            let is_set = shown.lines().any(|line| line == proxy.as_str());
            assert_eq!(is_set, !is_argument, "{client:?}, {shell}: {shown}");
        }
    }
}

#[test]
fn a_proxys_host_is_one_that_an_origin_can_have() {
    for refused in [
        "http://a$({touch,pwned})b:3128",
        "http://a%24(touch)b:3128",
        "http://`touch`:3128",
        "http://a;b:3128",
        "http://a'b:3128",
        "http://a&b:3128",
        "http://a.example:3128/path",
        "http://a.example:3128?query",
        "http://a.example:3128/?$(touch%20pwned)",
        "http://a.example:3128#fragment",
        "http://:3128",
        "ftp://a.example:21",
        "socks5://a.example:1080",
        "a.example:3128",
        "",
    ] {
        assert!(refused.parse::<ProxyUrl>().is_err(), "{refused}");
    }
    for (given, known) in [
        ("http://Proxy.Example:3128/", "http://proxy.example:3128"),
        ("http://proxy.example", "http://proxy.example:80"),
        ("https://[0:0::1]:3130", "https://[::1]:3130"),
        ("http://0x7f.1:3128", "http://127.0.0.1:3128"),
        ("http://news:s%40cret!@proxy.example:3128", "http://news:s%40cret%21@proxy.example:3128"),
        ("http://a$(touch%20pwned):`touch%20pwned`'\"%3B&|%5C@proxy.example:3128", ESCAPED),
    ] {
        let proxy: ProxyUrl = given.parse().expect(given);
        assert_eq!(proxy.as_str(), known);
    }
}

#[test]
fn playwright_is_told_the_server_without_quotes_and_password() {
    let proxy = "http://news:secret@[::1]:3128".parse().expect("a proxy");
    let text = shell_lines(Some(KnownClient::Playwright), &proxy, "/ca.crt");
    assert!(text.contains(r#"proxy={"server": "http://[::1]:3128"}"#), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn scrapy_is_told_a_setting_that_it_does_not_deprecate() {
    let proxy = "http://127.0.0.1:3128".parse().expect("a proxy");
    let text = shell_lines(Some(KnownClient::Scrapy), &proxy, "/ca.crt");
    let settings: Vec<_> = text.lines().filter(|line| line.starts_with("#   ")).collect();
    assert_eq!(settings[0], "#   DOWNLOAD_VERIFY_CERTIFICATES = True", "{text}");
}

#[test]
fn variables_are_those_that_the_lines_export() {
    let proxy = "http://proxy.example:3128".parse().expect("a proxy");
    let lines = shell_lines(None, &proxy, "/ca.crt");
    let variables = general_variables(&proxy, "/ca.crt");
    assert_eq!(variables.len(), 13, "{variables:?}");
    for (name, value) in variables {
        assert!(lines.contains(&format!("{name}={value}")), "{name}={value} in {lines}");
    }
    let found = general_variables(&proxy, CERTIFICATE);
    assert!(found.contains(&("SSL_CERT_FILE", CERTIFICATE.to_owned())), "{found:?}");
}

#[test]
fn every_variable_for_the_certificate_is_known() {
    let expected = [
        "SSL_CERT_FILE",
        "CURL_CA_BUNDLE",
        "REQUESTS_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "NODE_EXTRA_CA_CERTS",
        "DENO_CERT",
    ];
    assert_eq!(trust_variables().collect::<Vec<_>>(), expected);
    assert_eq!(GENERAL_TEMPLATE.matches("@CERTIFICATE@").count(), expected.len());
}
