//! The head of an ICAP message: its line, its fields, and where the parts of the message inside begin.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use wayleave_record::DecisionId;

use super::error::{IcapError, IcapStatus};

/// The most fields of a head.
const MAX_FIELDS: usize = 100;
/// The longest preview that is taken; none is asked for.
const MAX_PREVIEW_BYTES: usize = 64 * 1024;
/// The fields by which another reader might see a body of the ICAP message itself.
const OF_OTHER_FRAMINGS: [&str; 3] = ["content-length", "transfer-encoding", "trailer"];

/// What a peer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IcapMethod {
    Options,
    ReqMod,
    RespMod,
}

/// The services, by their paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IcapService {
    /// `/request`
    Requests,
    /// `/response`
    Responses,
}

/// The parts of the message inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encapsulated {
    /// The length of the request's head.
    pub(super) request_bytes: usize,
    /// The length of the response's head; `None` in a REQMOD.
    pub(super) response_bytes: Option<usize>,
    pub(super) has_body: bool,
}

/// A head that was read.
#[derive(Debug)]
pub(super) struct IcapHead {
    pub(super) method: IcapMethod,
    pub(super) service: IcapService,
    pub(super) fields: HeaderMap,
    /// `None` for OPTIONS.
    pub(super) encapsulated: Option<Encapsulated>,
    /// The most bytes of the preview, if there is one.
    pub(super) preview: Option<usize>,
    /// Whether 204 may be the answer after more than a preview.
    pub(super) allows_204: bool,
    /// Whether the peer sends no more messages.
    pub(super) closes: bool,
}

impl IcapHead {
    /// Parses a head that is complete, with the empty line at its end.
    ///
    /// # Errors
    ///
    /// Returns the answer to one that is malformed, or asks for something that there is not.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, IcapError> {
        let text = bytes.strip_suffix(b"\r\n\r\n").ok_or_else(unended)?;
        let mut lines = text.split(|byte| *byte == b'\n');
        let first = lines.next().map(without_cr).unwrap_or_default();
        // Before the method: it may be another version's.
        let (method, target) = request_line(first)?;
        let mut fields = HeaderMap::new();
        for line in lines {
            let (name, value) = field(without_cr(line))?;
            if fields.len() == MAX_FIELDS {
                return Err(IcapError::new(IcapStatus::TooLarge, "more than 100 fields"));
            }
            fields.append(name, value);
        }
        if let Some(name) = OF_OTHER_FRAMINGS.iter().find(|name| fields.contains_key(**name)) {
            return Err(IcapError::malformed(format!("{name} is no field of an ICAP message")));
        }
        let service = service(target)?;
        let (method, encapsulated) = method_and_parts(method, service, &fields)?;
        let preview = match single(&fields, "preview")? {
            Some(value) => {
                Some(number(value).filter(|most| *most <= MAX_PREVIEW_BYTES).ok_or_else(|| {
                    IcapError::malformed("Preview is not a number of at most 65536 bytes")
                })?)
            }
            None => None,
        };
        Ok(Self {
            method,
            service,
            encapsulated,
            preview,
            allows_204: lists(&fields, "allow", b"204"),
            closes: lists(&fields, "connection", b"close"),
            fields,
        })
    }

    /// Returns the client that the peer names.
    ///
    /// # Errors
    ///
    /// Returns the answer if that is not one address.
    pub(super) fn client(&self) -> Result<Option<IpAddr>, IcapError> {
        let Some(value) = single(&self.fields, "x-client-ip")? else {
            return Ok(None);
        };
        let address: Option<IpAddr> = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        let address = address.ok_or_else(|| IcapError::malformed("X-Client-IP is no address"))?;
        Ok(Some(address.to_canonical()))
    }

    /// Returns the decision about the request whose response is shown, if the peer names it.
    ///
    /// # Errors
    ///
    /// Returns the answer if that is not one id.
    pub(super) fn decision(&self) -> Result<Option<DecisionId>, IcapError> {
        let Some(value) = single(&self.fields, "wayleave-decision")? else {
            return Ok(None);
        };
        let id = str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        id.map(Some).ok_or_else(|| IcapError::malformed("Wayleave-Decision is no id"))
    }
}

/// Returns a line without the CR at its end. Any other is part of a field, which it spoils.
fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the end of the head with which these bytes begin, once it is there.
///
/// # Errors
///
/// Returns an error as soon as a line does not end in CRLF, or is empty where a head should begin.
pub(super) fn head_end(buffered: &[u8]) -> Result<Option<usize>, IcapError> {
    for at in memchr::memchr2_iter(b'\r', b'\n', buffered) {
        let is_paired = match buffered[at] {
            b'\n' => at > 0 && buffered[at - 1] == b'\r',
            _ => buffered.get(at + 1).is_none_or(|next| *next == b'\n'),
        };
        if !is_paired {
            return Err(IcapError::malformed("a line does not end in CRLF"));
        }
        if buffered[..=at].ends_with(b"\r\n\r\n") {
            return Ok(Some(at + 1));
        }
        if at == 1 && buffered.starts_with(b"\r\n") {
            return Err(IcapError::malformed("a head begins with an empty line"));
        }
    }
    Ok(None)
}

fn unended() -> IcapError {
    IcapError::malformed("the head does not end")
}

