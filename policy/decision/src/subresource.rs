//! Subresources, which a page loads to be shown: the kinds of requests for it, and the responses that are of these kinds.
//!
//! A client can forge every field by which such a request is recognised. So the response decides, too: anything but a script,
//! a style sheet, an image, a font or media by its type, or begins otherwise, does not get to the client. Scripts, images and
//! media themselves do: the policy trusts the client to be a browser.

use std::sync::Arc;

/// The treatment of files that a page loads: `subresources`.
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

/// The answer to a file of a page that is refused: `refused_subresources`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefusedSubresources {
    /// The refusal itself.
    #[default]
    Problem,
    /// An empty file of the kind, so that the page still renders.
    Empty,
}

impl RefusedSubresources {
    /// Returns the spelling used in configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Empty => "empty",
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

    /// Returns the kind that a `Sec-Fetch-Dest` names (Fetch Metadata section 2.1); `None` for documents, frames and
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

    /// Returns the kind that the extension of a path suggests, for logs, which rarely have types. Audio and video are left out:
    /// pages are shown without them.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let (_, extension) = path.rsplit('/').next()?.rsplit_once('.')?;
        match &*extension.to_ascii_lowercase() {
            "js" | "mjs" => Some(Self::Script),
            "css" => Some(Self::Style),
            "avif" | "bmp" | "gif" | "ico" | "jpeg" | "jpg" | "png" | "svg" | "webp" => {
                Some(Self::Image)
            }
            "eot" | "otf" | "ttf" | "woff" | "woff2" => Some(Self::Font),
            _ => None,
        }
    }

    /// Returns whether a response with this `Content-Type` is of the kind. Types that also hold pages, documents or data, such as
    /// `application/octet-stream` and `text/plain`, match no kind, and neither do several types in one field.
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
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let (kind, name) = essence.split_once('/')?;
    (is_token(kind) && is_token(name)).then_some(essence)
}

/// The beginning of a response, as far as it shows the kind of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentStart {
    /// As an HTML page, a PDF document or, where a script was asked for, JSON or JSONP begin.
    Document,
    /// As other content begins.
    Other,
    /// Only white space and comments, after which anything may follow.
    Open,
}

/// The elements with which pages begin (WHATWG MIME Sniffing section 7.1).
const FIRST_TAGS: &[&str] = &[
    "<!doctype html",
    "<html",
    "<head",
    "<script",
    "<iframe",
    "<h1",
    "<div",
    "<font",
    "<table",
    "<a",
    "<style",
    "<title",
    "<b",
    "<body",
    "<br",
    "<p",
    "<meta",
    "<link",
    "<base",
];

/// Judges the beginning of content that was loaded as `kind`, whatever its type says.
#[must_use]
pub fn content_start(kind: SubresourceKind, text: &str) -> ContentStart {
    // In UTF-16, every other byte of ASCII text is zero, and the byte order mark is not UTF-8.
    let text = text.replace('\0', "");
    let mut rest = text.trim_start_matches(['\u{feff}', '\u{fffd}']).trim_start();
    // XHTML may have processing instructions and comments before its root.
    for (start, end) in std::iter::repeat_n([("<?", "?>"), ("<!--", "-->")], 8).flatten() {
        let Some(inner) = rest.strip_prefix(start) else {
            continue;
        };
        let Some((_, after)) = inner.split_once(end) else {
            return ContentStart::Open;
        };
        rest = after.trim_start();
    }
    if rest.is_empty() {
        return ContentStart::Open;
    }
    let is_pdf = rest.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case("%pdf-"));
    let begins_with = |tag: &&str| {
        let begins = rest.get(..tag.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(tag));
        begins && !rest[tag.len()..].starts_with(|next: char| next.is_ascii_alphanumeric())
    };
    if is_pdf || FIRST_TAGS.iter().any(begins_with) {
        ContentStart::Document
    } else if kind == SubresourceKind::Script {
        script_start(rest)
    } else {
        ContentStart::Other
    }
}

