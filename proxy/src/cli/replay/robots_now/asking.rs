//! Asks about pages: those of one origin one after another, many origins at a time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use wayleave_admission::preview::Question;
use wayleave_admission::request::{AskingGateway, ClientConnection, GatewayCrawler};
use wayleave_decision::{Identity, Reason, RequestOutcome, TargetScope};
use wayleave_decision_log::{DecisionRecord, LogGaps, LogPlace, rule_name_of};
use wayleave_http_wire::received::ReceivedHead;
use wayleave_record::UsePreference;
use wayleave_robots_txt::Origin;
use wayleave_usage_preferences::Preference;

use super::answers::{Answers, RefusedNow};
use super::pages::{LogSpan, LoggedPage, PageKey};
use crate::cli::progress::ProgressLine;
use crate::server::in_process::InProcessProxy;

/// The most pages that are read from the log before they are needed.
const MAX_READ_AHEAD: usize = 1_000;
/// The most pages that wait in memory, and those of one origin: a large site must not stop the others.
const MAX_WAITING_PAGES: usize = 50_000;
const MAX_WAITING_OF_ORIGIN: usize = 500;
/// The most origins that are asked at a time.
const MAX_ORIGINS: usize = 128;
/// The most attempts for a page without an answer, and the pauses between them. If another answer is further away, as after a
/// robots.txt that could not be fetched, the page is left open.
const ATTEMPTS: u32 = 4;
const MIN_WAIT: Duration = Duration::from_millis(100);
const USUAL_WAIT: Duration = Duration::from_secs(2);
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The reason why there is no answer.
struct Undecided {
    reason: String,
    /// The time after which there may be one, if ever.
    retry_after: Option<Duration>,
}

impl Undecided {
    /// Creates one that no time changes.
    fn for_good(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), retry_after: None }
    }

    /// Creates one that may be over soon.
    fn for_now(reason: String, after: Option<Duration>) -> Self {
        Self { reason, retry_after: after.or(Some(USUAL_WAIT)) }
    }
}

/// The pages that wait, by origin. An origin that is being asked has its queue here, empty or not.
#[derive(Default)]
struct WaitingPages {
    by_origin: HashMap<String, VecDeque<LoggedPage>>,
    /// The origins with pages that nobody is asking.
    idle: VecDeque<String>,
    count: usize,
}

impl WaitingPages {
    fn add(&mut self, page: LoggedPage) {
        self.count += 1;
        match self.by_origin.get_mut(&page.origin) {
            Some(queue) => queue.push_back(page),
            None => {
                self.idle.push_back(page.origin.clone());
                self.by_origin.insert(page.origin.clone(), VecDeque::from([page]));
            }
        }
    }

    /// Returns whether as many pages of an origin wait as may.
    fn is_full(&self, origin: &str) -> bool {
        self.by_origin.get(origin).is_some_and(|queue| queue.len() >= MAX_WAITING_OF_ORIGIN)
    }

    /// Takes the next page of an origin that nobody is asking.
    fn take(&mut self) -> Option<LoggedPage> {
        let origin = self.idle.pop_front()?;
        let page = self.by_origin.get_mut(&origin)?.pop_front()?;
        self.count -= 1;
        Some(page)
    }

    /// Notes that an origin was asked.
    fn asked(&mut self, origin: String) {
        match self.by_origin.get(&origin) {
            Some(queue) if !queue.is_empty() => self.idle.push_back(origin),
            _ => drop(self.by_origin.remove(&origin)),
        }
    }
}

/// Asks about every page of a log that has no answer yet, once, and keeps the answers. Returns the gaps in the log.
///
/// The log is read until no page was left out because too many of its origin waited.
///
/// # Errors
///
/// Returns an error if the log cannot be read, or an answer cannot be written.
pub(super) async fn ask_all(
    proxy: &InProcessProxy,
    span: LogSpan<'_>,
    answers: &mut Answers,
    progress: &ProgressLine,
) -> anyhow::Result<LogGaps> {
    let mut seen = HashSet::new();
    loop {
        let (gaps, is_complete) =
            ask_in_one_pass(proxy, span, &mut seen, answers, progress).await?;
        if is_complete {
            return Ok(gaps);
        }
    }
}

