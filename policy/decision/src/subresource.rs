//! Subresources, which a page loads to be shown: the kinds of requests for it, and the responses that are of these kinds.
//!
//! A client can forge every field by which such a request is recognised. So the response decides: what is not a script, a
//! style sheet, an image, a font or media never gets to the client, and a forged request gets nothing that is worth having.

use std::sync::Arc;

/// The treatment of what a page loads: `subresources`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubresourcePolicy {
    /// Each request is judged by the robots.txt of its own origin.
    #[default]
    Judge,
    /// A subresource of a page that the crawler was just allowed passes robots.txt.
    Page,
}

impl SubresourcePolicy {
    /// Returns the spelling used in configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Judge => "judge",
            Self::Page => "page",
        }
    }
}

/// The kind of a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubresourceKind {
    /// A script, also of a worker or a worklet.
    Script,
    /// A style sheet.
    Style,
    /// An image.
    Image,
    /// A font.
    Font,
    /// Audio or video.
    Media,
    /// The captions of a video.
    Track,
}

/// The types of JavaScript (WHATWG MIME Sniffing section 4.6).
const SCRIPT_TYPES: &[&str] = &[
    "application/ecmascript",
    "application/javascript",
    "application/x-ecmascript",
    "application/x-javascript",
    "text/ecmascript",
    "text/javascript",
    "text/javascript1.0",
    "text/javascript1.1",
    "text/javascript1.2",
    "text/javascript1.3",
    "text/javascript1.4",
    "text/javascript1.5",
    "text/jscript",
    "text/livescript",
    "text/x-ecmascript",
    "text/x-javascript",
];

/// The types of fonts outside of `font/` (WHATWG MIME Sniffing section 4.6).
const FONT_TYPES: &[&str] = &[
    "application/font-cff",
    "application/font-off",
    "application/font-sfnt",
    "application/font-ttf",
    "application/font-woff",
    "application/vnd.ms-fontobject",
    "application/vnd.ms-opentype",
    "application/x-font-otf",
    "application/x-font-ttf",
    "application/x-font-woff",
];

impl SubresourceKind {
    /// Every kind.
    pub const ALL: &[Self] =
        &[Self::Script, Self::Style, Self::Image, Self::Font, Self::Media, Self::Track];

    /// Returns the kind's name in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Style => "style",
            Self::Image => "image",
            Self::Font => "font",
            Self::Media => "media",
            Self::Track => "track",
        }
    }

    /// Returns the kind with this name, as [`Self::as_str`] gives it.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }

    /// Returns the kind that a `Sec-Fetch-Dest` names (Fetch Metadata section 2.1). There is none for documents, frames and
    /// plug-ins, for `empty`, which is what a script fetches, for data such as `json` and `manifest`, and for
    /// `serviceworker`, which outlives its page.
    #[must_use]
    pub fn of_destination(destination: &[u8]) -> Option<Self> {
        match destination {
            b"script" | b"worker" | b"sharedworker" | b"audioworklet" | b"paintworklet" => {
                Some(Self::Script)
            }
            b"style" => Some(Self::Style),
            b"image" => Some(Self::Image),
            b"font" => Some(Self::Font),
            b"audio" | b"video" => Some(Self::Media),
            b"track" => Some(Self::Track),
            _ => None,
        }
    }

    /// Returns whether a response with this `Content-Type` is of the kind. Types that also hold pages, documents or data, such as
    /// `application/octet-stream` and `text/plain`, are of none, and neither are several types in one field.
    #[must_use]
    pub fn is_type(self, content_type: &[u8]) -> bool {
        let Some(essence) = essence(content_type) else {
            return false;
        };
        match self {
            Self::Script => SCRIPT_TYPES.contains(&&*essence),
            Self::Style => essence == "text/css",
            Self::Image => essence.starts_with("image/"),
            Self::Font => essence.starts_with("font/") || FONT_TYPES.contains(&&*essence),
            Self::Media => {
                let is_stream = essence.starts_with("audio/") || essence.starts_with("video/");
                is_stream || essence == "application/ogg"
            }
            Self::Track => essence == "text/vtt",
        }
    }

    /// Returns whether a subresource of this kind loads others, whose `Referer` then names it instead of the page.
    #[must_use]
    pub fn loads_others(self) -> bool {
        matches!(self, Self::Script | Self::Style)
    }
}

/// Returns whether a response with this `Content-Type` is an HTML page, which loads subresources.
#[must_use]
pub fn is_page_type(content_type: &[u8]) -> bool {
    matches!(essence(content_type).as_deref(), Some("text/html" | "application/xhtml+xml"))
}

/// Returns the type without its parameters, in lower case; `None` if it is not one type.
fn essence(content_type: &[u8]) -> Option<String> {
    // Recipients differ in which of several types they take.
    if content_type.contains(&b',') {
        return None;
    }
    let essence = content_type.split(|byte| *byte == b';').next()?.trim_ascii();
    let essence = str::from_utf8(essence).ok()?.to_ascii_lowercase();
    let is_token = |part: &str| {
        let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
        !part.is_empty() && part.bytes().all(is_of_token)
    };
    let (kind, name) = essence.split_once('/')?;
    (is_token(kind) && is_token(name)).then_some(essence)
}

