//! The threads that serve connections. A connection stays on its thread, so that nothing else has to be woken for it.

use std::collections::HashMap;

use tokio::runtime::{Handle, Id};

/// The runtimes of the threads of a service, one each.
#[derive(Debug)]
pub(crate) struct WorkerThreads(Vec<Handle>);

impl WorkerThreads {
    /// Finds the `count` threads of the pingora service that this runs in.
    pub(crate) fn of_service(count: usize) -> Self {
        // pingora only returns one at random. After so many draws the chance that one was never drawn is less than 10^-25.
        let draws = 64 * count;
        let drawn = (0..draws).map(|_| pingora_runtime::current_handle());
        let by_id: HashMap<Id, Handle> = drawn.map(|runtime| (runtime.id(), runtime)).collect();
        Self(by_id.into_values().collect())
    }

    /// Returns the thread with the fewest tasks, so the fewest connections.
    pub(super) fn least_busy(&self) -> &Handle {
        let tasks = |runtime: &&Handle| runtime.metrics().num_alive_tasks();
        self.0.iter().min_by_key(tasks).expect("a service has threads")
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
        let mut tasks = HashMap::<Id, usize>::new();
        for _ in 0..12 {
            let least_busy = threads.least_busy();
            least_busy.spawn(pending::<()>());
            *tasks.entry(least_busy.id()).or_default() += 1;
        }
        assert_eq!(tasks.into_values().collect::<Vec<_>>(), [4, 4, 4]);
        runtime.shutdown_timeout(std::time::Duration::ZERO);
    }
}
