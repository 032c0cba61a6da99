//! Who is asking? The client and its `User-Agent` to a crawler.

use wayleave_policy::{Dialect, ProductToken};

use super::exchange::{Connection, Identity};
use super::request::Request;
use crate::crawlers::Crawlers;

/// The configured crawler behind a request, or else the name that the request gives itself.
pub(super) fn identify(
    crawlers: &Crawlers,
    dialect: Dialect,
    connection: &Connection,
    request: &Request<'_>,
) -> Identity {
    if let Some(crawler) = crawlers.find(connection.client, request.user_agent) {
        return Identity::Known(crawler.clone());
    }
    let tokens = ProductToken::from_user_agent(request.user_agent)
        .into_iter()
        .collect();
    Identity::Asserted { tokens, dialect }
}