/// The prefixes by which JSON is kept from running as a script.
const UNPARSEABLE: &[&str] =
    &[")]}'", "for(;;);", "for (;;);", "while(1);", "while (1);", "&&&START&&&"];

/// Returns how a script begins: JSON and JSONP are data. Only a call whose first argument is JSON is taken for JSONP.
fn script_start(text: &str) -> ContentStart {
    let Some(mut rest) = skip_script_comments(text) else {
        return ContentStart::Open;
    };
    for prefix in UNPARSEABLE {
        rest =
            rest.strip_prefix(prefix).unwrap_or(rest).trim_start_matches([',', ';']).trim_start();
    }
    let by_json = json_start(rest);
    if by_json != ContentStart::Other {
        return by_json;
    }
    let rest =
        rest.strip_prefix("try").map_or(rest, |tried| tried.trim_start().trim_start_matches('{'));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_$.[]'\"".contains(&byte);
    let Some((before, argument)) = rest.split_once('(') else {
        // A callback's name may be as long as its client likes.
        let is_one_name = rest.bytes().all(is_name);
        return if is_one_name { ContentStart::Open } else { ContentStart::Other };
    };
    // As in `typeof callback === 'function' && callback({"a": 1})`.
    let callee = before.rsplit("&&").next().unwrap_or(before).trim();
    let is_callee = !callee.is_empty() && callee.bytes().all(is_name);
    // Module loaders are called with lists of names.
    let is_loader = argument.trim_start().starts_with('[')
        && (matches!(callee, "define" | "require" | "requirejs" | "System.register")
            || callee.starts_with("webpackJsonp"));
    if !is_callee || is_loader {
        return ContentStart::Other;
    }
    match argument.trim_start() {
        "" => ContentStart::Open,
        argument => json_start(argument),
    }
}

/// Returns the text after comments, white space and semicolons; `None` if there may be more of them.
fn skip_script_comments(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|next: char| next.is_whitespace() || next == ';');
        let end = match rest.get(..2) {
            Some("/*") => "*/",
            Some("//") => "\n",
            _ => return (!rest.is_empty()).then_some(rest),
        };
        rest = rest[2..].split_once(end)?.1;
    }
}

/// Returns whether text begins as a JSON object or array, which in a script would be a value that nothing uses.
fn json_start(text: &str) -> ContentStart {
    let Some(inner) = text.strip_prefix(['{', '[']) else {
        return ContentStart::Other;
    };
    let first = inner.trim_start();
    let begins_number = first.starts_with(|next: char| next.is_ascii_digit());
    let is_word = || ["true", "false", "null"].iter().any(|word| first.starts_with(word));
    let is_json = match text.as_bytes() {
        [b'{', ..] => first.starts_with(['"', '}']),
        _ => first.starts_with(['"', '{', '[', ']', '-']) || begins_number || is_word(),
    };
    match first {
        "" => ContentStart::Open,
        _ if is_json => ContentStart::Document,
        _ => ContentStart::Other,
    }
}

