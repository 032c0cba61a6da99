//! Tickets: the turns of clients that were refused with a `Retry-After`.
//!
//! Where requests do not wait, a client that asks all the time would get every slot, because it is there the moment one is free.
//! So a refused client keeps its turn until its `Retry-After` and a little longer, and until then those behind it are refused,
//! each with a `Retry-After` of its own. A client has one ticket for each queue. One that lets a ticket lapse gets no other for a
//! while, so that nobody delays others by asking and never coming.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;
use wayleave_fleet::engine::SlotRequest;

/// The time for which a client that let a ticket lapse gets no other.
const LAPSE_LASTS: Duration = Duration::from_mins(1);
/// The maximum number of tickets, and of lapses, remembered for each queue.
const MAX_TICKETS: usize = 256;

/// The one whose turn a request takes, as hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TurnHolder {
    /// The origin, where several share a pace.
    pub(super) origin: u64,
    /// The client, and its crawler where several share a pace.
    pub(super) client: u64,
    /// The client's address.
    pub(super) address: u64,
}

/// The tickets of one queue, in the order of their turns.
#[derive(Default)]
pub(super) struct Tickets {
    kept: VecDeque<Ticket>,
    lapsed: VecDeque<Ticket>,
}

/// The turn of a client that was refused, or that it did not take.
#[derive(Clone, Copy)]
struct Ticket {
    holder: TurnHolder,
    /// The end of its `Retry-After`, or the time at which its ticket lapsed.
    at: Instant,
}

impl Tickets {
    /// Returns how many turns of others come before that of `holder`. Those of the same client,
    /// which has several where origins or crawlers share a pace, do not count.
    pub(super) fn ahead_of(&self, holder: TurnHolder) -> usize {
        let place = self.place_of(holder).unwrap_or(self.kept.len());
        self.kept.iter().take(place).filter(|kept| kept.holder.address != holder.address).count()
    }

    /// Returns whether a holder may still come in time.
    pub(super) fn is_any_awaited(&self) -> bool {
        let now = Instant::now();
        self.kept.iter().any(|kept| now <= kept.at + SlotRequest::TURN_GRACE)
    }

    /// Lets the tickets lapse whose holders could have taken one of `free` slots, free since `free_since` if that is known, and did
    /// not.
    pub(super) fn expire(&mut self, free: usize, free_since: Option<Instant>) {
        let now = Instant::now();
        let mut place = 0;
        while place < free
            && let Some(ticket) = self.kept.get(place)
        {
            if now <= ticket.at.max(free_since.unwrap_or(ticket.at)) + SlotRequest::TURN_GRACE {
                place += 1;
                continue;
            }
            let holder = ticket.holder;
            self.kept.remove(place);
            if self.lapsed.len() >= MAX_TICKETS {
                self.lapsed.pop_front();
            }
            self.lapsed.push_back(Ticket { holder, at: now });
        }
    }

    /// Keeps the turn of a client that may come at `at`. One that has a ticket keeps its place.
    pub(super) fn keep(&mut self, holder: TurnHolder, at: Instant) {
        if let Some(place) = self.place_of(holder) {
            self.kept[place].at = at;
        } else if self.kept.len() < MAX_TICKETS && !self.has_lapsed(holder) {
            self.kept.push_back(Ticket { holder, at });
        }
    }

    /// Returns whether a client let a ticket lapse lately.
    pub(super) fn has_lapsed(&self, holder: TurnHolder) -> bool {
        let now = Instant::now();
        self.lapsed.iter().any(|lapsed| lapsed.holder == holder && now < lapsed.at + LAPSE_LASTS)
    }

    /// Ends the ticket of a client that has its turn.
    pub(super) fn end(&mut self, holder: TurnHolder) {
        self.kept.retain(|kept| kept.holder != holder);
    }

    fn place_of(&self, holder: TurnHolder) -> Option<usize> {
        self.kept.iter().position(|kept| kept.holder == holder)
    }
}
