//! HTTP/1 on a byte stream: heads, and bodies with their trailers, read strictly and written plainly.
//!
//! httparse splits a head into fields. This module decides where a message ends and refuses every message that two
//! readers could end at different places. Where RFC 9112 lets a proxy repair a response, it is repaired
//! first, and counted. pingora's HTTP/1 sessions are not used: they drop trailers, cannot read and write at the same
//! time, and accept malformed heads and chunk sizes.

mod body;
mod fields;
mod framing;
mod head;
pub mod oddities;
mod repair;
pub mod request_override;

pub use self::body::{BodyError, BodyReader, BodyWriter, Trailers};
pub use self::fields::{is_allowed_in_trailers, is_end_to_end, is_underscore_alias, write_fields};
pub use self::framing::{BodyFraming, agreed_content_length};
pub use self::head::{
    HeadError, MAX_FIELDS, MAX_HTTP2_TRAILERS, MAX_REQUEST_HEAD_BYTES, MAX_RESPONSE_HEAD_BYTES,
    RequestHead, ResponseHead, SWITCHING_PROTOCOLS, has_content,
};
