//! Helpers for the hooks of `pingora_proxy::ProxyHttp`.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Method, header};
use pingora_core::protocols::http::server::Session;
use pingora_error::{Error, ErrorType, Result};
use pingora_http::ResponseHeader;
use wayleave_admission::SeenBody;
use wayleave_admission::record::is_own_field;

use crate::admitted::{Admitted, names};
use crate::body::{ContentLimit, TOO_LONG};
use crate::gate::{Client, Gate};
use crate::head;
use crate::refused::Refused;

/// The gate's view of one request: a part of a proxy's `CTX`, for the hooks of the same names.
///
/// pingora shows the head of a response before any of its content. So the preferences that a page states in itself are not seen
/// here, and `subresources = "page"` lets nothing pass whose content has to be looked at.
#[derive(Default)]
pub struct GateContext {
    admitted: Option<Admitted>,
    limit: Option<ContentLimit>,
}

impl GateContext {
    /// Decides about the request, and waits until it may be sent. Returns whether it was refused, and answered: the proxy's own
    /// `request_filter` then returns `true`, too.
    ///
    /// # Errors
    ///
    /// Returns an error if the client is gone.
    pub async fn request_filter(
        &mut self,
        gate: &Gate,
        client: &Client,
        session: &mut Session,
    ) -> Result<bool> {
        let received = head::of_pingora(session.req_header());
        match gate.admit_received(&client.0, received).await {
            Ok(admitted) => {
                self.admitted = Some(admitted);
                Ok(false)
            }
            Err(refused) => {
                answer(session, *refused).await?;
                Ok(true)
            }
        }
    }

    /// Notes that the request is sent only now, for `upstream_request_filter` of a proxy that may have waited for a connection.
    pub fn upstream_request_filter(&self) {
        if let Some(admitted) = &self.admitted {
            admitted.sent();
        }
    }

    /// Applies the response to the pace, judges it by its head, and adds the proxy's own fields. One that is withheld is answered
    /// here, and `fail_to_proxy` has nothing more to write.
    ///
    /// # Errors
    ///
    /// Returns an error if the response is withheld, or if no request was admitted.
    pub async fn response_filter(
        &mut self,
        session: &mut Session,
        response: &mut ResponseHeader,
    ) -> Result<()> {
        // An interim response decides nothing.
        if response.status.is_informational() {
            return Ok(());
        }
        let Some(admitted) = &self.admitted else {
            return Error::e_explain(
                ErrorType::InternalError,
                "request_filter has to be called first",
            );
        };
        admitted.answered(response.status, &response.headers);
        let mut unseen = UnseenBody;
        let judging = admitted.judge_head(response.status, &response.headers, &mut unseen);
        let passed = match judging.await {
            Ok(Ok(passed)) => passed,
            Ok(Err(refused)) => {
                let status = refused.response().status().as_u16();
                let details = refused.to_string();
                answer(session, *refused).await?;
                return Error::e_explain(ErrorType::HTTPStatus(status), details);
            }
            Err(unseen) => match unseen {},
        };
        let own_fields = admitted.own_fields(&passed);
        for name in names(&response.headers, is_own_field) {
            response.remove_header(&name);
        }
        for (name, value) in &own_fields {
            response.insert_header(name, value)?;
        }
        if let Some((max_bytes, admitted)) = passed.max_bytes.zip(self.admitted.take()) {
            self.limit = Some(admitted.limit(response.status, max_bytes));
        }
        Ok(())
    }

    /// Counts a part of the content.
    ///
    /// # Errors
    ///
    /// Returns an error if the content is longer than the crawler's `max_response_bytes`.
    pub fn response_body_filter(&mut self, body: Option<&Bytes>) -> Result<()> {
        let length = body.map_or(0, Bytes::len) as u64;
        if self.limit.as_mut().is_none_or(|limit| limit.lets_pass(length)) {
            return Ok(());
        }
        Error::e_explain(ErrorType::InternalError, TOO_LONG)
    }

    /// Ends the request. One that was admitted and got no response leaves a line in the program's own log, since the decision log
    /// says only that it was allowed.
    pub fn logging(&mut self, error: Option<&Error>) {
        if let (Some(admitted), Some(error)) = (self.admitted.take(), error) {
            tracing::debug!(id = admitted.id(), %error, "an admitted request failed");
        }
    }
}

/// The content of a response whose head has to be judged alone.
struct UnseenBody;

impl SeenBody for UnseenBody {
    type Error = Infallible;

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Infallible> {
        Ok(None)
    }
}

/// Returns the client of a session by its address.
pub fn client_of(session: &Session) -> Option<Client> {
    Some(Client::at(session.client_addr()?.as_inet()?.ip()))
}

/// Answers a request with its refusal. Whatever of its content is still to come is not read, so nothing may follow it.
async fn answer(session: &mut Session, refused: Refused) -> Result<()> {
    let (parts, content) = refused.into_response().into_parts();
    let mut head = ResponseHeader::build(parts.status, Some(parts.headers.len() + 1))?;
    for (name, value) in &parts.headers {
        head.append_header(name, value)?;
    }
    head.insert_header(header::CONTENT_LENGTH, content.len())?;
    session.set_keepalive(None);
    session.write_response_header(Box::new(head)).await?;
    let content = if session.req_header().method == Method::HEAD { Bytes::new() } else { content };
    session.write_response_body(content, true).await
}
