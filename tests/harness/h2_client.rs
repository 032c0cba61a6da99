//! A client that speaks HTTP/2 inside an intercepted tunnel.

use std::future::poll_fn;
use std::net::SocketAddr;

use bytes::Bytes;
use rustls::pki_types::ServerName;

use super::client::{AGENT, Request, Wire};
use super::response::Response;
use super::{runtime, tls};

/// HTTP/2 inside an intercepted tunnel.
pub struct H2Client {
    send: h2::client::SendRequest<Bytes>,
    authority: String,
}

impl H2Client {
    /// CONNECT to `authority` through `proxy`, then TLS with ALPN `h2`, then HTTP/2.
    #[track_caller]
    pub fn open(proxy: SocketAddr, authority: &str, ca_pem: &[u8]) -> Self {
        let mut wire = Wire::connect(proxy);
        assert_eq!(wire.connect_tunnel(authority).status, 200, "CONNECT {authority}");
        Self::inside(wire, authority, ca_pem)
    }

    /// TLS with ALPN `h2` and HTTP/2 inside a tunnel that is open.
    #[track_caller]
    pub fn inside(wire: Wire, authority: &str, ca_pem: &[u8]) -> Self {
        let host = super::origin::host_of(authority);
        let name = ServerName::try_from(host).expect("a host name");
        let config = tls::client_config(ca_pem, &["h2"]);
        let send = runtime().block_on(async move {
            wire.tcp.set_nonblocking(true).expect("a socket can be made non-blocking");
            let tcp =
                tokio::net::TcpStream::from_std(wire.tcp).expect("the socket is non-blocking");
            let tls = tokio_rustls::TlsConnector::from(config)
                .connect(name, tcp)
                .await
                .expect("the TLS handshake succeeds");
            assert_eq!(
                tls.get_ref().1.alpn_protocol(),
                Some(&b"h2"[..]),
                "the proxy chose another protocol than h2"
            );
            let (send, connection) =
                h2::client::handshake(tls).await.expect("the HTTP/2 handshake succeeds");
            tokio::spawn(connection);
            send
        });
        Self { send, authority: authority.trim_end_matches(":443").to_owned() }
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Response {
        self.exchange(&Request::get(&format!("https://{}{path}", self.authority)))
    }

    /// Sends one request, its body in one piece, and waits for the whole answer.
    #[track_caller]
    pub fn exchange(&self, ask: &Request) -> Response {
        self.try_exchange(ask).expect("the exchange ends well")
    }

    /// As `exchange`, for answers that may break off.
    pub fn try_exchange(&self, ask: &Request) -> Result<Response, h2::Error> {
        runtime().block_on(exchange(self.send.clone(), ask))
    }

    /// Sends all requests before it reads any answer; answers come back in the order of the requests.
    #[track_caller]
    pub fn exchange_all(&self, asks: &[Request]) -> Vec<Response> {
        let start = |ask: &Request| {
            let (send, ask) = (self.send.clone(), ask.clone());
            runtime().spawn(async move { exchange(send, &ask).await })
        };
        let under_way: Vec<_> = asks.iter().map(start).collect();
        let mut answers = Vec::new();
        for task in under_way {
            let answer = runtime().block_on(task).expect("the task ends");
            answers.push(answer.expect("the exchange ends well"));
        }
        answers
    }
}

async fn exchange(
    send: h2::client::SendRequest<Bytes>,
    ask: &Request,
) -> Result<Response, h2::Error> {
    let mut send = send.ready().await?;
    let mut head = http::Request::builder()
        .method(ask.method.as_str())
        .uri(&ask.url)
        .version(http::Version::HTTP_2);
    if !ask.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent")) {
        head = head.header("user-agent", AGENT);
    }
    for (name, value) in &ask.headers {
        head = head.header(name.to_ascii_lowercase(), value);
    }
    let (mut answer, mut upload) =
        send.send_request(head.body(()).expect("tests ask validly"), ask.body.is_empty())?;
    if !ask.body.is_empty() {
        upload.send_data(Bytes::copy_from_slice(&ask.body), true)?;
    }
    let interim = interim(&mut answer).await;
    let (parts, mut stream) = answer.await?.into_parts();
    let text = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let mut response = Response {
        version: "HTTP/2".to_owned(),
        status: parts.status.as_u16(),
        headers: parts.headers.iter().map(text).collect(),
        interim,
        ..Response::default()
    };
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        response.body.extend_from_slice(&data);
    }
    response.trailers = stream.trailers().await?.iter().flatten().map(text).collect();
    Ok(response)
}

/// The statuses of what comes before the final head.
async fn interim(answer: &mut h2::client::ResponseFuture) -> Vec<u16> {
    let mut statuses = Vec::new();
    while let Some(Ok(head)) = poll_fn(|context| answer.poll_informational(context)).await {
        statuses.push(head.status().as_u16());
    }
    statuses
}