/// Reads the log once. Returns its gaps, and whether no page was left out.
async fn ask_in_one_pass(
    proxy: &InProcessProxy,
    span: LogSpan<'_>,
    seen: &mut HashSet<PageKey>,
    answers: &mut Answers,
    progress: &ProgressLine,
) -> anyhow::Result<(LogGaps, bool)> {
    let (sender, mut pages) = mpsc::channel(MAX_READ_AHEAD);
    let scanning = scan(span, sender);
    let mut waiting = WaitingPages::default();
    let mut asked = FuturesUnordered::new();
    let mut is_log_read = false;
    let mut is_complete = true;
    while !is_log_read || !asked.is_empty() || waiting.count > 0 {
        while asked.len() < MAX_ORIGINS
            && let Some(page) = waiting.take()
        {
            asked.push(ask(proxy, page));
        }
        tokio::select! {
            page = pages.recv(), if !is_log_read && waiting.count < MAX_WAITING_PAGES => match page {
                None => is_log_read = true,
                Some(page) if seen.contains(&page.key) || answers.is_known(page.key) => {}
                Some(page) if waiting.is_full(&page.origin) => is_complete = false,
                Some(page) => {
                    seen.insert(page.key);
                    waiting.add(page);
                }
            },
            Some((key, origin, answer)) = asked.next(), if !asked.is_empty() => {
                answers.add(key, answer)?;
                waiting.asked(origin);
                progress.set_position(answers.count());
            }
        }
    }
    let gaps = scanning.await.context("reading the decision log panicked")??;
    Ok((gaps, is_complete))
}

/// Reads the pages of a log on a thread of its own.
fn scan(span: LogSpan<'_>, pages: mpsc::Sender<LoggedPage>) -> JoinHandle<anyhow::Result<LogGaps>> {
    let (path, state_dir) = (span.log.path.to_owned(), span.log.state_dir.to_owned());
    let (range, unnamed) = (span.range, span.unnamed.map(<[_]>::to_vec));
    tokio::task::spawn_blocking(move || {
        let log = LogPlace { path: &path, state_dir: &state_dir };
        let span = LogSpan { log, range, unnamed: unnamed.as_deref() };
        let is_wanted = || !pages.is_closed();
        span.read(is_wanted, |_, page| match pages.blocking_send(page) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        })
    })
}

/// Asks about a page until there is an answer, or it has been asked often enough. Returns its refusal, if it would be refused, or
/// the reason why nobody knows.
async fn ask(
    proxy: &InProcessProxy,
    page: LoggedPage,
) -> (PageKey, String, Result<Option<RefusedNow>, String>) {
    let mut attempt = 1;
    let answer = loop {
        match try_to_answer(proxy, &page).await {
            Err(Undecided { retry_after: Some(after), .. })
                if attempt < ATTEMPTS && after <= MAX_WAIT =>
            {
                tokio::time::sleep(after.max(MIN_WAIT)).await;
                attempt += 1;
            }
            answer => break answer.map_err(|undecided| undecided.reason),
        }
    };
    (page.key, page.origin, answer)
}

async fn try_to_answer(
    proxy: &InProcessProxy,
    page: &LoggedPage,
) -> Result<Option<RefusedNow>, Undecided> {
    if let Some(reason) = page.unknowable {
        return Err(Undecided::for_good(reason));
    }
    let previewed = proxy.gate().decider.preview(&question(page)).await;
    let previewed = previewed.map_err(Undecided::for_good)?;
    let verdict = previewed.verdict;
    let is_blind =
        matches!(verdict.facts.scope, Some(TargetScope::EveryPath | TargetScope::Bypass));
    if page.is_tunnel && !is_blind {
        return Err(Undecided::for_good("the requests inside a tunnel are not known"));
    }
    let connection = Arc::new(connection(&previewed.identity));
    let head = head(page).map_err(|error| Undecided::for_good(error.to_string()))?;
    let decided = match verdict.result {
        Ok(permit) if page.is_repeatable() && !permit.purposes.is_empty() => {
            proxy.send(&connection, &head).await
        }
        Ok(_) => return Ok(None),
        // For the evidence: it is refused again, and recorded.
        Err(refusal) if is_final(refusal.status) => proxy.ask(&connection, head).await,
        Err(refusal) => {
            let reason = format!("{}: {}", refusal.reason.as_str(), refusal.details);
            return Err(Undecided::for_now(reason, refusal.retry_after));
        }
    };
    answer(&*decided.map_err(|error| Undecided::for_good(format!("{error:#}")))?)
}