/// Returns whether content begins as an HTML page or a PDF document does, whatever its type says.
#[must_use]
pub fn begins_as_document(text: &str) -> bool {
    // In UTF-16 every other byte of these is zero, and the order mark is no UTF-8.
    let text = text.replace('\0', "");
    let mut rest = text.trim_start_matches(['\u{feff}', '\u{fffd}']).trim_start();
    // XHTML may have both before its root, in any number.
    for (start, end) in std::iter::repeat_n([("<?", "?>"), ("<!--", "-->")], 8).flatten() {
        if let Some(inner) = rest.strip_prefix(start)
            && let Some((_, after)) = inner.split_once(end)
        {
            rest = after.trim_start();
        }
    }
    let begins_with = |start: &str| {
        rest.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
    };
    ["<!doctype html", "<html", "<head", "<body", "<title", "%pdf-"].into_iter().any(begins_with)
}

/// A request that a page causes, by what its client says and by the pages that the client was just allowed.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Its kind.
    pub kind: SubresourceKind,
    /// The URL of the page.
    pub page: Arc<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_that_hold_documents_or_data_have_no_kind() {
        for (destination, kind) in [
            ("script", Some(SubresourceKind::Script)),
            ("sharedworker", Some(SubresourceKind::Script)),
            ("video", Some(SubresourceKind::Media)),
            ("track", Some(SubresourceKind::Track)),
            ("document", None),
            ("iframe", None),
            ("frame", None),
            ("fencedframe", None),
            ("embed", None),
            ("object", None),
            ("empty", None),
            ("json", None),
            ("manifest", None),
            ("report", None),
            ("serviceworker", None),
            ("webidentity", None),
            ("xslt", None),
            ("Script", None),
            ("image, document", None),
            ("", None),
        ] {
            assert_eq!(
                SubresourceKind::of_destination(destination.as_bytes()),
                kind,
                "{destination}"
            );
        }
        for kind in SubresourceKind::ALL {
            assert_eq!(SubresourceKind::named(kind.as_str()), Some(*kind));
        }
    }

    #[test]
    fn a_type_is_of_one_kind_at_most() {
        for (content_type, kind) in [
            ("text/javascript; charset=utf-8", Some(SubresourceKind::Script)),
            ("Application/JavaScript", Some(SubresourceKind::Script)),
            ("text/css", Some(SubresourceKind::Style)),
            ("image/svg+xml", Some(SubresourceKind::Image)),
            ("image/png", Some(SubresourceKind::Image)),
            ("font/woff2", Some(SubresourceKind::Font)),
            ("application/font-woff", Some(SubresourceKind::Font)),
            ("video/mp4", Some(SubresourceKind::Media)),
            ("audio/mpeg", Some(SubresourceKind::Media)),
            ("text/vtt", Some(SubresourceKind::Track)),
            ("text/html", None),
            ("text/plain", None),
            ("application/json", None),
            ("application/xml", None),
            ("application/pdf", None),
            ("application/octet-stream", None),
            ("application/xhtml+xml", None),
            ("multipart/byteranges; boundary=x", None),
            ("image/png, text/html", None),
            ("image", None),
            ("image/", None),
            ("image/png text/html", None),
            ("\u{e9}", None),
            ("", None),
        ] {
            let kinds = SubresourceKind::ALL.iter().copied();
            let found: Vec<_> = kinds.filter(|it| it.is_type(content_type.as_bytes())).collect();
            assert_eq!(found, kind.into_iter().collect::<Vec<_>>(), "{content_type}");
        }
        assert!(is_page_type(b"text/html; charset=utf-8"));
        assert!(is_page_type(b"application/xhtml+xml"));
        assert!(!is_page_type(b"text/html, image/png") && !is_page_type(b"image/svg+xml"));
    }

    #[test]
    fn pages_are_recognised_by_how_they_begin() {
        for page in [
            "<!DOCTYPE html><p>x",
            "\u{feff} \r\n<html>",
            "<?xml version=\"1.0\"?>\n<!-- a --><!-- b -->\n<!DOCTYPE html PUBLIC \"x\">",
            "<head>",
            "<Body>",
            "\u{fffd}\u{fffd}<\0h\0t\0m\0l\0>\0",
            "\0<\0h\0t\0m\0l\0>",
            "%PDF-1.7",
        ] {
            assert!(begins_as_document(page), "{page}");
        }
        for other in [
            "",
            "<?xml version=\"1.0\"?><svg/>",
            "<svg><title>x</title></svg>",
            "<!-- x",
            "<!--\nalert(1)\n-->",
            "\u{fffd}PNG\r\n",
            "body { color: red }",
            "document.write('<html>')",
        ] {
            assert!(!begins_as_document(other), "{other}");
        }
    }
}
