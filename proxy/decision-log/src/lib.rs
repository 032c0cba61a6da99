//! The decision log: one record of every exchange, in memory and in a file.
//!
//! ```text
//!  lib ─┬─ decision_event  decisions as events of the program's log
//!       ├─ live            new decisions for watchers
//!       ├─ recent          the last decisions, in memory
//!       ├─ top             the most frequent hosts, crawlers, reasons or rules
//!       ├─ tally           the count of all, for one command
//!       ├─ asked           the URLs that crawlers asked for lately
//!       ├─ edge_tally      the count of refusals at the edge
//!       │    └─ edge_names   the answers of hosts to each name, signed or not
//!       ├─ writer          the thread that writes the log
//!       │    └─ journal      its files: a hash chain, rotated by size and age
//!       ├─ query           filters of decisions
//!       │    ├─ chosen_crawler  the crawler that a filter names
//!       │    └─ rule_name   the names of rules and reasons that decide
//!       ├─ log_search      decisions of a time range, from the files
//!       ├─ gaps            lines that are missing from the files
//!       ├─ report_cache    reports for the admin listener
//!       │    └─ report       statistics over a time range, from the files or from memory
//!       ├─ sites           the requests to each host, as sites are told of them
//!       ├─ files           finds the log's files and reads their lines
//!       ├─ encoded_decision  the line of a decision
//!       ├─ config_archive  the configurations by which decisions were made
//!       └─ client_address  the form of clients' addresses: whole, their networks, or keyed digests
//! ```
//!
//! An exchange never waits for the log. If the writer cannot keep up, decisions are dropped and counted.
//!
//! `log_heads` notices logs of a fleet that were cut.
//!
//! This crate knows nothing of the way in which decisions are made: a decision is a [`DecisionRecord`], whose members the
//! crate `wayleave-record` lists. Begin reading at [`DecisionLog`].

mod asked;
mod bounded_map;
mod chosen_crawler;
mod client_address;
pub mod config_archive;
mod decision_event;
mod edge_names;
mod edge_tally;
mod encoded_decision;
mod files;
mod gaps;
#[cfg(test)]
mod golden_tests;
mod journal;
mod live;
pub mod log_heads;
mod log_search;
mod query;
mod recent;
mod report;
mod report_cache;
mod rule_name;
mod sites;
mod tally;
#[cfg(test)]
mod tests;
mod top;
mod writer;

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use wayleave_clock::system_time;
use wayleave_evidence::LogHead;
pub use wayleave_evidence::chain::event::ConfigRevision;
use wayleave_otlp::DecisionExport;
pub use wayleave_record::{
    DecisionId, DecisionRecord, DocumentRecord, FindingRecord, LogWord, LoggedClient,
    MAX_USER_AGENT_BYTES, PaymentRecord, RuleRecord, SubresourceRecord, UNNAMED, UsePreference,
    WAYLEAVE, crawler_in_words,
};
use wayleave_telemetry::logging::LogHandle;
use wayleave_telemetry::metrics::Metrics;

pub use self::asked::{AskedUrl, AskedUrls};
pub use self::chosen_crawler::ChosenCrawler;
pub use self::client_address::{ClientForm, ClientMask};
use self::edge_names::EdgeAnswer;
pub use self::edge_names::{
    ComparedHost, EdgeAnswers, EdgeComparison, EdgeName, EdgeNameCount, NameAnswers, SignedEdge,
    SignedEdgeRow,
};
use self::edge_tally::EdgeTally;
pub use self::edge_tally::{EdgeCount, EdgeCountBy};
use self::encoded_decision::EncodedDecision;
pub use self::encoded_decision::new_decision_id;
pub use self::files::{LogPlace, OpenLog, find_decision};
pub use self::gaps::{LogGap, LogGaps, file_gaps, unread_parts};
use self::journal::JournalWarnings;
pub use self::journal::{Journal, JournalConfig, JournalDescription, next_key_path, take_next_key};
use self::live::LiveFeed;
pub use self::live::{DecisionWatch, WatchedBatch, to_event};
pub use self::log_search::{NewestDecisions, ScanStep, scan as scan_log};
pub use self::query::{DecisionQuery, TimeRange};
use self::recent::RecentDecisions;
use self::report::ProgressSink;
pub use self::report::{
    LogReport, PaymentRow, ReportContents, ReportDimension, ReportQuery, ReportRow, SummaryRow,
    Timeline,
};
use self::report_cache::ReportCache;
pub use self::report_cache::{CountedReport, ReportRequest, ReportSource};
pub use self::rule_name::of_decision as rule_name_of;
pub use self::sites::{
    DayOfRequests, HostRequests, OutcomeCounts, RefusalCount, SiteRefusal, SiteRequests,
};
pub use self::tally::DecisionTally;
pub use self::top::{RankBy, RankedName};
use self::writer::DecisionWriter;
pub use self::writer::StoreDocuments;

