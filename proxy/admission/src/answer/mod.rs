//! The answer to a request that is refused: its status, Proxy-Status, problem details and Retry-After, whoever sends it.

mod empty_file;
mod problem;
mod refusal_page;

use wayleave_clock::system_time;
use wayleave_decision::Refusal;
use wayleave_http_wire::accept::prefers_html;
use wayleave_http_wire::proxy_status;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_pacing::ClientLimit;
use wayleave_transport::http::downstream::{ResponseField, response_field};

use self::empty_file::EmptyFile;
use self::problem::{ProblemDetails, whole_seconds};
use crate::record::{NamedDecision, decision_field};
use crate::settings::ConnectionSettings;

/// The source of an answer: the proxy's name and the decision, as the answer states them.
#[derive(Clone, Copy, Debug)]
pub struct AnswerSource<'a> {
    /// The proxy's pseudonym.
    pub name: &'a str,
    pub decision: &'a NamedDecision,
    /// Whether the head names the decision, too.
    pub in_head: bool,
    /// The pace that a refusal reports to the client.
    pub limit: Option<ClientLimit>,
}

impl<'a> AnswerSource<'a> {
    /// Returns the source by these settings.
    pub fn new(options: &'a ConnectionSettings, decision: &'a NamedDecision) -> Self {
        Self { name: &options.name, decision, in_head: options.decision_id, limit: None }
    }

    /// Sets the pace that a refusal reports to the client.
    pub fn with_limit(self, limit: Option<ClientLimit>) -> Self {
        Self { limit, ..self }
    }

    /// Returns the field that names the decision, if the settings ask for it.
    pub fn field(self) -> Option<ResponseField<'static>> {
        decision_field(self.in_head, self.decision.id)
    }
}

/// The answer to a refused or failed request.
#[derive(Debug)]
pub struct RefusalAnswer<'a> {
    /// That of the refusal, or 200 in place of a file that a page loads.
    pub status: u16,
    pub title: &'static str,
    pub fields: Vec<ResponseField<'a>>,
    /// Problem details, a page for a client that prefers one, or an empty file.
    pub body: Vec<u8>,
}

impl<'a> RefusalAnswer<'a> {
    /// Returns the answer for the client that sent the request: an empty file, if its crawler wants that of what a page loads.
    pub fn for_client(
        source: AnswerSource<'a>,
        refusal: &Refusal,
        received: Option<&ReceivedHead>,
    ) -> Self {
        let file = received.and_then(|received| EmptyFile::of(source.decision, refusal, received));
        let Some(file) = file else {
            return Self::new(source, refusal, received);
        };
        let mut fields = origin_fields(source.name);
        fields.extend(file.fields);
        fields.extend(refusal_fields(source, refusal));
        Self { status: 200, title: "OK", fields, body: file.body.to_vec() }
    }

    /// Returns the answer to `received`, if as much of the request could be read.
    pub fn new(
        source: AnswerSource<'a>,
        refusal: &Refusal,
        received: Option<&ReceivedHead>,
    ) -> Self {
        let problem = ProblemDetails::new(source.decision, refusal);
        let is_page = received.is_some_and(|received| prefers_html(&received.values("accept")));
        let body =
            if is_page { refusal_page::html(source.name, &problem) } else { problem.to_json() };
        let mut fields = origin_fields(source.name);
        fields.extend(content_fields(is_page, body.len()));
        fields.extend(refusal_fields(source, refusal));
        Self { status: refusal.status, title: refusal.title, fields, body }
    }
}

/// Returns the fields of whoever makes a response.
fn origin_fields(name: &str) -> Vec<ResponseField<'_>> {
    vec![
        response_field("Date", httpdate::fmt_http_date(system_time())),
        response_field("Server", name),
    ]
}

/// Returns the fields that say why.
fn refusal_fields<'a>(source: AnswerSource<'a>, refusal: &Refusal) -> Vec<ResponseField<'a>> {
    let name = source.name;
    let status = proxy_status::field_value(
        name,
        refusal.proxy_error,
        refusal.parent_proxy(),
        &refusal.details,
    );
    let mut fields = vec![
        // The answer applies to one crawler, and a reload may change it.
        response_field("Cache-Control", "no-store"),
        response_field("Proxy-Status", status),
    ];
    // RFC 7725 section 4.
    if let Some(blocked_by) = &refusal.blocked_by {
        fields.push(response_field("Link", format!("<{blocked_by}>; rel=\"blocked-by\"")));
    }
    // A 407 must say how to authenticate (RFC 9110 section 15.5.8).
    if refusal.status == 407 {
        let challenge = format!("Basic realm=\"{name}\", charset=\"UTF-8\"");
        fields.push(response_field("Proxy-Authenticate", challenge));
    }
    fields.extend(source.field());
    if let Some(retry_after) = refusal.retry_after {
        fields.push(response_field("Retry-After", whole_seconds(retry_after).to_string()));
    }
    if let Some(limit) = source.limit {
        let policy = limit.policy(name).map(|policy| response_field("RateLimit-Policy", policy));
        fields.extend(policy);
        fields.push(response_field("RateLimit", limit.limit(name)));
    }
    fields
}

/// Returns the fields about the body.
fn content_fields(is_page: bool, length: usize) -> Vec<ResponseField<'static>> {
    let form = if is_page { "text/html; charset=utf-8" } else { "application/problem+json" };
    let mut fields = vec![
        response_field("Content-Type", form),
        response_field("Content-Length", length.to_string()),
    ];
    if is_page {
        // To a browser the page is the origin's, and much of its text is from strangers.
        let policy = refusal_page::CONTENT_SECURITY_POLICY;
        fields.push(response_field("Content-Security-Policy", policy));
        fields.push(response_field("X-Content-Type-Options", "nosniff"));
    }
    fields
}