/// Returns whether a refusal with this status is one by rules or statements, which stands until they change.
fn is_final(status: u16) -> bool {
    matches!(status, 402 | 403)
}

/// Returns the answer by the decision about today's request.
fn answer(decision: &DecisionRecord) -> Result<Option<RefusedNow>, Undecided> {
    let status = decision.status;
    if decision.was_let_through() {
        let answered = || format!("the origin answered {status}");
        // Any other answer, such as a redirect or a challenge, says nothing about the page.
        return match status {
            _ if decision.edge.is_some() => Err(Undecided::for_good(answered())),
            200..=299 | 404 | 410 => Ok(None),
            429 | 500.. => Err(Undecided::for_now(answered(), None)),
            _ => Err(Undecided::for_good(answered())),
        };
    }
    if decision.outcome == RequestOutcome::Refused && is_final(status) {
        let refusing = |stated: &&UsePreference| stated.preference == Preference::Refuse;
        let is_by_use = decision.reason == Reason::Preference;
        let stated = is_by_use.then(|| decision.preferences.iter().find(refusing)).flatten();
        return Ok(Some(RefusedNow {
            rule: rule_name_of(decision).into_owned(),
            reason: decision.reason.to_string(),
            carrier: stated.and_then(|stated| stated.carrier.clone()),
            statement: stated.and_then(|stated| stated.statement.clone()),
        }));
    }
    let details = decision.details.as_deref().unwrap_or_default();
    let reason = format!("{}: {details}", decision.reason);
    // A page that came too late once would take as long again.
    let is_too_soon = matches!(status, 429 | 503);
    Err(if is_too_soon { Undecided::for_now(reason, None) } else { Undecided::for_good(reason) })
}

fn question(page: &LoggedPage) -> Question {
    Question {
        // A tunnel's is no URL, but an authority.
        url: if page.is_tunnel { page.origin.clone() } else { page.url.clone() },
        user_agent: page.user_agent.clone(),
        crawler: page.crawler.clone(),
        client: Some(page.client.to_string()),
        method: (!page.is_tunnel).then(|| page.method.clone()),
        ..Question::default()
    }
}

/// Returns the connection of today's request, of which only the crawler is known: the client of then does not make it.
fn connection(identity: &Identity) -> ClientConnection {
    let crawler = identity.crawler().map(|crawler| GatewayCrawler::Named((&*crawler.name).into()));
    let gateway = AskingGateway { crawler, shows_responses: false };
    let connection = ClientConnection::new(Ipv4Addr::UNSPECIFIED.into());
    ClientConnection { gateway: Some(Box::new(gateway)), ..connection }
}

/// Returns the head of today's request: a GET, which shows what a HEAD does not.
fn head(page: &LoggedPage) -> anyhow::Result<ReceivedHead> {
    let origin = Origin::parse(&page.origin)?;
    let authority = format!("{}:{}", origin.host(), origin.port());
    let (method, target) = match &*page.method {
        _ if page.is_tunnel => ("CONNECT", &authority),
        "HEAD" => ("GET", &page.url),
        method => (method, &page.url),
    };
    let host = page.origin.split_once("://").map_or(&*authority, |(_, host)| host);
    let parts = (method.as_bytes(), target.as_bytes(), host.as_bytes());
    let user_agent = ("user-agent".as_bytes(), page.user_agent.as_bytes());
    let fields = [user_agent].into_iter().filter(|(_, value)| !value.is_empty());
    ReceivedHead::of_parts(parts, fields).map_err(|error| anyhow!("the request: {error:?}"))
}
