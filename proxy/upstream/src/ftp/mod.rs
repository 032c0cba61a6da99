//! FTP with an origin (RFC 959, RFC 3659): a file or a directory, returned as an HTTP response. suppaftp implements
//! the protocol, with replies of bounded length; the address and the timeout are decided here.
//!
//! Transfers are passive, and go only to the address of the control connection, whatever address the server names. A
//! connection serves one request.

mod listing;
mod range;
mod response;

use std::fmt;
use std::io;
use std::time::{Duration, SystemTime};

use suppaftp::tokio::AsyncFtpStream;
use suppaftp::types::FileType;
use suppaftp::{Encoding, FtpError, FtpResult, Mode, Status};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use wayleave_decision::Reason;
use wayleave_fairness::{Holder, WorkPool};
use wayleave_http_wire::ftp_path;
use wayleave_http_wire::http1::BodyFraming;

use self::listing::{Listing, ListingFormat};
pub use self::range::ByteRange;
use self::response::{FileFacts, FileTransfer, FtpResponse};
use super::egress::DataRoute;
use super::error::UpstreamError;
use super::session::{UpstreamReader, UpstreamWriter, start_http1};

/// The longest directory listing, in bytes.
const MAX_LISTING_BYTES: u64 = 1024 * 1024;
/// The most characters of a server's message that are repeated.
const MAX_QUOTED_CHARS: usize = 100;
/// The login of anonymous users (RFC 1635).
const ANONYMOUS: (&str, &str) = ("anonymous", "anonymous@");

/// An open control connection, and the route of its data connections.
pub struct FtpConnection {
    pub(super) tcp: TcpStream,
    pub(super) data_route: DataRoute,
}

/// A request to a server.
#[derive(Clone)]
pub struct FtpRequest<'a> {
    /// The path, encoded as in the URL.
    pub path: &'a str,
    /// Whether content is left out.
    pub is_head: bool,
    pub range: Option<ByteRange>,
    /// Whether directories are listed as plain names instead of HTML.
    pub prefers_text: bool,
    /// User name and password; `None` for an anonymous login.
    pub credentials: Option<(String, String)>,
    /// The pool that reads listings, and the holder on whose behalf.
    pub pool: &'a WorkPool,
    pub holder: Holder,
}

/// A permanent negative reply, by its code.
struct FtpRefusal(u32);

/// Performs a request, and returns the result as an HTTP response.
///
/// # Errors
///
/// If the connection fails, or the server sends no usable reply within `timeout`.
pub async fn start(
    connection: FtpConnection,
    request: &FtpRequest<'_>,
    timeout: Duration,
) -> Result<(UpstreamWriter, UpstreamReader), UpstreamError> {
    let fetched = tokio::time::timeout(timeout, fetch(connection, request)).await;
    let response = fetched.unwrap_or_else(|_| {
        let details = "the FTP server did not answer in time".to_owned();
        Err(UpstreamError::new(Reason::HttpResponseTimeout, details))
    })?;
    start_http1(response.into_stream(timeout), b"", BodyFraming::Length(0), timeout).await
}

async fn fetch(
    connection: FtpConnection,
    request: &FtpRequest<'_>,
) -> Result<FtpResponse, UpstreamError> {
    let malformed =
        |why: &'static str| UpstreamError::new(Reason::HttpRequestError, why.to_owned());
    let path = ftp_path::decode(request.path).map_err(malformed)?;
    let mut control = connect(connection).await.map_err(|error| ftp_error(&error))?;
    // A path is relative to the directory after the login (RFC 1738 section 3.2.2).
    let name = format!(".{path}");
    let (user, password) = match &request.credentials {
        None => ANONYMOUS,
        Some((user, password)) => (&**user, &**password),
    };
    if let Err(FtpRefusal(_)) = split_refusal(control.login(user, password).await)? {
        return Ok(FtpResponse::short("403 Login refused", ""));
    }
    // The default, ASCII, changes line ends (RFC 959 section 3.1.1.1).
    control.transfer_type(FileType::Binary).await.map_err(|error| ftp_error(&error))?;
    if name.ends_with('/') {
        fetch_directory(&mut control, &name, request).await
    } else {
        fetch_file(control, &name, request).await
    }
}

