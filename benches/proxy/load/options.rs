//! What to ask for, how often and how long.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;

/// The command line.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// The proxy; without it the origin is asked directly.
    #[arg(long)]
    pub(crate) via: Option<SocketAddr>,
    /// Ask by HTTPS: through CONNECT and TLS.
    #[arg(long)]
    pub(crate) https: bool,
    /// Speak HTTP/2 inside TLS.
    #[arg(long)]
    pub(crate) http2: bool,
    /// The origins' name; `{}` becomes a number.
    #[arg(long, default_value = "localhost")]
    pub(crate) host: String,
    /// The origins' port.
    #[arg(long)]
    pub(crate) port: u16,
    /// How many origins are asked in turn.
    #[arg(long, default_value_t = 1)]
    pub(crate) hosts: usize,
    /// The number of the first origin.
    #[arg(long, default_value_t = 0)]
    pub(crate) first_host: usize,
    #[arg(long, default_value = "/1k")]
    pub(crate) path: String,
    /// The status that every answer must have.
    #[arg(long, default_value_t = 200)]
    pub(crate) expect: u16,
    #[arg(long, default_value_t = 32)]
    pub(crate) connections: usize,
    /// Requests under way on one HTTP/2 connection.
    #[arg(long, default_value_t = 1)]
    pub(crate) streams: usize,
    /// A new connection after so many requests; 0: never.
    #[arg(long, default_value_t = 0)]
    pub(crate) renew_after: usize,
    #[arg(long, default_value_t = 3.0)]
    pub(crate) seconds: f64,
    /// Requests before the measurement, on each connection.
    #[arg(long, default_value_t = 20)]
    pub(crate) warm_up: usize,
    /// The most requests in the measurement; 0: no bound but time.
    #[arg(long, default_value_t = 0)]
    pub(crate) requests: usize,
    /// Requests per second over all connections; 0: as many as the answers allow.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) rate: f64,
    #[arg(long, default_value = "BenchBot/1.0")]
    pub(crate) user_agent: String,
}

impl Options {
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// The pause between two requests of one connection at a fixed rate.
    pub(crate) fn interval(&self) -> Option<Duration> {
        let connections = u32::try_from(self.connections).unwrap_or(u32::MAX);
        (self.rate > 0.0).then(|| Duration::from_secs_f64(f64::from(connections) / self.rate))
    }

    /// The authority of origin `number`, counted over all.
    pub(crate) fn authority(&self, number: usize) -> String {
        let number = self.first_host + number % self.hosts;
        let host = self.host.replace("{}", &number.to_string());
        format!("{host}:{}", self.port)
    }
}
