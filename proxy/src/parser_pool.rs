//! Parsing on threads apart from those that serve requests: documents from origins may be long, and slow to parse.

use std::future::pending;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

/// The length up to which handing a document to another thread takes longer than parsing it.
const INLINE_BYTES: usize = 64 << 10;

/// Runs parsers on other threads, but only so many at a time that cores remain for requests.
#[derive(Clone, Debug)]
pub(crate) struct ParserPool {
    permits: Arc<Semaphore>,
}

impl ParserPool {
    /// Allows as many parsers at a time as half of the cores.
    pub(crate) fn new() -> Self {
        let permits = Arc::new(Semaphore::new(max_parallel()));
        Self { permits }
    }

    /// Returns the result of `parse`, which reads `bytes` bytes. A long document is parsed on another thread, after
    /// those that came first. Cancelling the wait loses only the result: a parser that has started runs to its end,
    /// and keeps its permit until then.
    ///
    /// # Panics
    ///
    /// If `parse` does.
    pub(crate) async fn parse<T: Send + 'static>(
        &self,
        bytes: usize,
        parse: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        if bytes <= INLINE_BYTES {
            return parse();
        }
        let place = Arc::clone(&self.permits).acquire_owned().await;
        let parsing = spawn_blocking(move || {
            // Moved into the closure: a wait that is cancelled must not free the permit of a parser that runs.
            let _place = place;
            parse()
        });
        match parsing.await.map_err(JoinError::try_into_panic) {
            Ok(parsed) => parsed,
            Err(Ok(panic)) => resume_unwind(panic),
            // It was never started: the runtime shuts down, and this task with it.
            Err(Err(_)) => pending().await,
        }
    }

    /// Takes all permits: until they are dropped, no long document is parsed.
    #[cfg(test)]
    pub(crate) async fn occupy(&self) -> tokio::sync::OwnedSemaphorePermit {
        let all = u32::try_from(max_parallel()).expect("a few");
        let taken = Arc::clone(&self.permits).acquire_many_owned(all).await;
        taken.expect("it is never closed")
    }
}

fn max_parallel() -> usize {
    let cores = available_parallelism().map_or(1, usize::from);
    cores.div_ceil(2)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn long_documents_are_parsed_on_another_thread() {
        let here = thread::current().id();
        let parser = ParserPool::new();
        let short = parser.parse(INLINE_BYTES, || thread::current().id());
        assert_eq!(short.await, here);
        let elsewhere = parser.parse(INLINE_BYTES + 1, || thread::current().id());
        let elsewhere = elsewhere.await;
        assert_ne!(elsewhere, here);
    }

    /// A fetch that panics still ends, as a failure of its origin.
    #[tokio::test]
    async fn panic_reaches_the_waiting_task() {
        let parser = ParserPool::new();
        let parsing = async move { parser.parse(INLINE_BYTES + 1, || panic!("as expected")).await };
        let parsing = tokio::spawn(parsing);
        assert!(parsing.await.is_err_and(|error| error.is_panic()));
    }
}
