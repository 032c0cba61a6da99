//! The origin of the drill's hosts, on loopback. Others on this machine may connect to it as well, and find nothing of value.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::probes;
use crate::upstream::egress::drill_hosts;

const CONTENT_USAGE: HeaderName = HeaderName::from_static("content-usage");
/// The arrivals of paced requests that are kept: those of the last drills.
const KEPT_ARRIVALS: usize = 4;

/// The running origin.
pub(super) struct DrillOrigin {
    arrived: Arc<Mutex<Vec<Arrival>>>,
    /// The times at which the last paced requests arrived.
    paced: Vec<Instant>,
}

/// A request for one of the drill's paths.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    label: String,
    at: Instant,
}

impl DrillOrigin {
    /// Starts to listen, and lets the drill's hosts lead here.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no port.
    pub(super) async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let arrived = Arc::<Mutex<Vec<Arrival>>>::default();
        let service = Router::new().fallback(answer).with_state(Arc::clone(&arrived));
        tokio::spawn(async move { axum::serve(listener, service).await });
        drill_hosts::lead_to(address);
        Ok(Self { arrived, paced: Vec::new() })
    }

    /// Returns the requests that have arrived since the last call of [`Self::forget_arrivals`].
    pub(super) fn arrivals(&self) -> Vec<Arrival> {
        lock(&self.arrived).clone()
    }

    /// Forgets those that were not paced.
    pub(super) fn forget_arrivals(&mut self) {
        let arrived = std::mem::take(&mut *lock(&self.arrived));
        let paced = arrived.iter().filter(|arrival| arrival.label == probes::PACED);
        self.paced.extend(paced.map(|arrival| arrival.at));
        let surplus = self.paced.len().saturating_sub(KEPT_ARRIVALS);
        self.paced.drain(..surplus);
    }

    /// Forgets all: another configuration keeps another pace, and knows nothing of what it did not pace.
    pub(super) fn forget_all(&mut self) {
        self.forget_arrivals();
        self.paced.clear();
    }

    /// Returns when paced requests arrived, in this drill and in the ones before.
    pub(super) fn paced_arrivals(&mut self) -> Vec<Instant> {
        self.forget_arrivals();
        self.paced.clone()
    }
}

fn lock(arrived: &Mutex<Vec<Arrival>>) -> MutexGuard<'_, Vec<Arrival>> {
    arrived.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(State(arrived): State<Arc<Mutex<Vec<Arrival>>>>, request: Request) -> Response {
    let host = request.headers().get(HOST).and_then(|value| value.to_str().ok());
    let host = host.map(|host| host.split(':').next().unwrap_or_default());
    let Some(label) = host.and_then(drill_hosts::label_of) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let path = request.uri().path();
    if path == "/robots.txt" {
        return robots_txt(label);
    }
    if !path.starts_with(probes::PATHS) {
        return StatusCode::NOT_FOUND.into_response();
    }
    lock(&arrived).push(Arrival { label: label.to_owned(), at: Instant::now() });
    if label == probes::STATED {
        return ([(CONTENT_USAGE, "train-ai=n")], "drill\n").into_response();
    }
    "drill\n".into_response()
}

fn robots_txt(label: &str) -> Response {
    let text = match label {
        label if label.starts_with(probes::UNREACHABLE) => {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        probes::SITE => probes::ROBOTS_TXT.to_owned(),
        probes::PACED => {
            format!("User-agent: *\nCrawl-delay: {}\n", probes::CRAWL_DELAY.as_secs())
        }
        _ => "User-agent: *\nAllow: /\n".to_owned(),
    };
    ([(CONTENT_TYPE, "text/plain")], text).into_response()
}