/// Returns the method and the target of a request line.
fn request_line(line: &[u8]) -> Result<(&[u8], &[u8]), IcapError> {
    let malformed = || IcapError::malformed("the first line is no request of ICAP/1.0");
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(malformed());
    };
    let is_token = !method.is_empty() && method.iter().all(u8::is_ascii_uppercase);
    let is_target = !target.is_empty() && target.iter().all(u8::is_ascii_graphic);
    match version.strip_prefix(b"ICAP/") {
        Some(b"1.0") if is_token && is_target => Ok((method, target)),
        Some(version) if version != b"1.0" => {
            Err(IcapError::new(IcapStatus::VersionNotSupported, "only ICAP/1.0 is spoken here"))
        }
        _ => Err(malformed()),
    }
}

/// Returns a field of a line.
fn field(line: &[u8]) -> Result<(HeaderName, HeaderValue), IcapError> {
    let parsed = line.iter().position(|byte| *byte == b':').and_then(|colon| {
        // No white space is part of a name, so neither folded lines nor spaces before the colon pass.
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        Some((name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?))
    });
    parsed.ok_or_else(|| IcapError::malformed("a line is no field"))
}

/// Returns the service that a target names.
fn service(target: &[u8]) -> Result<IcapService, IcapError> {
    let path = target.strip_prefix(b"icap://").and_then(|rest| {
        let authority = rest.iter().position(|byte| *byte == b'/')?;
        Some(&rest[authority..])
    });
    match path {
        Some(b"/request") => Ok(IcapService::Requests),
        Some(b"/response") => Ok(IcapService::Responses),
        Some(_) => Err(IcapError::new(
            IcapStatus::NotFound,
            "the services are /request for REQMOD and /response for RESPMOD",
        )),
        None => Err(IcapError::malformed("the target is no icap:// URL with a path")),
    }
}

/// Returns the method, and the parts of the message inside, which have to be as the method wants them.
fn method_and_parts(
    method: &[u8],
    service: IcapService,
    fields: &HeaderMap,
) -> Result<(IcapMethod, Option<Encapsulated>), IcapError> {
    let parts = single(fields, "encapsulated")?.map(encapsulated).transpose()?;
    match (method, service) {
        (b"OPTIONS", _) => match parts.as_deref() {
            None | Some([("null-body", 0)]) => Ok((IcapMethod::Options, None)),
            Some(_) => Err(IcapError::malformed("OPTIONS has no body here")),
        },
        (b"REQMOD", IcapService::Requests) => match parts.as_deref() {
            Some([("req-hdr", 0), (body @ ("req-body" | "null-body"), request_bytes)]) => {
                let has_body = *body != "null-body";
                let request_bytes = *request_bytes;
                let parts = Encapsulated { request_bytes, response_bytes: None, has_body };
                Ok((IcapMethod::ReqMod, Some(parts)))
            }
            _ => Err(IcapError::malformed(
                "Encapsulated of a REQMOD is not req-hdr=0, and then req-body or null-body",
            )),
        },
        (b"RESPMOD", IcapService::Responses) => match parts.as_deref() {
            Some(
                [
                    ("req-hdr", 0),
                    ("res-hdr", request_bytes),
                    (body @ ("res-body" | "null-body"), end),
                ],
            ) => {
                let parts = Encapsulated {
                    request_bytes: *request_bytes,
                    response_bytes: Some(end - request_bytes),
                    has_body: *body != "null-body",
                };
                Ok((IcapMethod::RespMod, Some(parts)))
            }
            _ => Err(IcapError::malformed(
                "Encapsulated of a RESPMOD is not req-hdr=0, res-hdr, and then res-body or null-body",
            )),
        },
        _ => Err(IcapError::new(
            IcapStatus::MethodNotAllowed,
            "/request takes OPTIONS and REQMOD, /response takes OPTIONS and RESPMOD",
        )),
    }
}

/// Returns the names and offsets of `Encapsulated` (RFC 3507 section 4.4.1), which increase.
fn encapsulated(value: &[u8]) -> Result<Vec<(&str, usize)>, IcapError> {
    let mut parts: Vec<(&str, usize)> = Vec::new();
    for part in value.split(|byte| *byte == b',') {
        let named = str::from_utf8(part.trim_ascii()).ok().and_then(|part| part.split_once('='));
        let offset = named.and_then(|(name, offset)| Some((name, number(offset.as_bytes())?)));
        let Some((name, offset)) = offset else {
            return Err(IcapError::malformed("Encapsulated is no list of parts and offsets"));
        };
        let is_after = parts.last().is_none_or(|(_, before)| *before < offset);
        if !is_after {
            return Err(IcapError::malformed("the offsets of Encapsulated do not increase"));
        }
        parts.push((name, offset));
    }
    Ok(parts)
}

/// Returns the value of a field that must not be there twice.
fn single<'a>(fields: &'a HeaderMap, name: &'static str) -> Result<Option<&'a [u8]>, IcapError> {
    let mut values = fields.get_all(name).iter();
    let value = values.next().map(HeaderValue::as_bytes);
    if values.next().is_some() {
        return Err(IcapError::malformed(format!("{name} is there more than once")));
    }
    Ok(value)
}

/// Returns a number of at most seven digits.
fn number(digits: &[u8]) -> Option<usize> {
    let is_number = (1..=7).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

/// Returns whether a list has this element.
fn lists(fields: &HeaderMap, name: &'static str, element: &[u8]) -> bool {
    let values = fields.get_all(name).iter().map(HeaderValue::as_bytes);
    let mut elements = values.flat_map(|value| value.split(|byte| *byte == b','));
    elements.any(|listed| listed.trim_ascii().eq_ignore_ascii_case(element))
}