/// The most rows of a table of a report that are kept.
const MAX_REPORTED: usize = 1000;
/// The most searches of the files at the same time; others wait. Each reads as fast as it can.
const MAX_SEARCHES: usize = 8;
/// The most readers of all of the files at the same time. Each has a thread, of which there are 512 for everything that blocks.
const MAX_STREAMS: usize = 32;

/// The answer to the wish to read all of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStart {
    Started,
    NoLog,
    TooMany,
}

/// The record of every exchange's decision, in memory and in a file.
pub struct DecisionLog {
    recent: RecentDecisions,
    live: LiveFeed,
    writer: DecisionWriter,
    /// The journal's settings and public key; `None` if no file is written.
    journal: ArcSwapOption<JournalDescription>,
    /// The program's log, in which decisions are events.
    events: LogHandle,
    client_mask: ArcSwap<ClientMask>,
    /// The count of all decisions, if they are counted.
    tally: Option<Mutex<DecisionTally>>,
    edge: Mutex<EdgeTally>,
    /// Sends all decisions to a collector, if there is one.
    export: Option<DecisionExport>,
    reports: ReportCache,
    /// The turns of those who search the files.
    searches: Arc<Semaphore>,
    /// The turns of those who read all of the files, as fast as their clients do.
    streams: Arc<Semaphore>,
    /// Earlier decisions are in the files only.
    started_at: SystemTime,
}

