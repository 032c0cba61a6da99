//! On whose behalf robots.txt, and what stands beside it, is fetched.

use std::net::IpAddr;
use std::sync::Arc;

use super::settings::Settings;
use crate::identity::Crawler;
use crate::robots::{Behalf, ChosenBy};
use crate::signing::SignedBy;

/// Who signs what is fetched for a crawler, if it is signed.
pub(super) fn signed_by(settings: &Settings, crawler: Option<&Crawler>) -> Option<SignedBy> {
    let key = crawler.and_then(|crawler| crawler.signing_key.as_ref());
    key.filter(|_| settings.signer.signs()).map(|key| SignedBy {
        signer: Arc::clone(&settings.signer),
        key: Arc::clone(key),
    })
}

/// On whose behalf something is fetched that stands beside what is asked for: a name, and the crawler if it is a known one.
pub(super) fn behalf<'a>(
    (label, crawler): (&'a str, Option<&'a Crawler>),
    client: IpAddr,
    signed_by: Option<&'a SignedBy>,
) -> Behalf<'a> {
    Behalf {
        signed_by,
        source: crawler.and_then(|crawler| crawler.source_address),
        crawler: label,
        client: Some(client),
        user_agent: crawler.and_then(|crawler| crawler.robots_user_agent.as_ref()),
        chosen: ChosenBy::Crawler,
    }
}
