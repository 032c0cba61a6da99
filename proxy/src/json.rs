//! JSON for what is written once for each request. Serde goes over a string byte by byte; here most are looked through in
//! whole registers, found to need no escapes and copied.

/// Appends `text` as a JSON string.
pub(crate) fn string(to: &mut Vec<u8>, text: &str) {
    let needs_escape = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    // Without an early end, which would keep the compiler from taking many bytes at a time.
    let is_plain = !text
        .bytes()
        .fold(false, |found, byte| found | needs_escape(byte));
    if is_plain {
        to.push(b'"');
        to.extend_from_slice(text.as_bytes());
        to.push(b'"');
    } else {
        serde_json::to_writer(to, text).expect("memory takes every string");
    }
}

/// Appends `number` in decimal.
pub(crate) fn number(to: &mut Vec<u8>, number: u64) {
    to.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// An object that is being written.
pub(crate) struct Object<'a> {
    pub(crate) to: &'a mut Vec<u8>,
}

impl<'a> Object<'a> {
    /// Begins an object with its first member, a string.
    pub(crate) fn begin(to: &'a mut Vec<u8>, name: &str, value: &str) -> Self {
        to.push(b'{');
        let mut object = Self { to };
        object.name(name);
        string(object.to, value);
        object
    }

    /// Appends the name of a member, whose value the caller is to append.
    pub(crate) fn member(&mut self, name: &str) -> &mut Vec<u8> {
        self.to.push(b',');
        self.name(name);
        self.to
    }

    pub(crate) fn string(&mut self, name: &str, value: &str) {
        string(self.member(name), value);
    }

    pub(crate) fn number(&mut self, name: &str, value: impl Into<u64>) {
        number(self.member(name), value.into());
    }

    pub(crate) fn end(self) {
        self.to.push(b'}');
    }

    /// Names are ours, without anything to escape.
    fn name(&mut self, name: &str) {
        self.to.push(b'"');
        self.to.extend_from_slice(name.as_bytes());
        self.to.extend_from_slice(b"\":");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_as_serde_writes_them() {
        for text in [
            "",
            "plain",
            "a\"b",
            "a\\b",
            "\n",
            "\u{1f}",
            "\u{7f}",
            "ü 🦀",
            "long enough for registers and then \t",
        ] {
            let mut written = Vec::new();
            string(&mut written, text);
            assert_eq!(written, serde_json::to_vec(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn an_object_reads_back() {
        let mut written = Vec::new();
        let mut object = Object::begin(&mut written, "a", "\"");
        object.string("b", "c");
        object.number("d", u64::MAX);
        object.member("e").extend_from_slice(b"[]");
        object.end();
        let read: serde_json::Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(
            read,
            serde_json::json!({"a": "\"", "b": "c", "d": u64::MAX, "e": []})
        );
    }
}
