//! A relay to an engine, an origin or the proxy: a test can cut its connections, hold back responses, or lose all bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

pub struct Relay {
    pub port: u16,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    holds_answers: bool,
    /// The number of connections that are forgotten: the first ones.
    forgotten: usize,
    accepted: usize,
    open: Vec<TcpStream>,
}

impl Relay {
    /// Starts a relay to a port of loopback.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let relay = Self {
            port: listener.local_addr().expect("it is bound").port(),
            state: Arc::default(),
        };
        let shared = Arc::clone(&relay.state);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let mut state = lock(&shared.0);
                let far = TcpStream::connect(("127.0.0.1", port));
                if let (false, Ok(far)) = (state.is_cut, far) {
                    let pair =
                        |from: &TcpStream, to: &TcpStream| (from.try_clone(), to.try_clone());
                    let number = state.accepted;
                    copy(pair(&near, &far), number, false, Arc::clone(&shared));
                    copy(pair(&far, &near), number, true, Arc::clone(&shared));
                    state.open.extend([near, far]);
                    state.accepted += 1;
                }
            }
        });
        relay
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub fn cut(&self) {
        let mut state = lock(&self.state.0);
        state.is_cut = true;
        for stream in std::mem::take(&mut state.open) {
            // Its other side may have closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn restore(&self) {
        lock(&self.state.0).is_cut = false;
    }

    /// Holds back responses from now on.
    pub fn hold_answers(&self) {
        lock(&self.state.0).holds_answers = true;
    }

    pub fn release_answers(&self) {
        lock(&self.state.0).holds_answers = false;
        self.state.1.notify_all();
    }

    /// Forgets the present connections, as routers do: they stay open, and all bytes on them are lost.
    pub fn forget(&self) {
        let mut state = lock(&self.state.0);
        state.forgotten = state.accepted;
    }

    /// Returns the number of connections that were made.
    pub fn accepted(&self) -> usize {
        lock(&self.state.0).accepted
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("no thread panics while it has it")
}

type Ends = (std::io::Result<TcpStream>, std::io::Result<TcpStream>);

fn copy((from, to): Ends, number: usize, is_answer: bool, shared: Arc<(Mutex<State>, Condvar)>) {
    let (mut from, mut to) = (from.expect("a socket"), to.expect("a socket"));
    std::thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let is_held = |state: &mut State| is_answer && state.holds_answers;
            let waited = shared.1.wait_while(lock(&shared.0), is_held);
            let state = waited.expect("no thread panics while it has it");
            if number < state.forgotten {
                continue;
            }
            drop(state);
            if to.write_all(&buffer[..length]).is_err() {
                return;
            }
        }
        if number >= lock(&shared.0).forgotten {
            let _ = to.shutdown(Shutdown::Both);
        }
    });
}