impl DecisionLog {
    /// Starts the thread that writes to `journal`, if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be started.
    pub fn start(
        (journal, clients): (Option<Journal>, ClientMask),
        configuration: ConfigRevision,
        events: LogHandle,
        store_documents: StoreDocuments,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            client_mask: ArcSwap::from_pointee(clients),
            recent: RecentDecisions::new(),
            live: LiveFeed::new(),
            journal: ArcSwapOption::new(described(journal.as_ref())),
            events,
            writer: DecisionWriter::start(journal, configuration, store_documents, metrics)?,
            tally: None,
            edge: Mutex::default(),
            export: None,
            reports: ReportCache::new(),
            searches: Arc::new(Semaphore::new(MAX_SEARCHES)),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            started_at: system_time(),
        })
    }

    /// Sends all decisions from now on to a collector, too.
    pub fn with_export(self, export: Option<DecisionExport>) -> Self {
        Self { export, ..self }
    }

    /// Sends the queued records to the collector.
    pub async fn stop_export(&self) {
        if let Some(export) = &self.export {
            export.stop().await;
        }
    }

    /// Counts all decisions from now on.
    pub fn with_tally(self) -> Self {
        Self { tally: Some(Mutex::default()), ..self }
    }

    /// Returns the count of all decisions so far; zeros if they are not counted.
    pub fn tally(&self) -> DecisionTally {
        let tally = self.tally.as_ref();
        tally.map(|tally| lock(tally).clone()).unwrap_or_default()
    }

    /// Replaces the journal and the form of clients' addresses. Must be called before `configuration` takes effect.
    pub fn replace_journal(
        &self,
        (journal, clients): (Option<Journal>, ClientMask),
        configuration: ConfigRevision,
    ) {
        // The form of addresses first: decisions in the new file should already have the new one.
        self.client_mask.store(Arc::new(clients));
        self.journal.store(described(journal.as_ref()));
        self.writer.replace(journal, configuration);
    }

    /// Returns the journal's settings and public key, if a journal is written.
    pub fn journal(&self) -> Option<Arc<JournalDescription>> {
        self.journal.load_full()
    }

    /// Returns whether decisions are being lost at present.
    pub fn is_failing(&self) -> bool {
        self.writer.is_failing()
    }

    /// Waits until all decisions recorded so far are written, or lost, so that the files and [`Self::is_failing`] are up to date.
    pub async fn settle(&self) {
        self.writer.settle().await;
    }

    /// Returns a client in the form in which it is logged; the API and traces use the same.
    pub fn mask_client(&self, client: impl Into<LoggedClient>) -> LoggedClient {
        self.client_mask.load().apply(client.into())
    }

    /// Returns how many decisions were lost since the start, and when the last was; none if none was.
    pub fn losses(&self) -> Option<(u64, SystemTime)> {
        self.writer.losses()
    }

    /// Returns the faults of the log's files.
    pub fn warnings(&self) -> Arc<JournalWarnings> {
        self.writer.warnings()
    }

    /// Returns the newest signed head of the log; none without a log in regular files.
    pub fn newest_head(&self) -> Option<LogHead> {
        self.writer.newest_head()
    }

    /// Looks for a head of this log that was published. If the log was cut back behind it, the log says so when this returns.
    pub async fn compare_with(&self, published: LogHead) {
        self.writer.compare_with(published).await;
    }

    /// Records one decision.
    pub fn record(&self, mut decision: DecisionRecord) {
        // Before anything is kept: neither memory, file nor log may hold more of the address than configured.
        decision.client = self.mask_client(decision.client);
        decision_event::log_decision(&self.events, &decision);
        if let Some(tally) = &self.tally {
            lock(tally).count(&decision);
        }
        if let Some(answer) = EdgeAnswer::of(&decision) {
            lock(&self.edge).count_answer(&decision, &answer);
        }
        if decision.edge.is_some() {
            lock(&self.edge).count(&decision);
        }
        if let Some(export) = &self.export {
            export.send(&decision);
        }
        let recorded = EncodedDecision::new(&decision);
        self.recent.push(&recorded);
        self.writer.enqueue(recorded);
    }

    /// Finds a decision in memory or, if it is not recent, in the log's files.
    pub async fn look_up(&self, id: DecisionId) -> Option<Arc<DecisionRecord>> {
        // The id in a response is looked up at once by those who debug a crawler, so memory is tried before the files.
        if let Some(recent) = self.recent.find(id) {
            return Some(recent);
        }
        let journal = self.journal.load_full()?;
        let turn = Arc::clone(&self.searches).acquire_owned().await.ok()?;
        let finding = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            find_decision(journal.config.place(), id)
        });
        finding.await.ok().flatten().map(Arc::new)
    }

    /// Returns at most `limit` recent decisions that match `query`, the newest first.
    pub fn list_recent(&self, query: &DecisionQuery, limit: usize) -> Vec<Arc<DecisionRecord>> {
        self.recent.iter().filter(|decision| query.matches(decision)).take(limit).collect()
    }

    /// Returns at most `limit` decisions of a time range that match `query` from the log's files, the newest first; `None`
    /// without a log.
    ///
    /// # Errors
    ///
    /// Returns an error if a file of the log cannot be read.
    pub async fn list_past(
        &self,
        range: TimeRange,
        query: DecisionQuery,
        limit: usize,
    ) -> io::Result<Option<NewestDecisions>> {
        let Some(journal) = self.journal.load_full() else {
            return Ok(None);
        };
        self.settle().await;
        let turn = Arc::clone(&self.searches).acquire_owned().await.map_err(io::Error::other)?;
        let is_given_up = CancellationToken::new();
        let _giving_up = is_given_up.clone().drop_guard();
        let newest = tokio::task::spawn_blocking(move || {
            // Held until it ends, not only until the client leaves.
            let _turn = turn;
            log_search::newest(journal.config.place(), range, &query, limit, &is_given_up)
        })
        .await
        .map_err(io::Error::other)??;
        Ok(Some(newest))
    }

    /// Passes the decisions of a time range that match `query`, with their lines and in the order of the log, to `take`, and
    /// `None` after the last, or the error if the log cannot be read on. Runs on a thread that may block.
    pub fn stream_past(
        &self,
        range: TimeRange,
        query: DecisionQuery,
        mut take: impl FnMut(io::Result<Option<(&DecisionRecord, &[u8])>>) -> ControlFlow<()>
        + Send
        + 'static,
    ) -> StreamStart {
        let Some(journal) = self.journal.load_full() else {
            return StreamStart::NoLog;
        };
        let Ok(turn) = Arc::clone(&self.streams).try_acquire_owned() else {
            return StreamStart::TooMany;
        };
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let take_step = |step: ScanStep<'_>| match step {
                ScanStep::Decision(decision, line) => take(Ok(Some((&decision, line)))),
                ScanStep::Progress { .. } => ControlFlow::Continue(()),
            };
            let scanned = log_search::scan(journal.config.place(), range, &query, take_step);
            match &scanned {
                Ok(gaps) => gaps.warn(),
                Err(error) => tracing::warn!(%error, "the decision log cannot be read"),
            }
            // The result only says whether more is wanted.
            let _ = take(scanned.map(|_| None));
        });
        StreamStart::Started
    }

    /// Returns the `limit` most frequent hosts, crawlers, reasons or rules of the recent decisions that match `query`.
    pub fn top(&self, by: RankBy, query: &DecisionQuery, limit: usize) -> Vec<RankedName> {
        top::top(by, self.recent.iter().filter(|decision| query.matches(decision)), limit)
    }

    /// Counts the decisions of a time range, in memory or in the log's files; or returns a count that was made shortly
    /// before. None if too many requests for counts are waiting.
    pub async fn report(self: &Arc<Self>, request: ReportRequest) -> Option<Arc<CountedReport>> {
        let log = Arc::clone(self);
        let now = system_time();
        let query = ReportQuery {
            since: request.since.start(now),
            until: request.until.map_or(now, |until| until.end(now)),
            requests: request.requests.clone(),
            contents: request.contents,
        };
        let source = self.source_since(query.since);
        if source == ReportSource::Log {
            // A client that was answered finds its decision in the report.
            self.settle().await;
        }
        let count = move |on_progress: ProgressSink<'_>| log.count(source, &query, on_progress);
        self.reports.get(request, source == ReportSource::Log, count).await
    }

    fn source_since(&self, since: SystemTime) -> ReportSource {
        if self.started_at <= since && self.recent.reaches_back_to(since) {
            return ReportSource::Memory;
        }
        let journal = self.journal.load();
        // Nothing can be read back from a device, and reading a pipe would take it from whoever it is for.
        if journal.as_ref().is_some_and(|journal| journal.config.path.is_file()) {
            ReportSource::Log
        } else {
            ReportSource::PartOfMemory
        }
    }

    fn count(
        &self,
        source: ReportSource,
        query: &ReportQuery,
        on_progress: ProgressSink<'_>,
    ) -> CountedReport {
        let counted_at = system_time();
        let journal = self.journal.load_full().filter(|_| source == ReportSource::Log);
        let mut report = match journal {
            Some(journal) => LogReport::read(journal.config.place(), query, on_progress),
            None => LogReport::of_lines(query, |take| self.recent.each_line(take)),
        };
        report.shorten(MAX_REPORTED);
        CountedReport { report, counted_at, source }
    }

    /// Returns the URLs at these origins among the recent decisions in memory.
    pub fn asked_recently(&self, origins: impl IntoIterator<Item = String>) -> AskedUrls {
        let mut asked = AskedUrls::of(origins);
        for decision in self.recent.iter() {
            asked.add(&decision);
        }
        asked
    }

    /// Returns the URLs at these origins among the recent decisions, and in the newest files of the log.
    pub async fn asked(self: &Arc<Self>, origins: Vec<String>) -> AskedUrls {
        if origins.is_empty() {
            return AskedUrls::default();
        }
        self.settle().await;
        let log = Arc::clone(self);
        let finding = tokio::task::spawn_blocking(move || {
            let mut asked = log.asked_recently(origins);
            if let Some(journal) = log.journal() {
                asked.add_from_log(journal.config.place());
            }
            asked
        });
        // A panic is reported by the hook of the process.
        finding.await.unwrap_or_default()
    }

    /// Returns the `limit` hosts or crawlers with the most refusals at the edge since the start.
    pub fn edge(&self, by: EdgeCountBy, limit: usize) -> Vec<EdgeCount> {
        lock(&self.edge).most(by, limit)
    }

    /// Returns the answers of hosts to signed and unsigned requests since the start; at most `limit` hosts are listed.
    pub fn edge_by_signature(&self, limit: usize) -> SignedEdge {
        lock(&self.edge).by_signature(limit)
    }

    /// Watches further decisions.
    pub fn watch(&self) -> DecisionWatch {
        self.live.watch(&self.recent)
    }

    /// Sends new decisions to watchers; never returns.
    pub async fn publish_live(&self) {
        self.live.run(&self.recent).await;
    }

    /// Writes all decisions recorded so far and ends the thread.
    pub fn close(&self) {
        self.writer.close();
    }
}

/// Locks a count. A panic while it was locked leaves it wrong by one at most.
fn lock<T>(tally: &Mutex<T>) -> MutexGuard<'_, T> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

fn described(journal: Option<&Journal>) -> Option<Arc<JournalDescription>> {
    journal.map(|journal| Arc::new(journal.describe()))
}

impl fmt::Debug for DecisionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecisionLog").finish_non_exhaustive()
    }
}
