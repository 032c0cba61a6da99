//! Subresources of pages, for crawlers with `subresources = "page"`: which page causes a request, and which responses may pass.

use wayleave_decision::{
    Permit, Reason, Refusal, ResolvedTarget, Subresource, SubresourceKind, SubresourcePolicy,
    is_page_type,
};
use wayleave_fairness::Holder;
use wayleave_fairness::registrable_domain;
use wayleave_http_wire::field_pairs::{first, single};
use wayleave_http_wire::http1::has_content;
use wayleave_http_wire::received::ReceivedHead;
use wayleave_robots_txt::{Origin, Target, excerpt};
use wayleave_upstream::UpstreamHead;

use crate::identify::IdentifiedClient;

use super::allowed_pages::{PageContext, PageHolder, PageLoad};
use super::gated_request::GatedRequest;
use super::response_policy::{NOT_MODIFIED, is_judged};

/// The part of a response that its client gets.
#[derive(Debug)]
pub(crate) enum PassedContent {
    /// All of it, or there is none.
    Whole,
    /// All of it, unless it begins as a document does.
    UnlessDocument,
    /// None of it: the message of a redirect is for people.
    None,
}

impl GatedRequest<'_, '_> {
    /// Finds the page that causes the request. Once for each crawler, because a request may wait for its slot for longer than a
    /// page counts.
    pub(crate) fn find_page(&mut self, identified: &IdentifiedClient, target: &Target) {
        let crawler = identified.identity().crawler();
        let crawler = crawler.filter(|crawler| crawler.subresources == SubresourcePolicy::Page);
        // The response shows whether it is one, and not every gateway shows it.
        let gateway = self.connection.gateway.as_deref().cloned();
        let is_seen =
            self.blind.is_none() && gateway.as_ref().is_none_or(|gateway| gateway.shows_responses);
        let Some(crawler) = crawler.filter(|_| is_seen) else {
            self.page_context = None;
            return;
        };
        let holder = PageHolder {
            crawler: crawler.name.clone(),
            client: Holder::of_client(self.connection.client),
            username: identified.proof.as_ref().map(|proof| proof.username.clone()),
            gateway,
        };
        if self.page_context.as_ref().is_some_and(|context| context.holder == holder) {
            return;
        }
        let load = claimed_load(self.received).and_then(|(kind, referrer)| {
            let pages = &self.gate.allowed_pages;
            let cause = pages.find(&holder, &referrer, self.record.started_at)?;
            let page = Target::parse(&cause.page.url).ok()?;
            // By Fetch, the page is the initiator; for files that a style sheet or a script loads, `Referer` names that.
            let is_true = [page.origin(), referrer.origin()]
                .iter()
                .any(|initiator| agrees_with_site(self.received, initiator, target.origin()));
            let subresource = Subresource { kind, page: cause.page.url.clone() };
            is_true.then_some(PageLoad { subresource, cause })
        });
        self.record.page_decision = load.as_ref().map(|load| load.cause.page.decision);
        self.page_context = Some(Box::new(PageContext { holder, load }));
    }

    /// Returns the subresource that the request is for, if a page causes it.
    pub fn subresource(&self) -> Option<&Subresource> {
        Some(&self.page_context.as_ref()?.load.as_ref()?.subresource)
    }

    /// Remembers a page, a style sheet or a script that the client is about to get, as the cause of further requests. Returns
    /// whether it is a page, which their records name by this request's decision.
    pub(crate) fn remember_page(&self, permit: &Permit, head: &UpstreamHead) -> bool {
        let Some(context) = &self.page_context else {
            return false;
        };
        // One that is only observed was not allowed.
        if permit.observed.is_some() || self.received.method() != "GET" {
            return false;
        }
        let pages = &self.gate.allowed_pages;
        let status = head.status();
        let fields = head.fields();
        let content_type = single(&fields, "content-type").unwrap_or_default();
        let target = &permit.resolved.target;
        let now = self.gate.decider.robots.clock().now();
        if let Some(PageLoad { subresource: Subresource { kind, .. }, cause }) = &context.load {
            let is_one = is_judged(status) && kind.is_type(content_type);
            if kind.loads_others() && (is_one || status == NOT_MODIFIED) {
                pages.add_loader(&context.holder, target, cause, now);
            }
            return false;
        }
        let is_navigation = || is_field(self.received, "sec-fetch-dest", b"document");
        let is_page = is_judged(status) && is_page_type(content_type)
            || status == NOT_MODIFIED && is_navigation();
        if is_page {
            pages.add_page(&context.holder, target, self.record.id, now);
        }
        is_page
    }
}

