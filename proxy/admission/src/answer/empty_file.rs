//! An empty file in place of one that a page loads and that is refused, so that the page still renders:
//! `refused_subresources = "empty"`.

use wayleave_decision::{Refusal, RefusedSubresources, SubresourceKind};
use wayleave_http_wire::field_pairs::single;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_transport::http::downstream::{ResponseField, response_field};

use crate::record::NamedDecision;

/// A transparent GIF of one pixel: browsers show an image without content as broken.
const PIXEL: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

/// An empty file of the kind that was requested.
pub(super) struct EmptyFile {
    pub(super) fields: Vec<ResponseField<'static>>,
    pub(super) body: &'static [u8],
}

impl EmptyFile {
    /// Returns the file in place of a refusal, if the crawler of the request wants that, and a page loads it. Only refusals that
    /// last: a file that is only late is an error to the page as well, so that somebody tries again.
    pub(super) fn of(
        decision: &NamedDecision,
        refusal: &Refusal,
        received: &ReceivedHead,
    ) -> Option<Self> {
        let crawler = decision.identity.as_ref()?.crawler()?;
        let lasts = refusal.is_policy && matches!(refusal.status, 403 | 451);
        if crawler.refused_subresources != RefusedSubresources::Empty || !lasts {
            return None;
        }
        // What else a page does, such as to send a form, expects an answer.
        if !matches!(received.method(), "GET" | "HEAD") {
            return None;
        }
        let fields = received.fields();
        let kind = SubresourceKind::of_destination(single(&fields, "sec-fetch-dest")?)?;
        let (content_type, body) = content(kind);
        let mut answer = vec![
            response_field("Content-Type", content_type),
            response_field("Content-Length", body.len().to_string()),
            response_field("X-Content-Type-Options", "nosniff"),
            // Pages that isolate themselves load nothing of other origins without this.
            response_field("Cross-Origin-Resource-Policy", "cross-origin"),
        ];
        // Scripts with `crossorigin`, and all fonts, are errors unless their origin lets the page read them. There is nothing to read.
        if let Some(origin) = single(&fields, "origin") {
            let origin = String::from_utf8_lossy(origin).into_owned();
            answer.push(response_field("Access-Control-Allow-Origin", origin));
            answer.push(response_field("Access-Control-Allow-Credentials", "true"));
        }
        Some(Self { fields: answer, body })
    }
}

/// Returns the type and the content of an empty file.
fn content(kind: SubresourceKind) -> (&'static str, &'static [u8]) {
    match kind {
        SubresourceKind::Script => ("text/javascript", b""),
        SubresourceKind::Style => ("text/css", b""),
        SubresourceKind::Image => ("image/gif", PIXEL),
        SubresourceKind::Font => ("font/woff2", b""),
        SubresourceKind::Media => ("video/mp4", b""),
        SubresourceKind::Track => ("text/vtt", b"WEBVTT\n"),
    }
}
