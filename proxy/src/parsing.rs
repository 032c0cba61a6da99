//! Parsing apart from the threads that serve requests: what origins send may be long, and take long to read.

use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

/// To hand over what is no longer takes more than to parse it.
const SHORT_BYTES: usize = 64 << 10;

/// Parses on other threads, so many files at a time that cores are left to requests.
#[derive(Clone, Debug)]
pub(crate) struct Parser {
    places: Arc<Semaphore>,
}

impl Parser {
    /// Uses half of the cores.
    pub(crate) fn new() -> Self {
        let places = Arc::new(Semaphore::new(places()));
        Self { places }
    }

    /// Returns what `parse` makes of so many `bytes`. If they are many, it runs on another thread, in its turn. Giving the wait up
    /// loses the result only; what has begun ends first, and holds its place as long.
    ///
    /// # Panics
    ///
    /// If `parse` does.
    pub(crate) async fn parse<T: Send + 'static>(
        &self,
        bytes: usize,
        parse: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        if bytes <= SHORT_BYTES {
            return parse();
        }
        let place = Arc::clone(&self.places).acquire_owned().await;
        let parsing = spawn_blocking(move || {
            let _place = place;
            parse()
        });
        match parsing.await.map_err(JoinError::try_into_panic) {
            Ok(parsed) => parsed,
            Err(Ok(panic)) => resume_unwind(panic),
            // It was not begun: the runtime ends, and whoever waits here with it.
            Err(Err(_)) => pending().await,
        }
    }

    /// Takes all places: until this is dropped, nothing that is long is parsed.
    #[cfg(test)]
    pub(crate) async fn take_all(&self) -> tokio::sync::OwnedSemaphorePermit {
        let all = u32::try_from(places()).expect("a few");
        let taken = Arc::clone(&self.places).acquire_many_owned(all).await;
        taken.expect("it is never closed")
    }
}

fn places() -> usize {
    let cores = available_parallelism().map_or(1, usize::from);
    cores.div_ceil(2)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn what_is_long_is_parsed_on_another_thread() {
        let here = thread::current().id();
        let parser = Parser::new();
        let short = parser.parse(SHORT_BYTES, || thread::current().id());
        assert_eq!(short.await, here);
        let elsewhere = parser.parse(SHORT_BYTES + 1, || thread::current().id());
        let elsewhere = elsewhere.await;
        assert_ne!(elsewhere, here);
    }

    /// A fetch that panics still ends, as a failure of its origin.
    #[tokio::test]
    async fn a_panic_is_that_of_whoever_waits() {
        let parser = Parser::new();
        let parsing = async move {
            parser
                .parse(SHORT_BYTES + 1, || panic!("as expected"))
                .await
        };
        let parsing = tokio::spawn(parsing);
        assert!(parsing.await.is_err_and(|error| error.is_panic()));
    }
}