async fn connect(connection: FtpConnection) -> FtpResult<AsyncFtpStream> {
    let FtpConnection { tcp, data_route } = connection;
    let peer = tcp.peer_addr().map_err(FtpError::ConnectionError)?;
    let mut control = AsyncFtpStream::connect_with_stream(tcp).await?;
    control.set_encoding(Latin1).await;
    // Over IPv6 only EPSV works (RFC 2428).
    control.set_mode(if peer.is_ipv4() { Mode::Passive } else { Mode::ExtendedPassive });
    // The address in the server's reply is ignored: it could be any host (FTP bounce).
    control.set_passive_nat_workaround(true);
    Ok(control.passive_stream_builder(move |address| {
        let route = data_route.clone();
        Box::pin(async move { route.dial(address).await.map_err(FtpError::ConnectionError) })
    }))
}

async fn fetch_file(
    mut control: AsyncFtpStream,
    name: &str,
    request: &FtpRequest<'_>,
) -> Result<FtpResponse, UpstreamError> {
    let size = split_refusal(control.size(name).await)?;
    // SIZE fails for a directory, where CWD succeeds. HTTP redirects such a path to the one with a slash.
    if matches!(size, Err(FtpRefusal(550))) && split_refusal(control.cwd(name).await)?.is_ok() {
        let location = format!("Location: {}/\r\n", request.path);
        return Ok(FtpResponse::short("301 Moved Permanently", &location));
    }
    let mut facts = FileFacts {
        size: size.ok().map(|size| size as u64),
        modified_at: modified_at(&mut control, name).await?,
        span: None,
    };
    // Without a size, only a transfer shows whether the file exists.
    if request.is_head && facts.size.is_some() {
        return Ok(FtpResponse::File { facts, content: None });
    }
    if let Some((range, size)) = request.range.zip(facts.size) {
        let Some(span) = range.resolve(size) else {
            // RFC 9110 section 14.4: the field has the length, so that the client can choose another range.
            let field = format!("Content-Range: bytes */{size}\r\n");
            return Ok(FtpResponse::short("416 Range Not Satisfiable", &field));
        };
        facts.span = Some(span);
        let first = usize::try_from(span.first).unwrap_or(usize::MAX);
        control.resume_transfer(first).await.map_err(|error| ftp_error(&error))?;
    }
    let mut opened = split_refusal(control.retr_as_stream(name).await)?;
    if matches!(opened, Err(FtpRefusal(500..=504))) && facts.span.take().is_some() {
        // The server does not support REST: the whole file is sent instead.
        opened = split_refusal(control.retr_as_stream(name).await)?;
    }
    match opened {
        Ok(data) => {
            let content = (!request.is_head).then_some(FileTransfer { data, control });
            Ok(FtpResponse::File { facts, content })
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// Returns when a file was modified, if the server reports it.
async fn modified_at(
    control: &mut AsyncFtpStream,
    name: &str,
) -> Result<Option<SystemTime>, UpstreamError> {
    let reply = control.mdtm(name).await;
    // Old servers write the year 2000 as 19100. A time that cannot be parsed is treated as missing.
    if matches!(reply, Err(FtpError::BadResponse)) {
        return Ok(None);
    }
    let modified_at = split_refusal(reply)?.ok();
    let seconds = modified_at.and_then(|at| u64::try_from(at.and_utc().timestamp()).ok());
    Ok(seconds.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)))
}

async fn fetch_directory(
    control: &mut AsyncFtpStream,
    name: &str,
    request: &FtpRequest<'_>,
) -> Result<FtpResponse, UpstreamError> {
    // The argument of LIST may be a pattern, that of CWD is a name.
    if let Err(refusal) = split_refusal(control.cwd(name).await)? {
        return refusal.into_response();
    }
    let permit = request.pool.admit_input(request.holder).await;
    let (listing, format) = match read_listing(control, "MLSD").await? {
        Ok(listing) => (listing, ListingFormat::Mlsd),
        // 500 to 504: MLSD is not implemented (RFC 959 section 4.2).
        Err(FtpRefusal(500..=504)) => match read_listing(control, "LIST").await? {
            Ok(listing) => (listing, ListingFormat::List),
            Err(refusal) => return refusal.into_response(),
        },
        Err(refusal) => return refusal.into_response(),
    };
    let time_to_parse = Listing::time_to_parse(listing.len());
    let path = request.path.to_owned();
    let prefers_text = request.prefers_text;
    let to_body = move || {
        let listing = Listing::parse(&listing, format);
        if prefers_text { listing.to_text() } else { listing.to_html(&path) }
    };
    let body = request.pool.run(request.holder, time_to_parse, to_body).await;
    let media_type = if prefers_text { "text/plain" } else { "text/html" };
    let fields = format!("Content-Type: {media_type}; charset=utf-8\r\n");
    Ok(FtpResponse::Text { status: "200 OK", fields, body, permit: Some(permit) })
}

async fn read_listing(
    control: &mut AsyncFtpStream,
    command: &str,
) -> Result<Result<Vec<u8>, FtpRefusal>, UpstreamError> {
    let expected = [Status::AboutToSend, Status::AlreadyOpen];
    let opened = control.custom_data_command(command, &expected).await;
    let mut transfer = match split_refusal(opened)? {
        Ok((_, transfer)) => transfer,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let mut listing = Vec::new();
    // One byte past the limit shows that the listing is too long.
    (&mut transfer)
        .take(MAX_LISTING_BYTES + 1)
        .read_to_end(&mut listing)
        .await
        .map_err(|error| ftp_error(&FtpError::ConnectionError(error)))?;
    if listing.len() as u64 > MAX_LISTING_BYTES {
        let details = "the directory's listing is longer than 1 MiB".to_owned();
        return Err(UpstreamError::new(Reason::HttpProtocolError, details));
    }
    transfer.finish().await.map_err(|error| ftp_error(&error))?;
    Ok(Ok(listing))
}

impl FtpRefusal {
    fn into_response(self) -> Result<FtpResponse, UpstreamError> {
        match self.0 {
            // RFC 959 section 4.2: not logged in, or an account is needed.
            530 | 532 => Ok(FtpResponse::short("403 Login refused", "")),
            550 | 551 | 553 => Ok(FtpResponse::short("404 Not Found", "")),
            code => {
                let details = format!("the FTP server answered {code}");
                Err(UpstreamError::new(Reason::HttpProtocolError, details))
            }
        }
    }
}

/// Separates a permanent negative reply (5yz) from failures that may not occur again.
fn split_refusal<T>(result: FtpResult<T>) -> Result<Result<T, FtpRefusal>, UpstreamError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(FtpError::UnexpectedResponse(reply)) if (500..=599).contains(&reply.status.code()) => {
            Ok(Err(FtpRefusal(reply.status.code())))
        }
        Err(error) => Err(ftp_error(&error)),
    }
}

