//! A request, or a response, that is refused.

use std::error::Error;
use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use wayleave_admission::asked::AskedVerdict;

/// The proxy's own answer to a request that must not be sent, or in place of a response that must not be used: problem details
/// (RFC 9457), with the reason in `Proxy-Status` (RFC 9209).
#[derive(Clone, Debug)]
pub struct Refused {
    title: &'static str,
    response: Response<Bytes>,
}

impl Refused {
    pub(crate) fn new(verdict: AskedVerdict) -> Self {
        let mut response = Response::new(Bytes::from(verdict.body));
        *response.status_mut() =
            StatusCode::from_u16(verdict.status).unwrap_or(StatusCode::FORBIDDEN);
        *response.headers_mut() = header_map(verdict.fields);
        Self { title: verdict.title, response }
    }

    /// Refuses a request about which no decision could be made.
    pub(crate) fn after_panic() -> Self {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        Self { title: "The decision failed", response }
    }

    /// Returns the answer, as a client of the proxy gets it.
    pub fn response(&self) -> &Response<Bytes> {
        &self.response
    }

    /// Returns the answer, as a client of the proxy gets it.
    pub fn into_response(self) -> Response<Bytes> {
        self.response
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.title, self.response.status().as_u16())
    }
}

impl Error for Refused {}

/// Returns fields of ours, each of which is valid.
pub(crate) fn header_map<N: AsRef<[u8]>, V: AsRef<[u8]>>(
    fields: impl IntoIterator<Item = (N, V)>,
) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_ref());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value.as_ref())) {
            map.append(name, value);
        }
    }
    map
}
