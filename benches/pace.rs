//! The adaptive pace before servers of known capacity, in virtual time: how much of it is used, how many requests are
//! refused, and how much slower the slowest answers are than those of an idle server. Several proxies find one pace together, as
//! nodes of a fleet do, with an engine that answers at once.
//!
//! `cargo bench -p wayleave-benches --bench pace`. Clients always have another request. The goal before servers whose answers
//! take about the same time: 90 % used, 99th percentile at most 1.5 times that of an idle server.
//!
//! ```text
//!                                  proxies   used  refused  p99/idle
//! 8 workers, 50 ms each                  1  96.9%    0.00%      1.33
//! 8 workers, 50 ms each                  3  94.9%    0.00%      1.31
//! 1 worker, 100 ms                       1  94.7%    0.00%      1.41
//! 1 worker, 100 ms                       3  94.2%    0.00%      1.55
//! 64 workers, 200 ms                     1  94.3%    0.00%      1.14
//! 64 workers, 200 ms                     3  95.7%    0.00%      1.04
//! 8 workers, exponential                 1  81.7%    0.00%      1.02
//! 8 workers, exponential                 3  84.4%    0.00%      1.34
//! 8 workers, 503 beyond 16               1  94.4%    0.00%      1.20
//! 8 workers, 503 beyond 16               3  95.9%    0.00%      1.29
//! 10 a second, Retry-After: 1            1  97.9%    0.03%      1.00
//! 10 a second, Retry-After: 1            3  98.1%    0.03%      1.00
//! 10 a second, Retry-After: 10           1  95.7%    0.03%      1.00
//! 10 a second, Retry-After: 10           3  95.9%    0.02%      1.00
//! 100 a second, Retry-After: 1           1  98.3%    0.00%      1.00
//! 100 a second, Retry-After: 1           3  97.8%    0.00%      1.00
//! 1 a second, Retry-After: 5             1  97.9%    0.06%      1.00
//! 1 a second, Retry-After: 5             3  97.7%    0.06%      1.00
//! 0.1 a second, Retry-After: 60          1  96.8%    0.06%      1.00
//! 0.1 a second, Retry-After: 60          3  96.8%    0.06%      1.00
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use wayleave_fleet::pace_turn::PaceBook;
use wayleave_pacing::adaptive::{AdaptivePace, SlowDownCause};

/// A server, and the clients before it.
#[derive(Clone, Copy)]
struct Scenario {
    name: &'static str,
    workers: usize,
    /// The mean time of an answer, in seconds.
    service: f64,
    has_exponential_service: bool,
    /// The requests per second that are not refused with 429, and how many at once; 0: no limit.
    limit: f64,
    burst: f64,
    /// The number of requests in the queue beyond which it answers 503.
    queue: f64,
    retry_after: f64,
    clients: usize,
    /// The simulated time, in seconds; the first quarter is not measured.
    seconds: f64,
}

const QUEUEING: Scenario = Scenario {
    name: "8 workers, 50 ms each",
    workers: 8,
    service: 0.05,
    has_exponential_service: false,
    limit: 0.0,
    burst: 5.0,
    queue: f64::INFINITY,
    retry_after: 1.0,
    clients: 100,
    seconds: 600.0,
};

const LIMITING: Scenario =
    Scenario { name: "10 a second, Retry-After: 1", limit: 10.0, seconds: 1200.0, ..QUEUEING };

