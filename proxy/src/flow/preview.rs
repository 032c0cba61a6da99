//! What would be decided about a request that nobody made.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use serde::Deserialize;
use wayleave_policy::Target;

use super::exchange::{Connection, Exchange, Identity, Outcome};
use super::request::Request;
use super::way::Flow;
use super::{identify, record};
use crate::decisions::{Decision, DecisionId};

/// A request to think about.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    url: String,
    #[serde(default)]
    user_agent: String,
    /// A configured crawler's name; without it, whoever `client` and `user_agent` lead to.
    crawler: Option<String>,
    client: Option<IpAddr>,
    method: Option<String>,
}

impl Flow {
    /// Decides as for a request, by the same steps, but forwards and counts nothing.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the question.
    pub(crate) async fn preview(&self, question: &Question) -> Result<Decision, String> {
        let connection = Connection {
            client: question.client.unwrap_or(Ipv4Addr::LOCALHOST.into()),
            tunnel: None,
        };
        let request = Request {
            method: question.method.as_deref().unwrap_or("GET"),
            target: &question.url,
            scheme: None,
            authority: None,
            user_agent: question.user_agent.as_bytes(),
            is_loop: false,
        };
        let identity = match &question.crawler {
            None => identify::identify(&self.crawlers, self.options.dialect, &connection, request),
            Some(name) => {
                let crawler = self.crawlers.named(name);
                Identity::Known(crawler.ok_or_else(|| format!("no crawler is named {name:?}"))?)
            }
        };
        let target = Target::parse(&question.url).map_err(|error| format!("url: {error}"))?;
        let (facts, judged) = self.decide(&identity, &target).await;
        let outcome = match judged {
            Ok(reason) => Outcome::Forward {
                status: 200,
                reason,
            },
            Err(refusal) => Outcome::Refuse(refusal),
        };
        let exchange = Exchange {
            id: DecisionId::new(),
            started: Instant::now(),
            started_at: self.robots.clock().now(),
            client: connection.client,
            method: request.method.to_owned(),
            url: target.to_string(),
            identity: Some(identity),
            facts,
            outcome,
        };
        Ok(record::decision(exchange, Duration::ZERO))
    }
}
