//! The nodes, as seen by the process that started them: it tells each what to offer, and adds up what they report.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::node::{Mix, NodeCounts};

/// The number of nodes.
pub(super) const NODES: usize = 8;
/// The clock ticks a second of `/proc/PID/stat`.
const TICKS: f64 = 100.0;

/// The processes of the nodes, all on processor 1.
pub(super) struct FleetNodes(Vec<NodeProcess>);

struct NodeProcess {
    process: Child,
    orders: ChildStdin,
    reports: BufReader<ChildStdout>,
}

/// The reports of all nodes about one step.
#[derive(Default)]
pub(super) struct StepReport {
    pub(super) counts: NodeCounts,
    /// The requests to each origin with a delay: when it was sent and answered, in microseconds since the epoch.
    sent: HashMap<usize, Vec<(u64, u64)>>,
}

impl FleetNodes {
    /// Starts the nodes, and waits until each knows its origins.
    pub(super) fn start(mix: Mix, port: u16, origins: usize) -> Result<Self, Box<dyn Error>> {
        let program = std::env::current_exe()?;
        let numbers = 0..NODES;
        let nodes: Result<Vec<_>, Box<dyn Error>> = numbers
            .map(|number| {
                let mut process = Command::new("taskset")
                    .args(["-c", "1"])
                    .arg(&program)
                    .args([mix.name(), &origins.to_string(), "node", &port.to_string()])
                    .arg(number.to_string())
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()?;
                let orders = process.stdin.take().ok_or("no input")?;
                let reports = BufReader::new(process.stdout.take().ok_or("no output")?);
                Ok(NodeProcess { process, orders, reports })
            })
            .collect();
        let mut nodes = nodes?;
        for node in &mut nodes {
            let mut ready = String::new();
            node.reports.read_line(&mut ready)?;
            if ready.trim() != "ready" {
                return Err(format!("a node says {ready:?} instead of being ready").into());
            }
        }
        Ok(Self(nodes))
    }

    /// Has all nodes together make `rate` decisions a second.
    pub(super) fn offer(
        &mut self,
        rate: usize,
        span: Duration,
    ) -> Result<StepReport, Box<dyn Error>> {
        for node in &mut self.0 {
            writeln!(node.orders, "{} {}", rate as f64 / NODES as f64, span.as_secs())?;
        }
        let mut step = StepReport::default();
        for node in &mut self.0 {
            loop {
                let mut line = String::new();
                if node.reports.read_line(&mut line)? == 0 {
                    return Err("a node ended".into());
                }
                let numbers: Result<Vec<u64>, _> =
                    line.split_whitespace().map(str::parse).collect();
                match numbers?.as_slice() {
                    [origin, sent_at, answered_at] => {
                        let sent = step.sent.entry(usize::try_from(*origin)?).or_default();
                        sent.push((*sent_at, *answered_at));
                    }
                    counts => {
                        step.counts.add(counts)?;
                        break;
                    }
                }
            }
        }
        Ok(step)
    }

    /// Returns the processor time of all nodes so far, in seconds.
    pub(super) fn processor_time(&self) -> Result<f64, Box<dyn Error>> {
        let mut ticks = 0.0;
        for node in &self.0 {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", node.process.id()))?;
            // After the name, which may contain spaces: the 14th and 15th field.
            let (_, fields) = stat.rsplit_once(')').ok_or("a strange /proc/PID/stat")?;
            for field in fields.split_whitespace().skip(11).take(2) {
                ticks += field.parse::<f64>()?;
            }
        }
        Ok(ticks / TICKS)
    }
}

impl Drop for FleetNodes {
    fn drop(&mut self) {
        for node in &mut self.0 {
            // It may have ended by itself.
            let _ = node.process.kill();
            let _ = node.process.wait();
        }
    }
}

impl StepReport {
    /// Returns the shortest time from an answer to the next request to the same origin, in microseconds; negative if a request
    /// was sent before the answer to the one before. `None` if no origin with a delay got two requests.
    pub(super) fn least_gap(&self) -> Option<i64> {
        let gaps = self.sent.values().flat_map(|sent| {
            let mut sent = sent.clone();
            sent.sort_unstable();
            let pairs = sent.windows(2);
            pairs.map(|pair| pair[1].0.cast_signed() - pair[0].1.cast_signed()).collect::<Vec<_>>()
        });
        gaps.min()
    }
}
