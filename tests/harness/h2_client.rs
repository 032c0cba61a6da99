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
    /// Opens a tunnel to `authority` through `proxy`, and HTTP/2 in TLS inside it.
    #[track_caller]
    pub fn open(proxy: SocketAddr, authority: &str, ca_pem: &[u8]) -> Self {
        let mut wire = Wire::connect(proxy);
        assert_eq!(wire.connect_tunnel(authority).status, 200, "CONNECT {authority}");
        Self::inside(wire, authority, ca_pem)
    }

    /// Starts HTTP/2 in TLS inside an open tunnel.
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

    /// Sends one request, its body in one piece, and waits for the whole response.
    #[track_caller]
    pub fn exchange(&self, request: &Request) -> Response {
        self.try_exchange(request).expect("the exchange ends well")
    }

    /// Does the same where the response may break off.
    pub fn try_exchange(&self, request: &Request) -> Result<Response, h2::Error> {
        runtime().block_on(exchange(self.send.clone(), request))
    }

    /// Sends all requests before it reads any response. Returns the responses in the order of the requests.
    #[track_caller]
    pub fn exchange_all(&self, requests: &[Request]) -> Vec<Response> {
        let start = |request: &Request| {
            let (send, request) = (self.send.clone(), request.clone());
            runtime().spawn(async move { exchange(send, &request).await })
        };
        let under_way: Vec<_> = requests.iter().map(start).collect();
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
    request: &Request,
) -> Result<Response, h2::Error> {
    let mut send = send.ready().await?;
    let mut head = http::Request::builder()
        .method(request.method.as_str())
        .uri(&request.url)
        .version(http::Version::HTTP_2);
    if !request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent")) {
        head = head.header("user-agent", AGENT);
    }
    for (name, value) in &request.headers {
        head = head.header(name.to_ascii_lowercase(), value);
    }
    let (mut answer, mut upload) =
        send.send_request(head.body(()).expect("a valid request"), request.body.is_empty())?;
    if !request.body.is_empty() {
        upload.send_data(Bytes::copy_from_slice(&request.body), true)?;
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

/// Returns the statuses of the interim responses.
async fn interim(answer: &mut h2::client::ResponseFuture) -> Vec<u16> {
    let mut statuses = Vec::new();
    while let Some(Ok(head)) = poll_fn(|context| answer.poll_informational(context)).await {
        statuses.push(head.status().as_u16());
    }
    statuses
}
