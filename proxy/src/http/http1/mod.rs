//! HTTP/1 on a byte stream: heads, and bodies with their trailers, read strictly and written plainly.
//!
//! httparse splits a head into fields. This module decides where a message ends and refuses every message that two
//! readers could end at different places. Where RFC 9112 lets a proxy repair what an origin sent, it is repaired
//! first, and counted. pingora's HTTP/1 sessions are not used: they drop trailers, cannot read and write at the same
//! time, and accept malformed heads and chunk sizes.

mod body;
mod fields;
mod framing;
mod head;
mod mend;
pub(crate) mod oddities;
pub(crate) mod overrides;

pub(crate) use self::body::{BodyError, BodyReader, BodyWriter, Trailers};
pub(crate) use self::fields::{
    is_for_every_hop, is_taken_for_another, may_be_a_trailer, write_fields,
};
pub(crate) use self::framing::{Framing, agreed_length};
pub(crate) use self::head::{
    HeadError, MAX_FIELDS, MAX_HEAD_BYTES, RequestHead, ResponseHead, has_content,
};
