//! `wayleave gateway`: helpers of other proxies, which ask the running proxy.
//!
//! squid's helper reads a line for each request (`external_acl_type` with a concurrency channel), and answers it with `OK`, with
//! `ERR` if the request must not leave, or with `BH` if it cannot ask. squid escapes each word as in URLs, and writes `-` for none.

use std::io::{BufRead, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use clap::{Args, Subcommand};
use http::{HeaderValue, Request};
use http_body_util::Empty;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinSet;
use url::Url;
use wayleave_config::{GatewayProtocol, ListenAddress};
use wayleave_transport::http::loopback;

use super::config_file::load_keys;
use super::terminal::{CommandResult, failed, unusable};

/// The most questions at a time; squid asks no more of a helper than its `concurrency`.
const MAX_QUESTIONS: usize = 1024;
/// The longest answer that is read, a problem document.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

#[derive(Debug, Subcommand)]
pub(super) enum GatewayCommand {
    /// Answer squid's `external_acl_type`, a line for each request, on standard input and output
    Squid(SquidArguments),
}

#[derive(Debug, Args)]
pub(super) struct SquidArguments {
    /// The listener to ask, such as http://127.0.0.1:3141 [default: the first http:// of gateway.listen]
    #[arg(long, value_name = "URL")]
    url: Option<Url>,
    /// A file with the token of a crawler, whose SHA-256 is in gateway.tokens
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// The listener to ask, and the token.
struct AskedListener {
    address: SocketAddr,
    authorization: Option<HeaderValue>,
}

/// A line of squid's.
struct SquidQuestion<'a> {
    channel: &'a str,
    method: Vec<u8>,
    url: Vec<u8>,
    user_agent: Option<Vec<u8>>,
    client: Option<String>,
}

pub(super) fn run(command: &GatewayCommand, file: Option<&Path>) -> CommandResult {
    let GatewayCommand::Squid(arguments) = command;
    let address = match &arguments.url {
        Some(url) => address_of(url).map_err(|error| unusable(&format!("--url: {error:#}")))?,
        None => configured_address(file)?,
    };
    let authorization = arguments.token_file.as_deref().map(read_token).transpose();
    let authorization =
        authorization.map_err(|error| unusable(&format!("--token-file: {error:#}")))?;
    serve(AskedListener { address, authorization }).map_err(|error| failed(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn address_of(url: &Url) -> anyhow::Result<SocketAddr> {
    anyhow::ensure!(url.scheme() == "http" && url.path() == "/", "it is not http://HOST:PORT");
    let host = url.host_str().context("it has no host")?;
    let port = url.port_or_known_default().unwrap_or(80);
    let mut addresses = (host.trim_matches(['[', ']']), port).to_socket_addrs()?;
    addresses.next().context("the host has no address")
}

fn configured_address(file: Option<&Path>) -> Result<SocketAddr, ExitCode> {
    let (config, _) = load_keys(file, &["gateway.listen"])?;
    let mut by_http =
        config.gateway.listen.iter().filter(|it| it.protocol == GatewayProtocol::Http);
    let listen = by_http.next().filter(|listen| listen.address.port() != 0).ok_or_else(|| {
        unusable(
            "gateway.listen has no http:// listener with a port: set it, or name one with --url",
        )
    })?;
    Ok(ListenAddress::http(listen.address).dialable().address)
}

fn read_token(file: &Path) -> anyhow::Result<HeaderValue> {
    let token = std::fs::read_to_string(file)
        .with_context(|| format!("{} cannot be read", file.display()))?;
    HeaderValue::from_str(&format!("Bearer {}", token.trim())).context("it cannot be sent")
}

/// Answers lines until standard input ends.
fn serve(listener: AskedListener) -> anyhow::Result<()> {
    let (lines, questions) = mpsc::channel(MAX_QUESTIONS);
    // A thread of its own: a read from standard input cannot be cancelled.
    std::thread::spawn(move || {
        let read = std::io::stdin().lock().split(b'\n').map_while(Result::ok);
        for line in read {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(answer_all(Arc::new(listener), questions));
    Ok(())
}

/// Answers each question as soon as its verdict is there, whatever others wait for.
async fn answer_all(listener: Arc<AskedListener>, mut questions: Receiver<Vec<u8>>) {
    let free = Arc::new(Semaphore::new(MAX_QUESTIONS));
    let mut asking = JoinSet::new();
    while let Some(line) = questions.recv().await {
        let Ok(permit) = Arc::clone(&free).acquire_owned().await else {
            return;
        };
        let listener = Arc::clone(&listener);
        asking.spawn(async move {
            print_line(&listener.answer(&line).await);
            drop(permit);
        });
        while asking.try_join_next().is_some() {}
    }
    // What was asked is answered, although squid asks no more.
    while asking.join_next().await.is_some() {}
}

fn print_line(answer: &str) {
    let mut output = std::io::stdout().lock();
    // Without squid, nobody reads it.
    let _ = output.write_all(format!("{answer}\n").as_bytes()).and_then(|()| output.flush());
}

impl AskedListener {
    /// Returns the answer to a line.
    async fn answer(&self, line: &[u8]) -> String {
        // squid escapes whatever is not ASCII.
        let parsed = str::from_utf8(line).ok().and_then(SquidQuestion::parse);
        let Some(question) = parsed else {
            let line = String::from_utf8_lossy(line);
            let channel = line.split(' ').next().unwrap_or_default();
            let expected = "expected a channel, %METHOD %URI %{User-Agent}>h %SRC %ul";
            return format!("{channel} BH message={}", quoted(expected));
        };
        match self.ask(&question).await {
            Ok(None) => format!("{} OK", question.channel),
            Ok(Some((message, log))) => {
                let [message, log] = [message, log].map(|text| quoted(&text));
                format!("{} ERR message={message} log={log}", question.channel)
            }
            Err(error) => {
                format!("{} BH message={}", question.channel, quoted(&format!("{error:#}")))
            }
        }
    }

    /// Asks about a request. Returns the refusal: why, and for the log its reason and its decision.
    async fn ask(&self, question: &SquidQuestion<'_>) -> anyhow::Result<Option<(String, String)>> {
        let SquidQuestion { method, url, .. } = question;
        // Byte for byte: squid will fetch what it has, whether that is text or not.
        let [method, url] = [method, url].map(|bytes| percent_encode(bytes, NON_ALPHANUMERIC));
        let mut request = Request::get(format!("/check?method={method}&url={url}"))
            .header("Host", self.address.to_string());
        if let Some(user_agent) = &question.user_agent {
            request = request.header("User-Agent", HeaderValue::from_bytes(user_agent)?);
        }
        if let Some(client) = &question.client {
            request = request.header("X-Forwarded-For", client);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let request = request.body(Empty::<Bytes>::new())?;
        let response = loopback::send(self.address, request, MAX_ANSWER_BYTES).await;
        let response = response.with_context(|| format!("asking wayleave at {}", self.address))?;
        if response.status == http::StatusCode::OK {
            return Ok(None);
        }
        let problem: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let member = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
        let detail = member("detail");
        // Only a decision has a reason: anything else says that this helper is set up wrongly.
        anyhow::ensure!(
            problem["reason"].is_string(),
            "wayleave answers {}: {detail}",
            response.status
        );
        let log = format!("{} {}", member("reason"), member("decision_id"));
        Ok(Some((detail, log)))
    }
}

impl<'a> SquidQuestion<'a> {
    /// Parses a line. Further words, such as the arguments of the ACL, and the user name, which proves nothing, are not read.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.trim_end_matches('\r').split(' ').filter(|word| !word.is_empty());
        let channel = words.next()?;
        let is_channel = channel.bytes().all(|byte| byte.is_ascii_digit());
        let bytes = |word: &str| percent_decode_str(word).collect::<Vec<u8>>();
        let known = |word: &str| (word != "-").then(|| bytes(word));
        let question = Self {
            channel,
            method: bytes(words.next()?),
            url: bytes(words.next()?),
            user_agent: known(words.next()?),
            client: known(words.next()?).and_then(|client| String::from_utf8(client).ok()),
        };
        is_channel.then_some(question)
    }
}

/// Returns text as a value of squid's: one line, within quotes.
fn quoted(text: &str) -> String {
    let mut value = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => value.extend(['\\', character]),
            character if character.is_control() => value.push(' '),
            character => value.push(character),
        }
    }
    value + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_squid_writes_it() {
        let line = "7 GET http://shop.test/a%2520b%3Fq News%20Bot/1.0 192.0.2.7 - -";
        let question = SquidQuestion::parse(line).unwrap();
        assert_eq!(question.channel, "7");
        assert_eq!(question.url, b"http://shop.test/a%20b?q");
        assert_eq!(question.user_agent.as_deref(), Some(&b"News Bot/1.0"[..]));
        assert_eq!(question.client.as_deref(), Some("192.0.2.7"));
        let question = SquidQuestion::parse("1 GET http://shop.test/%ff - - -").unwrap();
        assert_eq!(question.url, b"http://shop.test/\xff", "no other byte takes its place");
        let question = SquidQuestion::parse("0 CONNECT shop.test:443 - - -").unwrap();
        assert_eq!((question.user_agent, question.client), (None, None));
        for wrong in ["", "GET http://shop.test/ - - -", "1 GET http://shop.test/", "1"] {
            assert!(SquidQuestion::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn an_answer_stays_within_its_quotes() {
        assert_eq!(quoted("a \"b\\\r\nc"), r#""a \"b\\  c""#);
    }
}