fn ftp_error(error: &FtpError) -> UpstreamError {
    let (reason, details) = match error {
        FtpError::UnexpectedResponse(reply) => {
            let text = String::from_utf8_lossy(&reply.body);
            let quoted: String =
                text.chars().filter(|c| !c.is_control()).take(MAX_QUOTED_CHARS).collect();
            let details = format!("the FTP server answered {quoted}");
            (Reason::ConnectionTerminated, details)
        }
        FtpError::ConnectionError(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let details = "the FTP server's data connection was refused".to_owned();
            (Reason::ConnectionRefused, details)
        }
        FtpError::ConnectionError(error) if error.kind() == io::ErrorKind::InvalidData => {
            let details = "the FTP server's reply is too long".to_owned();
            (Reason::HttpResponseHeaderSectionSize, details)
        }
        FtpError::ConnectionError(_) => {
            let details = "the FTP server closed the connection".to_owned();
            (Reason::ConnectionTerminated, details)
        }
        _ => {
            let details = "the FTP server's reply cannot be read".to_owned();
            (Reason::HttpProtocolError, details)
        }
    };
    UpstreamError::new(reason, details)
}

/// File names as their bytes: a character up to U+00FF for each.
struct Latin1;

impl Encoding for Latin1 {
    fn decode(&self, bytes: &[u8]) -> String {
        bytes.iter().copied().map(char::from).collect()
    }

    fn encode(&self, text: &str) -> io::Result<Vec<u8>> {
        text.chars()
            .map(|c| u8::try_from(u32::from(c)))
            .collect::<Result<Vec<u8>, _>>()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }
}

impl fmt::Debug for Latin1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Latin1")
    }
}
