//! Decides about a hypothetical request, for the API's preview.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wayleave_policy::{Dialect, Scheme, Target};

use super::consult::{self, Judge};
use super::https_mode::{Mode, Way};
use super::identify::Identity;
use super::identify::{self, Identified};
use super::request::Connection;
use super::request::Request;
use super::resolve::{self, Resolved, Scope};
use super::settings::Settings;
use crate::flow::decide;
use crate::flow::exchange::outcome::{Exchange, Outcome};
use crate::flow::exchange::record;
use crate::flow::exchange::{Flow, passed};
use crate::identity::{Crawler, Crawlers};
use crate::observe::decisions::{Decision, DecisionId};
use crate::observe::traces::Parent;

/// A request to think about.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Question {
    /// The target, such as `https://example.com/a`.
    #[param(format = "uri")]
    url: String,
    /// The request's User-Agent; empty unless given.
    #[serde(default)]
    #[param(required = false)]
    user_agent: String,
    /// A configured crawler's name; without it, whoever `client` and `user_agent` lead to.
    #[param(format = "crawler")]
    crawler: Option<String>,
    /// Read robots.txt like this instead of as the crawler does.
    #[param(inline)]
    dialect: Option<DialectWord>,
    /// Where the request comes from; 127.0.0.1 unless given.
    #[param(value_type = Option<String>, format = "ip-address")]
    client: Option<IpAddr>,
    /// GET unless given.
    method: Option<String>,
}

/// A way of reading robots.txt.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DialectWord {
    Rfc9309,
    Google,
    Koster1996,
    Selfhtml,
    Strictest,
}

impl From<DialectWord> for Dialect {
    fn from(word: DialectWord) -> Self {
        match word {
            DialectWord::Rfc9309 => Self::Rfc9309,
            DialectWord::Google => Self::Google,
            DialectWord::Koster1996 => Self::Koster1996,
            DialectWord::Selfhtml => Self::Selfhtml,
            DialectWord::Strictest => Self::Strictest,
        }
    }
}

/// What would become of a request.
#[derive(Clone, Debug)]
pub(crate) struct Previewed {
    pub(crate) decision: Decision,
    /// What robots.txt says in each dialect; empty if it did not come in time.
    pub(crate) dialects: Vec<Reading>,
}

/// What an origin's robots.txt says of a request in one dialect.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Reading {
    dialect: &'static str,
    /// `allow` or `disallow`.
    verdict: &'static str,
    /// What the verdict rests on.
    basis: &'static str,
    /// The deciding rule's line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    /// The deciding rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// The names on the user-agent lines of the group used.
    group: Vec<String>,
    /// The lines of that group: its user-agent lines and rules.
    group_lines: Vec<u32>,
}

impl Flow {
    /// Decides as for a request, by the same steps, but forwards and counts nothing.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the question.
    pub(crate) async fn preview(&self, question: &Question) -> Result<Previewed, String> {
        let connection = Connection {
            client: question.client.unwrap_or(Ipv4Addr::LOCALHOST.into()),
            proof: None,
            tunnel: None,
        };
        let method = question.method.as_deref().unwrap_or("GET");
        let request = Request {
            method,
            target: question.url.as_str().into(),
            scheme: None,
            authority: None,
            user_agent: question.user_agent.as_bytes(),
            credentials: None,
            only_reads: matches!(method, "GET" | "HEAD"),
            is_loop: false,
        };
        let settings = self.settings();
        let crawlers = &settings.crawlers;
        let mut identified = identify_as_asked(crawlers, question, &connection, &request)?;
        if let Some(dialect) = question.dialect {
            identified.identity = in_dialect(identified.identity, dialect.into());
        }
        let resolved = resolve::resolve(&connection, &request);
        let resolved = resolved.map_err(|refusal| refusal.details.into_owned())?;
        let target = resolved.target.clone();
        let url = target.to_string();
        let judge = consult::judge_of(resolved.scope);
        let resolved = as_it_would_come(&settings, &mut identified, resolved)?;
        let (facts, judged) = self
            .decide(&settings, &mut identified, request.method, resolved)
            .await;
        let dialects = self.readings(&identified.identity, &target, judge).await;
        let outcome = match judged {
            Ok(permit) => passed(&permit, 200),
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
        let (decision, _) = record::decision(exchange, Duration::ZERO);
        Ok(Previewed { decision, dialects })
    }

    /// What the target's robots.txt says in every dialect.
    async fn readings(&self, identity: &Identity, target: &Target, judge: Judge) -> Vec<Reading> {
        let origin = target.origin();
        let Ok(known) = self.robots.find(origin).await else {
            return Vec::new();
        };
        let reading = |dialect: Dialect| {
            let access = known.access();
            let decision = judge(access, dialect, identity.tokens(), target.path());
            Reading {
                dialect: dialect.as_str(),
                verdict: decision.verdict().as_str(),
                basis: decision.reason().as_str(),
                line: decision.line(),
                rule: decision.rule(),
                group: decision.group(),
                group_lines: decision.group_lines(),
            }
        };
        let in_all = || Dialect::ALL.map(reading).into();
        self.robots.counting(origin, &known, in_all)
    }
}

/// The same crawler, reading robots.txt in another dialect.
fn in_dialect(identity: Identity, dialect: Dialect) -> Identity {
    match identity {
        Identity::Known(crawler) => Identity::Known(Arc::new(Crawler {
            dialect,
            ..Crawler::clone(&crawler)
        })),
        Identity::Asserted { claim, mode, .. } => Identity::Asserted {
            claim,
            dialect,
            mode,
        },
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
                .get_or_insert_with(decide::https_refused);
            return Ok(resolved);
        }
        Way::Mode(Mode::Tunnel) => Scope::EveryPath,
        Way::Bypass => Scope::Bypass,
    };
    let unseen = Resolved::unseen(origin.clone(), scope);
    unseen.map_err(|refusal| refusal.details.into_owned())
}

/// Who the question says is asking.
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
            client: connection.client,
            identity,
            proof: None,
            objection,
        });
    };
    let crawler = crawlers.named(name);
    let crawler = crawler.ok_or_else(|| format!("no crawler is named {name:?}"))?;
    Ok(Identified {
        client: connection.client,
        identity: Identity::Known(crawler),
        proof: None,
        objection: None,
    })
}
