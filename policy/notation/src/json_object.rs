//! JSON objects that are written once, in their final form: member by member to the end of a buffer, escaped as by
//! [`escape_json`]. Names of members are constants that need no escapes.
//!
//! serde_json looks up every byte in an escape table, and takes twice as many instructions for a line of the decision log.

use std::fmt::Display;
use std::io::Write;

use memchr::memchr2;
use serde::Serialize;

use crate::harmless::{escape_json, is_plain};

/// An object that is being written. Members that are `None` are left out.
pub struct JsonObject<'b> {
    buffer: &'b mut Vec<u8>,
    is_empty: bool,
}

impl<'b> JsonObject<'b> {
    /// Begins an object at the end of `buffer`.
    pub fn begin(buffer: &'b mut Vec<u8>) -> Self {
        buffer.push(b'{');
        Self { buffer, is_empty: true }
    }

    /// Adds a string.
    pub fn text(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text {
            push_json_text(self.name(name), text);
        }
    }

    /// Adds a list of strings, unless it is empty.
    pub fn texts(&mut self, name: &str, texts: &[impl AsRef<str>]) {
        if texts.is_empty() {
            return;
        }
        let buffer = self.name(name);
        for (index, text) in texts.iter().enumerate() {
            buffer.push(if index == 0 { b'[' } else { b',' });
            push_json_text(buffer, text.as_ref());
        }
        buffer.push(b']');
    }

    /// Adds a string that needs no escaping, such as a time.
    pub fn display(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            write!(self.name(name), "\"{value}\"").expect("writing to memory does not fail");
        }
    }

    /// Adds a value that needs no escaping, such as a number or an IP address.
    pub fn unescaped(&mut self, name: &str, value: Option<impl Serialize>) {
        if let Some(value) = value {
            serde_json::to_writer(self.name(name), &value).expect("a plain value serialises");
        }
    }

    /// Adds an object.
    pub fn object(&mut self, name: &str, write: impl FnOnce(&mut JsonObject<'_>)) {
        let mut object = JsonObject::begin(self.name(name));
        write(&mut object);
        object.end();
    }

    /// Adds a list of objects, unless it is empty.
    pub fn objects<T>(&mut self, name: &str, list: &[T], write: impl Fn(&T, &mut JsonObject<'_>)) {
        if list.is_empty() {
            return;
        }
        let buffer = self.name(name);
        for (index, entry) in list.iter().enumerate() {
            buffer.push(if index == 0 { b'[' } else { b',' });
            let mut object = JsonObject::begin(buffer);
            write(entry, &mut object);
            object.end();
        }
        buffer.push(b']');
    }

    /// Ends the object.
    pub fn end(self) {
        self.buffer.push(b'}');
    }

    /// Begins a member, and returns the buffer for its value.
    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        self.separate();
        self.buffer.push(b'"');
        self.buffer.extend_from_slice(name.as_bytes());
        self.buffer.extend_from_slice(b"\":");
        self.buffer
    }

    fn separate(&mut self) {
        if !std::mem::take(&mut self.is_empty) {
            self.buffer.push(b',');
        }
    }
}

/// Appends a string in quotes.
pub fn push_json_text(buffer: &mut Vec<u8>, text: &str) {
    if !is_plain(text.as_bytes()) || memchr2(b'"', b'\\', text.as_bytes()).is_some() {
        buffer.extend_from_slice(&escaped_json(text));
        return;
    }
    buffer.push(b'"');
    buffer.extend_from_slice(text.as_bytes());
    buffer.push(b'"');
}

fn escaped_json(value: &(impl Serialize + ?Sized)) -> Vec<u8> {
    escape_json(serde_json::to_vec(value).expect("strings and numbers serialise"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(write: impl FnOnce(&mut JsonObject<'_>)) -> String {
        let mut buffer = b"before ".to_vec();
        let mut object = JsonObject::begin(&mut buffer);
        write(&mut object);
        object.end();
        String::from_utf8(buffer).unwrap()
    }

    #[test]
    fn members_are_written_in_order() {
        let written = object(|object| {
            object.unescaped("number", Some(7));
            object.text("none", None);
            object.texts("empty", &[""; 0]);
            object.texts("list", &["a", "b\""]);
            object.display("display", Some(format_args!("{}:{}", 1, 2)));
            object.object("object", |inner| inner.text("a", Some("\u{202e}")));
            object.objects("none", &[0; 0], |_, _| {});
            object.objects("objects", &[1, 2], |entry, inner| inner.unescaped("b", Some(entry)));
        });
        let expected = r#"{"number":7,"list":["a","b\""],"display":"1:2","object":{"a":"\u202e"},"objects":[{"b":1},{"b":2}]}"#;
        assert_eq!(written, format!("before {expected}"));
        assert_eq!(object(|_| {}), "before {}");
    }

    #[test]
    fn every_character_matches_serde_json_then_escape_json() {
        for c in (0..=0x2100).chain(0xe_0000..=0xe_0080).filter_map(char::from_u32) {
            // At the end of a run that is searched in one piece, and after it.
            for before in ["", "0123456789abcde", "0123456789abcdef0123456789abcdef"] {
                let text = format!("{before}{c}x");
                let mut written = Vec::new();
                push_json_text(&mut written, &text);
                let expected = escape_json(serde_json::to_vec(&text).unwrap());
                assert_eq!(written, expected, "{c:?}");
            }
        }
    }
}
