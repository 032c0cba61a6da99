//! What would be decided about a request that nobody made.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::exchange::{Connection, Exchange, Identity, Outcome};
use super::request::Request;
use super::way::{Flow, passed};
use super::{identify, record, resolve};
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
            username: None,
            tunnel: None,
        };
        let request = Request {
            method: question.method.as_deref().unwrap_or("GET"),
            target: question.url.as_str().into(),
            scheme: None,
            authority: None,
            user_agent: question.user_agent.as_bytes(),
            credentials: None,
            is_loop: false,
        };
        let settings = self.settings();
        let crawlers = &settings.crawlers;
        let (identity, objection) = match &question.crawler {
            None => {
                let identity = identify::recognise(crawlers, &connection, None, &request);
                let objection = identify::object(crawlers, &identity, &request);
                (identity, objection)
            }
            Some(name) => {
                let crawler = crawlers.named(name);
                let crawler = crawler.ok_or_else(|| format!("no crawler is named {name:?}"))?;
                (Identity::Known(crawler), None)
            }
        };
        let resolved = resolve::resolve(&connection, &request);
        let resolved = resolved.map_err(|refusal| refusal.details.into_owned())?;
        let url = resolved.target.to_string();
        let (facts, judged) = self.decide(&identity, objection, resolved).await;
        let outcome = match judged {
            Ok(passage) => passed(passage, 200),
            Err(refusal) => Outcome::Refuse(refusal),
        };
        let exchange = Exchange {
            id: DecisionId::new(),
            started: Instant::now(),
            started_at: self.robots.clock().now(),
            client: connection.client,
            method: request.method.to_owned(),
            url,
            identity: Some(identity),
            configuration: settings.configuration,
            facts,
            outcome,
        };
        Ok(record::decision(exchange, Duration::ZERO).0)
    }
}
