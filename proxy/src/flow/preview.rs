//! What would be decided about a request that nobody made.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use serde::Deserialize;
use wayleave_policy::Scheme;

use super::exchange::{Connection, Exchange, Identity, Outcome};
use super::identify::{self, Identified};
use super::request::Request;
use super::resolve::{self, Resolved, Scope};
use super::settings::Settings;
use super::way::{Flow, passed};
use super::{connect, record};
use crate::crawlers::Crawlers;
use crate::decisions::{Decision, DecisionId};
use crate::https::{Mode, Way};
use crate::traces::Parent;

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
        let mut identified = identify_as_asked(crawlers, question, &connection, &request)?;
        let resolved = resolve::resolve(&connection, &request);
        let resolved = resolved.map_err(|refusal| refusal.details.into_owned())?;
        let url = resolved.target.to_string();
        let resolved = as_it_would_come(&settings, &mut identified, resolved)?;
        let (facts, judged) = self
            .decide(&settings, &mut identified, request.method, resolved)
            .await;
        let outcome = match judged {
            Ok(passage) => passed(&passage, 200),
            Err(refusal) => Outcome::Refuse(refusal),
        };
        let exchange = Exchange {
            id: DecisionId::new(),
            started: Instant::now(),
            started_at: self.robots.clock().now(),
            client: connection.client,
            method: request.method.to_owned(),
            url,
            identity: Some(identified.identity),
            configuration: settings.configuration,
            parent: Parent::default(),
            facts,
            outcome,
        };
        Ok(record::decision(exchange, Duration::ZERO).0)
    }
}

/// HTTPS comes by `CONNECT`: what then stands against it, and how much of it would be seen.
fn as_it_would_come(
    settings: &Settings,
    identified: &mut Identified,
    resolved: Resolved,
) -> Result<Resolved, String> {
    let origin = resolved.target.origin();
    if origin.scheme() == Scheme::Http {
        return Ok(resolved);
    }
    let scope = match settings.https.way(origin.host()) {
        Way::Mode(Mode::Intercept) => return Ok(resolved),
        Way::Mode(Mode::Refuse) => {
            identified
                .objection
                .get_or_insert_with(connect::https_refused);
            return Ok(resolved);
        }
        Way::Mode(Mode::Tunnel) => Scope::EveryPath,
        Way::Bypass => Scope::Bypass,
    };
    let unseen = Resolved::unseen(origin.clone(), scope);
    unseen.map_err(|refusal| refusal.details.into_owned())
}

fn identify_as_asked(
    crawlers: &Crawlers,
    question: &Question,
    connection: &Connection,
    request: &Request<'_>,
) -> Result<Identified, String> {
    let Some(name) = &question.crawler else {
        let identity = identify::recognise(crawlers, connection, None, request);
        let objection = identify::object(crawlers, &identity, request);
        return Ok(Identified {
            identity,
            username: None,
            objection,
        });
    };
    let crawler = crawlers.named(name);
    let crawler = crawler.ok_or_else(|| format!("no crawler is named {name:?}"))?;
    Ok(Identified {
        identity: Identity::Known(crawler),
        username: None,
        objection: None,
    })
}
