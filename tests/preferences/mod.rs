//! Usage preferences: in robots.txt, in other documents, in header fields and in pages.

mod answers;
mod cases;
mod check;
mod documents;
pub mod purposes;

use crate::harness::Reply;

/// Returns an RSL document that licenses everything on its host.
pub fn licence(terms: &str) -> Reply {
    Reply::text(format!(
        "<rsl xmlns=\"https://rslstandard.org/rsl\"><content url=\"/\"><license>{terms}</license></content></rsl>"
    ))
}
