//! A connection's requests, one after another, and the common start and end.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use crate::client::Client;
use crate::options::Options;
use crate::report::Tally;

/// The timeout of a response, so that a bench cannot wait forever.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of failed requests that end a worker, because the proxy is broken then.
const MAX_FAILURES: usize = 20;

/// The barrier for workers until all are warm, and the limits of the measurement.
pub(crate) struct Gate {
    workers: usize,
    /// A permit for each connection that may warm up now.
    warming: Semaphore,
    warm: Semaphore,
    opened: Semaphore,
    started: OnceLock<Instant>,
    /// The number of requests that were begun in the measurement.
    begun: AtomicUsize,
    /// The number of origins used.
    hosts: AtomicUsize,
}

impl Gate {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            workers: options.connections,
            warming: Semaphore::new(options.warming()),
            warm: Semaphore::new(0),
            opened: Semaphore::new(0),
            started: OnceLock::new(),
            begun: AtomicUsize::new(0),
            hosts: AtomicUsize::new(0),
        }
    }

    pub(crate) async fn all_are_warm(&self) {
        let workers = u32::try_from(self.workers).unwrap_or(u32::MAX);
        let all = self.warm.acquire_many(workers).await;
        all.expect("never closed").forget();
    }

    /// Starts the measurement.
    pub(crate) fn open(&self) -> Instant {
        let started = *self.started.get_or_init(Instant::now);
        self.opened.add_permits(self.workers);
        started
    }

    async fn pass(&self) -> Instant {
        self.warm.add_permits(1);
        let passed = self.opened.acquire().await;
        passed.expect("never closed").forget();
        *self.started.get().expect("set before the gate opens")
    }
}

/// A worker with one connection at a time.
pub(crate) struct Worker {
    number: usize,
    options: Arc<Options>,
    gate: Arc<Gate>,
    client: Option<(Client, String)>,
    requests: usize,
    tally: Tally,
}

impl Worker {
    pub(crate) fn new(number: usize, options: Arc<Options>, gate: Arc<Gate>) -> Self {
        Self { number, options, gate, client: None, requests: 0, tally: Tally::default() }
    }

    pub(crate) async fn run(mut self) -> Tally {
        let gate = Arc::clone(&self.gate);
        let warming = gate.warming.acquire().await;
        for _ in 0..self.options.warm_up {
            if !self.ask(Instant::now()).await {
                break;
            }
        }
        drop(warming);
        let warm_up = std::mem::take(&mut self.tally);
        self.tally.first_error = warm_up.first_error;
        let started = self.gate.pass().await;
        if self.options.streams > 1 {
            self.ask_in_streams(started).await
        } else {
            self.measure(started).await
        }
    }

    async fn measure(mut self, started: Instant) -> Tally {
        let end = started + self.options.duration();
        let mut turn = started + self.offset();
        while self.tally.failures < MAX_FAILURES && self.may_begin() {
            let mut begin = Instant::now();
            if let Some(interval) = self.options.interval() {
                if begin < turn {
                    sleep_until(turn.into()).await;
                    begin = Instant::now();
                } else {
                    // The previous response was late: this request's latency counts from the time when it was due.
                    begin = turn;
                }
                turn += interval;
            }
            if begin >= end {
                break;
            }
            self.ask(begin).await;
        }
        self.tally
    }

    /// Spreads the connections' requests over the interval.
    fn offset(&self) -> Duration {
        let interval = self.options.interval().unwrap_or_default();
        let (number, of) = (self.number as f64, self.options.connections as f64);
        interval.mul_f64(number / of)
    }

    fn may_begin(&self) -> bool {
        let begun = self.gate.begun.fetch_add(1, Ordering::Relaxed);
        self.options.requests == 0 || begun < self.options.requests
    }

    /// Sends several requests at a time on one connection.
    async fn ask_in_streams(mut self, started: Instant) -> Tally {
        let mut streams = JoinSet::new();
        let Some((client, authority)) = self.client.take() else {
            return self.tally;
        };
        for _ in 0..self.options.streams {
            let mut stream =
                Self::new(self.number, Arc::clone(&self.options), Arc::clone(&self.gate));
            stream.client = Some((client.share(), authority.clone()));
            streams.spawn(stream.measure(started));
        }
        while let Some(tally) = streams.join_next().await {
            self.tally.add(tally.expect("streams do not panic"));
        }
        self.tally
    }

    /// Sends one request, on a new connection if one is due. Returns whether it succeeded.
    async fn ask(&mut self, begin: Instant) -> bool {
        let result = timeout(PATIENCE, self.try_ask()).await;
        match result.unwrap_or_else(|_| Err(anyhow!("no answer within {} s", PATIENCE.as_secs()))) {
            Ok(length) => {
                self.tally.answered(begin.elapsed(), length);
                true
            }
            Err(error) => {
                self.client = None;
                self.tally.failed(&error);
                false
            }
        }
    }

    async fn try_ask(&mut self) -> anyhow::Result<usize> {
        let renew_after = self.options.renew_after;
        if renew_after > 0 && self.requests.is_multiple_of(renew_after) {
            self.client = None;
        }
        self.requests += 1;
        let mut authority = String::new();
        if self.client.is_none() || (!self.options.https && self.options.hosts > 1) {
            let number = self.gate.hosts.fetch_add(1, Ordering::Relaxed);
            authority = self.options.authority(number);
        }
        if self.client.is_none() {
            let client = Client::connect(&self.options, &authority).await?;
            self.client = Some((client, authority.clone()));
            self.tally.connections += 1;
        }
        let (client, first) = self.client.as_mut().expect("connected above");
        let authority = if authority.is_empty() { &*first } else { &authority };
        let (status, length) = client.ask(&self.options, authority).await?;
        anyhow::ensure!(status == self.options.expect, "status {status} from {authority}");
        Ok(length)
    }
}