/// A request that a page causes, by its client's header fields and the pages that the client was just allowed.
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
    fn extensions_suggest_kinds() {
        for (path, kind) in [
            ("/a.css", Some(SubresourceKind::Style)),
            ("/x.y/a.min.JS?v=1.png", Some(SubresourceKind::Script)),
            ("/a.webp#x", Some(SubresourceKind::Image)),
            ("/fonts/a.woff2", Some(SubresourceKind::Font)),
            ("/a.css/", None),
            ("/page.html", None),
            ("/css", None),
            ("/film.mp4", None),
        ] {
            assert_eq!(SubresourceKind::of_path(path), kind, "{path}");
        }
    }

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
            let found: Vec<_> =
                kinds.filter(|kind| kind.is_type(content_type.as_bytes())).collect();
            assert_eq!(found, kind.into_iter().collect::<Vec<_>>(), "{content_type}");
        }
        assert!(is_page_type(b"text/html; charset=utf-8"));
        assert!(is_page_type(b"application/xhtml+xml"));
        assert!(!is_page_type(b"text/html, image/png") && !is_page_type(b"image/svg+xml"));
    }

    #[test]
    fn pages_are_recognised_by_how_they_begin() {
        let blanks = " ".repeat(600);
        let commented = format!("<!--{}--><html>", "x".repeat(600));
        for page in [
            "<!DOCTYPE html><p>x",
            "\u{feff} \r\n<html>",
            "<?xml version=\"1.0\"?>\n<!-- a --><!-- b -->\n<!DOCTYPE html PUBLIC \"x\">",
            "<head>",
            "<Body>",
            "<p>x",
            "<a href=x>",
            "<meta charset=utf-8>",
            "\u{fffd}\u{fffd}<\0h\0t\0m\0l\0>\0",
            "\0<\0h\0t\0m\0l\0>",
            "%PDF-1.7",
            &format!("{blanks}<html>"),
            &commented,
        ] {
            for kind in SubresourceKind::ALL {
                assert_eq!(content_start(*kind, page), ContentStart::Document, "{page}");
            }
        }
        for other in [
            "<?xml version=\"1.0\"?><svg/>",
            "<svg><title>x</title></svg>",
            "<article>",
            "<!--\nalert(1)\n--> alert(2)",
            "\u{fffd}PNG\r\n",
            "body { color: red }",
            "document.write('<html>')",
        ] {
            assert_eq!(
                content_start(SubresourceKind::Script, other),
                ContentStart::Other,
                "{other}"
            );
        }
        for open in ["", &blanks, "<!-- x", "<?xml ", "<!-- a --> <!-- b"] {
            assert_eq!(content_start(SubresourceKind::Image, open), ContentStart::Open, "{open}");
        }
    }

    #[test]
    fn scripts_that_begin_like_json_or_jsonp_are_data() {
        let start = |text| content_start(SubresourceKind::Script, text);
        for data in [
            "{\"a\": 1}",
            " {}",
            "[{\"a\": 1}]",
            "[1, 2]",
            "[null]",
            ")]}',\n{\"a\": 1}",
            "for(;;);{\"a\": 1}",
            "while(1);[{}]",
            "callback({\"a\": 1})",
            "/**/callback({\"a\": 1});",
            "// x\n;jQuery123_456( [\"a\"] )",
            "window.app[\"cb\"]({\"a\": 1})",
            "/**/ typeof callback === 'function' && callback({\"a\": 1});",
            "callback && callback([{}])",
            "try{callback({\"a\": 1})}catch(e){}",
        ] {
            assert_eq!(start(data), ContentStart::Document, "{data}");
        }
        for script in [
            "\"use strict\"; x()",
            "!function(){}()",
            "(()=>{})()",
            "(self.webpackChunk=self.webpackChunk||[]).push([[179],{1:e=>{}}])",
            "webpackJsonp([0],{1:function(){}})",
            "define([\"jquery\"], function(){})",
            "require([\"a\"])",
            "System.register([], function(){})",
            "define('a', [], {})",
            "$(function(){})",
            "import a from 'a'",
            "{ let a = 1 }",
            "[a, b].forEach(f)",
            "$.extend({a: 1})",
            "/* x */ var a = {\"b\": 1}",
            "if(a){b({\"c\":1})}",
        ] {
            assert_eq!(start(script), ContentStart::Other, "{script}");
        }
        let name = "x".repeat(600);
        for open in ["/* x", "{ ", "[\n", "callback( ", "callback({ ", &name] {
            assert_eq!(start(open), ContentStart::Open, "{open}");
        }
        assert_eq!(content_start(SubresourceKind::Style, "[data]{}"), ContentStart::Other);
    }
}
