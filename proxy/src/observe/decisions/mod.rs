//! The decision log: one record of every exchange, in memory and in a file.
//!
//! ```text
//!  mod ─┬─ decision_event  decisions as events of the program's log
//!       ├─ live            new decisions for watchers
//!       ├─ recent          the last decisions, in memory
//!       ├─ top             the most frequent hosts, crawlers, reasons or rules
//!       ├─ writer          the thread that writes the log
//!       │    └─ journal      its files: a hash chain, rotated by size and age
//!       ├─ query           filters of decisions
//!       ├─ past            decisions of a time range, from the files
//!       ├─ report          statistics over a time range, from the files
//!       ├─ files           finds the log's files and reads their lines
//!       └─ record          the record of one decision
//!            └─ client_address  the client's address: whole, its network, or a keyed digest
//! ```
//!
//! An exchange never waits for the log. If the writer cannot keep up, decisions are dropped and counted.

mod client;
mod decision;
mod event;
mod files;
mod journal;
mod live;
mod past;
mod query;
mod recent;
mod report;
mod top;
mod use_preference;
mod writer;

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};

pub(crate) use self::client::{Client, Clients, Form as ClientForm};
use self::decision::Recorded;
pub(crate) use self::decision::{
    Decision, DecisionId, Finding, MAX_USER_AGENT_BYTES, Policy, Word,
};
pub(crate) use self::files::{contents, is_compressed, rotated_files};
pub(crate) use self::journal::heads::Heads;
pub(crate) use self::journal::resume::number as file_number;
pub(crate) use self::journal::{Journal, JournalOptions, LogFile};
use self::live::Live;
pub(crate) use self::live::{Seen, Watch};
pub(crate) use self::past::{Newest, Span};
pub(crate) use self::query::Query;
use self::recent::Recent;
pub(crate) use self::report::{Report, Row};
pub(crate) use self::top::{By, Ranked};
pub(crate) use self::use_preference::{DocumentSeen, UsePreference};
use self::writer::Writer;
pub(crate) use crate::observe::chain::event::Configuration;
use crate::observe::logging::Log;
use crate::observe::metrics::Metrics;

/// Records the decision of every exchange.
pub(crate) struct Decisions {
    recent: Recent,
    live: Live,
    writer: Writer,
    /// The journal's settings and public key; `None` if no file is written.
    log: ArcSwapOption<LogFile>,
    /// The program's log, in which decisions are events.
    events: Log,
    clients: ArcSwap<Clients>,
}

impl Decisions {
    /// Starts the thread that writes to `journal`, if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be started.
    pub(crate) fn start(
        (journal, clients): (Option<Journal>, Clients),
        configuration: Configuration,
        events: Log,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            clients: ArcSwap::from_pointee(clients),
            recent: Recent::new(),
            live: Live::new(),
            log: ArcSwapOption::new(log_file(journal.as_ref())),
            events,
            writer: Writer::start(journal, configuration, metrics)?,
        })
    }

    /// Replaces the journal and the form of clients' addresses. Must be called before `configuration` takes effect.
    pub(crate) fn replace_journal(
        &self,
        (journal, clients): (Option<Journal>, Clients),
        configuration: Configuration,
    ) {
        // The form of addresses first: decisions in the new file should already have the new one.
        self.clients.store(Arc::new(clients));
        self.log.store(log_file(journal.as_ref()));
        self.writer.replace(journal, configuration);
    }

    /// Returns the journal's settings and public key, if a journal is written.
    pub(crate) fn log_file(&self) -> Option<Arc<LogFile>> {
        self.log.load_full()
    }

    /// Returns whether decisions are being lost at present.
    pub(crate) fn are_lost(&self) -> bool {
        self.writer.is_failing()
    }

    /// Returns a client in the form in which it is logged; the API and traces use the same.
    pub(crate) fn shown(&self, client: impl Into<Client>) -> Client {
        self.clients.load().shown(client.into())
    }

    /// Records one decision.
    pub(crate) fn record(&self, mut decision: Decision) {
        // Before anything is kept: neither memory, file nor log may hold more of the address than configured.
        decision.client = self.shown(decision.client);
        event::announce(&self.events, &decision);
        let recorded = Recorded::new(&decision);
        self.recent.push(&recorded);
        self.writer.write(recorded);
    }

    /// Finds a decision in memory or, if it is not recent, in the log's files.
    pub(crate) async fn look_up(&self, id: DecisionId) -> Option<Arc<Decision>> {
        // The id in a response is looked up at once by those who debug a crawler, so memory is tried before the files.
        if let Some(recent) = self.recent.find(id) {
            return Some(recent);
        }
        let log = self.log.load_full()?;
        let searching = tokio::task::spawn_blocking(move || files::search(&log.options.path, id));
        searching.await.ok().flatten().map(Arc::new)
    }

    /// Returns at most `limit` recent decisions that match `query`, the newest first.
    pub(crate) fn list(&self, query: &Query, limit: usize) -> Vec<Arc<Decision>> {
        let taken = self.recent.iter().filter(|decision| query.takes(decision));
        taken.take(limit).collect()
    }

    /// Returns at most `limit` decisions of a time range that match `query` from the log's files, the newest first; `None`
    /// without a log.
    ///
    /// # Errors
    ///
    /// Returns an error if a file of the log cannot be read.
    pub(crate) async fn past(
        &self,
        span: Span,
        query: Query,
        limit: usize,
    ) -> io::Result<Option<Newest>> {
        let Some(log) = self.log.load_full() else {
            return Ok(None);
        };
        let reading = tokio::task::spawn_blocking(move || {
            past::newest(&log.options.path, span, &query, limit)
        });
        let newest = reading.await.map_err(io::Error::other)??;
        Ok(Some(newest))
    }

    /// Passes the decisions of a time range that match `query`, with their lines and in the order of the log, to `take`, and
    /// `None` after the last. Runs on a thread that may block. Returns whether there is a log.
    pub(crate) fn tell_past(
        &self,
        span: Span,
        query: Query,
        mut take: impl FnMut(Option<(&Decision, &[u8])>) -> ControlFlow<()> + Send + 'static,
    ) -> bool {
        let Some(log) = self.log.load_full() else {
            return false;
        };
        tokio::task::spawn_blocking(move || {
            let each = |decision: Decision, line: &[u8]| take(Some((&decision, line)));
            if let Err(error) = past::each(&log.options.path, span, &query, each) {
                tracing::warn!(%error, "the decision log cannot be read");
            }
            // The result only says whether more is wanted.
            let _ = take(None);
        });
        true
    }

    /// Returns the `limit` most frequent hosts, crawlers, reasons or rules of the recent decisions that match `query`.
    pub(crate) fn top(&self, by: By, query: &Query, limit: usize) -> Vec<Ranked> {
        let taken = self.recent.iter().filter(|decision| query.takes(decision));
        top::top(by, taken, limit)
    }

    /// Watches further decisions.
    pub(crate) fn watch(&self) -> Watch {
        self.live.watch(&self.recent)
    }

    /// Sends new decisions to watchers; never returns.
    pub(crate) async fn tell_watchers(&self) {
        self.live.run(&self.recent).await;
    }

    /// Writes all decisions recorded so far and ends the thread.
    pub(crate) fn close(&self) {
        self.writer.close();
    }
}