fn is_field(received: &ReceivedHead, name: &'static str, value: &[u8]) -> bool {
    received.field(name) == Some(value)
}

/// Returns whether a request that `initiator` causes may have this `Sec-Fetch-Site` (Fetch Metadata section 2.3). Redirects
/// through other sites make it more distant than the target is, never closer.
fn agrees_with_site(received: &ReceivedHead, initiator: &Origin, target: &Origin) -> bool {
    let is_same_site = || {
        initiator.scheme() == target.scheme()
            && registrable_domain(initiator.host()) == registrable_domain(target.host())
    };
    match received.field("sec-fetch-site") {
        Some(b"same-origin") => initiator == target,
        Some(b"same-site") => is_same_site(),
        _ => true,
    }
}

/// Returns the kind of subresource that a request says it is for, and its referrer. Nothing says so but the client.
fn claimed_load(received: &ReceivedHead) -> Option<(SubresourceKind, Target)> {
    if received.method() != "GET" || !received.is_plain_read() {
        return None;
    }
    let fields = received.fields();
    let kind = SubresourceKind::of_destination(single(&fields, "sec-fetch-dest")?)?;
    // Not all clients send the other two fields. Those that do must send the values of a browser that loads a page.
    let is_as_of_page = |name: &'static str, values: &[&[u8]]| {
        received.field(name).is_none()
            || single(&fields, name).is_some_and(|value| values.contains(&value))
    };
    let is_caused = is_as_of_page("sec-fetch-mode", &[b"no-cors", b"cors", b"same-origin"])
        && is_as_of_page("sec-fetch-site", &[b"same-origin", b"same-site", b"cross-site"]);
    let referrer = str::from_utf8(single(&fields, "referer")?).ok()?;
    Target::parse(referrer).ok().filter(|_| is_caused).map(|referrer| (kind, referrer))
}

/// Returns the part that a client gets of a response to a request that passed robots.txt as a subresource of `kind`.
///
/// # Errors
///
/// Returns the refusal if it gets nothing.
pub(crate) fn passed_content(
    kind: SubresourceKind,
    resolved: &ResolvedTarget,
    head: &UpstreamHead,
) -> Result<PassedContent, Box<Refusal>> {
    let fields = head.fields();
    if !has_content(head.status(), "GET") || head.content_length() == Some(0) {
        return Ok(PassedContent::Whole);
    }
    if matches!(head.status(), 300..=399) {
        return Ok(PassedContent::None);
    }
    let content_type = single(&fields, "content-type");
    if content_type.is_some_and(|content_type| kind.is_type(content_type)) {
        // Only players ask for parts. A part from the middle does not show whether it is of a page.
        let begins = || single(&fields, "content-range").is_some_and(begins_at_zero);
        if head.status() == 206 && kind != SubresourceKind::Media && !begins() {
            let found = "(status 206) is a part of something, from its middle";
            return Err(Box::new(refusal(kind, resolved, found)));
        }
        return Ok(PassedContent::UnlessDocument);
    }
    let found = match (content_type, first(&fields, "content-type")) {
        (Some(one), _) => excerpt(&String::from_utf8_lossy(one)).into_owned(),
        (None, Some(_)) => "of several types".to_owned(),
        (None, None) => "of no stated type".to_owned(),
    };
    let found = format!("(status {}) is {found}", head.status());
    Err(Box::new(refusal(kind, resolved, &found)))
}

/// Returns whether a `Content-Range` is of the beginning (RFC 9110 section 14.4).
fn begins_at_zero(content_range: &[u8]) -> bool {
    content_range.trim_ascii().to_ascii_lowercase().starts_with(b"bytes 0-")
}

/// Returns the refusal of a response that begins as a document does, as far as it can be read.
pub(crate) fn document_refusal(kind: SubresourceKind, resolved: &ResolvedTarget) -> Refusal {
    refusal(kind, resolved, "begins as a page, a document or data does, or cannot be decoded")
}

fn refusal(kind: SubresourceKind, resolved: &ResolvedTarget, found: &str) -> Refusal {
    let robots_url = resolved.target.origin().robots_txt_uri();
    let details = format!(
        "{robots_url} disallows it, and it is not the {} that a page may load: the response {found}",
        kind.as_str()
    );
    Refusal {
        is_policy: true,
        robots_url: Some(robots_url.into()),
        ..Refusal::new(Reason::SubresourceType, details)
    }
}
