//! Runs futures that never wait, because they read from memory.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

pub fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("reading from memory never waits"),
    }
}