fn log_file(journal: Option<&Journal>) -> Option<Arc<LogFile>> {
    journal.map(|journal| Arc::new(journal.log_file()))
}

impl fmt::Debug for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decisions").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::observe::digest::Digest;

    pub(super) fn decision() -> Decision {
        Decision {
            id: DecisionId::new(),
            at: SystemTime::UNIX_EPOCH + Duration::from_micros(1_800_000_000_000_001),
            outcome: "refused".into(),
            reason: "rule".into(),
            status: 403,
            crawler: "news".into(),
            identity: "known".into(),
            proven_by: None,
            user_agent: None,
            user_agent_cut: false,
            certificate: None,
            tokens: vec!["ExampleBot".to_owned()],
            client: IpAddr::from([127, 0, 0, 1]).into(),
            body_bytes: None,
            peer: None,
            method: "GET".to_owned(),
            url: "https://[::1]:8443/a".to_owned(),
            origin: Some("https://[::1]:8443".to_owned()),
            scope: None,
            username: None,
            robots_delay_us: None,
            trace_id: None,
            policy: None,
            preferences: Vec::new(),
            documents: Vec::new(),
            reached_origin: None,
            finding: Some(Finding {
                verdict: "disallow".into(),
                basis: "rule".into(),
                dialect: "rfc9309".into(),
                line: Some(2),
                rule: Some("Disallow: /a".to_owned()),
                robots_access: Some("successful".into()),
                robots_status: None,
                robots_cut: false,
                robots_sha256: Some(Digest::of(b"abc")),
                robots_fetched_at: Some(SystemTime::UNIX_EPOCH),
            }),
            would_be: None,
            oddities: Vec::new(),
            signature: None,
            mode: "enforce".into(),
            configuration: 1,
            details: None,
            decided_us: 1,
            waited_us: 0,
            took_us: 2,
        }
    }

    #[test]
    fn decision_survives_serialisation() {
        let written = serde_json::to_value(decision()).unwrap();
        assert_eq!(written["at"], "2027-01-15T08:00:00.000001Z");
        assert_eq!(written["line"], 2);
        let read: Decision = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
        let mut bare = decision();
        bare.finding = None;
        let written = serde_json::to_value(bare).unwrap();
        assert_eq!(written.get("verdict"), None);
        let read: Decision = serde_json::from_value(written).unwrap();
        assert!(read.finding.is_none());
    }

    #[test]
    fn query_finds_text() {
        let query = |text: &str| Query {
            text: Some(text.to_owned()),
            ..Query::default()
        };
        for text in ["8443/A", "disallow: /a", "examplebot", "127.0.0", ""] {
            assert!(query(text).takes(&decision()), "{text}");
        }
        assert!(!query("shop").takes(&decision()));
    }

    #[test]
    fn query_matches_host_without_port() {
        let query = |host: &str| Query {
            host: Some(host.to_owned()),
            ..Query::default()
        };
        assert!(query("[::1]").takes(&decision()));
        assert!(!query("::1").takes(&decision()));
        let mut named = decision();
        named.origin = Some("http://shop.test:8080".to_owned());
        assert!(query("Shop.test").takes(&named));
    }
}
