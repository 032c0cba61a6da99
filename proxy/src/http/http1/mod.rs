//! HTTP/1 on a byte stream: heads, and bodies with their trailers, read strictly and written plainly.
//!
//! httparse parses; what is here decides where a message ends and refuses every message whose end
//! two readers could see in different places. What an origin sends and RFC 9112 lets a proxy mend is mended first. pingora's HTTP/1 sessions, which stood here first,
//! drop trailers, cannot read and write at once, and take heads and chunk sizes that are none.

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