const SCENARIOS: [Scenario; 10] = [
    QUEUEING,
    Scenario { name: "1 worker, 100 ms", workers: 1, service: 0.1, clients: 50, ..QUEUEING },
    Scenario { name: "64 workers, 200 ms", workers: 64, service: 0.2, clients: 400, ..QUEUEING },
    Scenario { name: "8 workers, exponential", has_exponential_service: true, ..QUEUEING },
    Scenario { name: "8 workers, 503 beyond 16", queue: 16.0, ..QUEUEING },
    LIMITING,
    Scenario {
        name: "10 a second, Retry-After: 10",
        retry_after: 10.0,
        seconds: 3600.0,
        ..LIMITING
    },
    Scenario { name: "100 a second, Retry-After: 1", limit: 100.0, burst: 50.0, ..LIMITING },
    Scenario {
        name: "1 a second, Retry-After: 5",
        limit: 1.0,
        burst: 2.0,
        retry_after: 5.0,
        seconds: 7200.0,
        ..LIMITING
    },
    Scenario {
        name: "0.1 a second, Retry-After: 60",
        limit: 0.1,
        burst: 1.0,
        retry_after: 60.0,
        seconds: 72_000.0,
        ..LIMITING
    },
];

fn main() {
    println!("{:32} proxies   used  refused  p99/idle", "");
    for scenario in SCENARIOS {
        for proxies in [1, 3] {
            let Measured { used, refused, slowdown } = Simulation::new(scenario, proxies).run();
            println!(
                "{:32} {proxies:7} {:5.1}% {:7.2}% {slowdown:9.2}",
                scenario.name,
                used * 100.0,
                refused * 100.0
            );
        }
    }
}

struct Measured {
    used: f64,
    refused: f64,
    slowdown: f64,
}

/// An answer on its way: the time at which it arrives, and at which its request was sent, in nanoseconds; the proxy; the status.
type Answer = (u64, u64, usize, u16);

struct Simulation {
    scenario: Scenario,
    paces: Vec<AdaptivePace>,
    /// The turns of the fleet, and the time of the turn that each proxy waits for.
    book: PaceBook,
    turns: Vec<Option<f64>>,
    idle_clients: Vec<usize>,
    /// The times at which workers are free.
    free_at: Vec<f64>,
    tokens: f64,
    tokens_at: f64,
    rests_until: f64,
    pending: BinaryHeap<Reverse<Answer>>,
    random: u64,
    response_times: Vec<f64>,
    refused: usize,
}

impl Simulation {
    fn new(scenario: Scenario, proxies: usize) -> Self {
        Self {
            scenario,
            paces: vec![AdaptivePace::default(); proxies],
            book: PaceBook::default(),
            turns: vec![None; proxies],
            idle_clients: vec![scenario.clients / proxies; proxies],
            free_at: vec![0.0; scenario.workers],
            tokens: scenario.burst,
            tokens_at: 0.0,
            rests_until: 0.0,
            pending: BinaryHeap::new(),
            random: 88_172_645_463_325_252,
            response_times: Vec::new(),
            refused: 0,
        }
    }

