//! The threads that serve connections. One of them serves a connection to its end, so that no other is woken for it.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::runtime::{Handle, Id};

/// The threads of a service.
#[derive(Debug)]
pub struct WorkerThreads(Vec<WorkerThread>);

/// A thread. Each connection that it serves holds a clone, by which it is counted.
#[derive(Clone, Debug)]
pub struct WorkerThread {
    pub runtime: Handle,
    clones: Arc<()>,
}

impl WorkerThreads {
    /// Finds the `count` threads of the pingora service that this runs in.
    pub(super) fn of_service(count: usize) -> Self {
        // pingora only returns one at random. After so many draws the chance that one was never drawn is less than 10^-25.
        let draws = 64 * count;
        let drawn = (0..draws).map(|_| pingora_runtime::current_handle());
        let by_id: HashMap<Id, Handle> = drawn.map(|runtime| (runtime.id(), runtime)).collect();
        let with_none = |runtime| WorkerThread { runtime, clones: Arc::default() };
        Self(by_id.into_values().map(with_none).collect())
    }

    /// Returns the thread that serves the fewest connections.
    pub fn least_busy(&self) -> WorkerThread {
        let connections = |thread: &&WorkerThread| Arc::strong_count(&thread.clones);
        self.0.iter().min_by_key(connections).expect("a service has threads").clone()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use pingora_runtime::Runtime;

    use super::*;

    #[test]
    fn connections_are_spread_over_all_threads() {
        let runtime = Runtime::new_no_steal(3, "test");
        let finding = runtime.get_handle().spawn(async { WorkerThreads::of_service(3) });
        let threads = runtime.get_handle().block_on(finding).expect("it does not panic");
        // Whatever else runs on it does not count.
        threads.0[0].runtime.spawn(pending::<()>());
        let mut connections: Vec<_> = (0..12).map(|_| threads.least_busy()).collect();
        let mut of_threads = HashMap::<Id, usize>::new();
        for connection in &connections {
            *of_threads.entry(connection.runtime.id()).or_default() += 1;
        }
        assert_eq!(of_threads.into_values().collect::<Vec<_>>(), [4, 4, 4]);
        let ended = connections.remove(5);
        let id = ended.runtime.id();
        drop(ended);
        assert_eq!(threads.least_busy().runtime.id(), id);
        runtime.shutdown_timeout(std::time::Duration::ZERO);
    }
}
