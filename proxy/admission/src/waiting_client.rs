//! The client that waits while its request is admitted: whether it is still there.

use std::pin::Pin;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use wayleave_http_wire::received::HalfClosePolicy;
use wayleave_transport::http::downstream::Downstream;

/// A client that may leave while its request waits, which then takes nothing more from others.
pub trait WaitingClient: Send {
    /// Waits until nobody waits for the answer any more. A client that only closed its sending side may count as gone.
    fn gone(&mut self) -> impl Future<Output = ()> + Send;

    /// Like [`Self::gone`], but a client that only closed its sending side still counts as present.
    fn disconnected(&mut self) -> impl Future<Output = ()> + Send;

    /// Lets others of the client's requests be sent while this one waits for its slot.
    fn give_share_back(&mut self) {}

    /// Ends that.
    fn take_share_again(&mut self) {}
}

/// A client of the proxy.
impl WaitingClient for Downstream {
    fn gone(&mut self) -> impl Future<Output = ()> + Send {
        self.wait_until_left(self.half_close_policy())
    }

    fn disconnected(&mut self) -> impl Future<Output = ()> + Send {
        self.wait_until_left(HalfClosePolicy::StillWaiting)
    }

    fn give_share_back(&mut self) {
        self.give_share_back();
    }

    fn take_share_again(&mut self) {
        self.take_share_again();
    }
}

/// A gateway. The token is cancelled when nobody waits for the verdict any more.
impl WaitingClient for CancellationToken {
    fn gone(&mut self) -> impl Future<Output = ()> + Send {
        self.cancelled()
    }

    fn disconnected(&mut self) -> impl Future<Output = ()> + Send {
        self.cancelled()
    }
}

/// Returns the result of `work`, or `None` if the client leaves first. The caller pins `work`: passed by value it would take
/// its size twice in this future, and so in that of every exchange.
pub(crate) async fn run_unless_gone<T>(
    client: &mut impl WaitingClient,
    work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    tokio::select! {
        // Finished work counts even if the client leaves at the same moment.
        biased;
        done = work => Some(done),
        () = client.gone() => None,
    }
}

/// Like [`run_unless_gone`], but a client that only closed its sending side still counts as present.
pub(crate) async fn run_while_connected<T>(
    client: &mut impl WaitingClient,
    work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = client.disconnected() => None,
    }
}

/// Like [`run_unless_gone`], but a client's requests that wait here keep no others from being sent.
pub(crate) async fn wait_unless_gone<T>(
    client: &mut impl WaitingClient,
    mut work: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
    if let Some(done) = work.as_mut().now_or_never() {
        return Some(done);
    }
    client.give_share_back();
    let done = run_unless_gone(client, work).await;
    client.take_share_again();
    done
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn work_for_a_gateway_ends_when_nobody_waits_for_it() {
        let mut gateway = CancellationToken::new();
        let guard = gateway.clone().drop_guard();
        assert_eq!(run_unless_gone(&mut gateway, pin!(ready(1))).await, Some(1));
        assert_eq!(wait_unless_gone(&mut gateway, pin!(ready(2))).await, Some(2));
        drop(guard);
        assert_eq!(run_while_connected(&mut gateway, pin!(pending::<u8>())).await, None);
        assert_eq!(wait_unless_gone(&mut gateway, pin!(pending::<u8>())).await, None);
        // What is done already is not lost.
        assert_eq!(run_while_connected(&mut gateway, pin!(ready(3))).await, Some(3));
    }
}
