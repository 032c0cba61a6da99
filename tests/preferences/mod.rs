//! Usage preferences: in robots.txt, in other documents, in header fields and in pages.

mod answers;
mod cases;
mod check;
mod documents;
pub mod purposes;
