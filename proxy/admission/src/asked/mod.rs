//! The gate's answers to somebody else who sends a request and receives its response: a gateway, or a program with the gate
//! inside.

mod request;
mod response;
mod verdict;

pub use self::request::{ask_in_task, refuse_unread};
pub use self::response::{
    PassedResponse, ResponseVerdict, judge_response, record_cut, refuse_broken,
};
pub use self::verdict::{ALLOWED, AskedVerdict};