    /// Returns a random number from 0 to 1 (xorshift): the same in every run.
    fn random(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn service_time(&mut self) -> f64 {
        let random = self.random();
        if self.scenario.has_exponential_service {
            -self.scenario.service * (1.0 - random).ln()
        } else {
            self.scenario.service * (0.8 + 0.4 * random)
        }
    }

    fn run(mut self) -> Measured {
        let mut now = 0.0;
        while now < self.scenario.seconds {
            let next_at = |proxy: usize| {
                let is_idle = self.idle_clients[proxy] > 0;
                let rested_at = self.paces[proxy].next_at().as_secs_f64().max(self.rests_until);
                let at = self.turns[proxy].unwrap_or(rested_at).max(now);
                is_idle.then_some((at, proxy))
            };
            let next = (0..self.paces.len()).filter_map(next_at).min_by(|a, b| a.0.total_cmp(&b.0));
            let answer_at = self.pending.peek().map(|Reverse((at, ..))| *at as f64 / 1e9);
            match next {
                Some((at, proxy)) if answer_at.is_none_or(|answer_at| at <= answer_at) => {
                    now = at;
                    if self.has_turn(now, proxy) {
                        self.send(now, proxy);
                    }
                }
                _ => now = self.receive(),
            }
        }
        self.measured()
    }

    /// Returns whether a proxy may send a request now; else it waits for its turn.
    fn has_turn(&mut self, now: f64, proxy: usize) -> bool {
        let pace = &mut self.paces[proxy];
        let at = Duration::from_secs_f64(now);
        if self.turns.len() == 1 {
            pace.record_sent(at);
            return true;
        }
        if self.turns[proxy].take().is_some() {
            // Unless the pace was slowed down while it waited.
            return pace.next_at() <= at && self.rests_until <= now;
        }
        if !pace.needs_turn(at) {
            pace.record_unasked();
            return true;
        }
        let turn = pace.turn(at, String::new(), Duration::MAX);
        let answer = self.book.take(at, Duration::from_secs_f64(self.rests_until), &turn);
        pace.record_turn(at, &turn, &answer);
        self.turns[proxy] = Some(now + answer.wait.as_secs_f64());
        false
    }

    fn send(&mut self, now: f64, proxy: usize) {
        self.idle_clients[proxy] -= 1;
        let Scenario { limit, burst, queue, service, workers, .. } = self.scenario;
        self.tokens = (self.tokens + (now - self.tokens_at) * limit).min(burst);
        self.tokens_at = now;
        let first = (0..workers).min_by(|a, b| self.free_at[*a].total_cmp(&self.free_at[*b]));
        let worker = first.expect("a worker");
        let begins_at = self.free_at[worker].max(now);
        let (status, answered_at) = if limit > 0.0 && self.tokens < 1.0 {
            (429, now + 0.002)
        } else if begins_at - now > queue * service / workers as f64 {
            (503, now + 0.002)
        } else {
            self.tokens -= 1.0;
            self.free_at[worker] = begins_at + self.service_time();
            (200, self.free_at[worker])
        };
        let nanoseconds = |seconds: f64| (seconds * 1e9) as u64;
        self.pending.push(Reverse((nanoseconds(answered_at), nanoseconds(now), proxy, status)));
    }

    /// Receives the next answer. Returns its time.
    fn receive(&mut self) -> f64 {
        let Reverse((at, sent_at, proxy, status)) = self.pending.pop().expect("one is pending");
        self.idle_clients[proxy] += 1;
        let [at, sent_at] = [at, sent_at].map(Duration::from_nanos);
        let is_measured = at.as_secs_f64() > self.scenario.seconds / 4.0;
        let cause = match status {
            200 => {
                self.paces[proxy].record_answer(at, sent_at, Some(at - sent_at));
                if is_measured {
                    self.response_times.push((at - sent_at).as_secs_f64());
                }
                return at.as_secs_f64();
            }
            429 => SlowDownCause::TooManyRequests,
            _ => SlowDownCause::Unavailable,
        };
        self.refused += usize::from(is_measured);
        self.rests_until = self.rests_until.max(at.as_secs_f64() + self.scenario.retry_after);
        let until = Duration::from_secs_f64(self.rests_until);
        self.paces[proxy].record_refusal(at, sent_at, cause);
        for pace in &mut self.paces {
            pace.note_rest(at, until);
        }
        // The other nodes of a fleet are told.
        if self.paces.len() > 1 && self.paces[proxy].has_slowed_down() {
            let pace = &mut self.paces[proxy];
            let mut turn = pace.turn(at, String::new(), Duration::ZERO);
            turn.requests = 0;
            let answer = self.book.take(at, until, &turn);
            pace.record_turn(at, &turn, &answer);
        }
        at.as_secs_f64()
    }

    fn measured(mut self) -> Measured {
        let Scenario { workers, service, limit, seconds, .. } = self.scenario;
        let capacity = workers as f64 / service;
        let capacity = if limit > 0.0 { capacity.min(limit) } else { capacity };
        let answered = self.response_times.len() as f64;
        let mut idle: Vec<f64> = (0..20_000).map(|_| self.service_time()).collect();
        Measured {
            used: answered / (seconds * 0.75) / capacity,
            refused: self.refused as f64 / (self.refused as f64 + answered),
            slowdown: percentile(&mut self.response_times) / percentile(&mut idle),
        }
    }
}

/// Returns the 99th percentile.
fn percentile(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() * 99 / 100]
}
