//! Reads tables key by key and keeps every mistake, where a derived `Deserialize` would stop at the first.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::Range;

use toml::de::DeTable;

use super::mistake::Mistake;
use super::value::{Node, Parsed, kind, nearest};

/// The text being read and the mistakes found in it so far.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    file: &'t str,
    text: &'t str,
    mistakes: RefCell<Vec<Mistake>>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(file: &'t str, text: &'t str) -> Self {
        Self {
            file,
            text,
            mistakes: RefCell::default(),
        }
    }

    /// Parses the text, hands its tables to `read`, and returns what that made of them.
    ///
    /// # Errors
    ///
    /// Every mistake, in the order of lines, if there is any.
    pub(super) fn read<T>(
        self,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> Result<T, Vec<Mistake>> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            let at = error.span().map_or(0, |span| span.start);
            self.mistake(at, self.key_near(at), error.message());
        }
        let value = Section::new(&self, String::new(), 0..0, Some(table.get_ref())).read(read);
        let mut mistakes = self.mistakes.into_inner();
        // On a line that is no TOML only the first complaint is to the point; what was saved of it misleads.
        let of_values = mistakes.split_off(errors.len());
        let mut unreadable = HashSet::new();
        mistakes.retain(|mistake| unreadable.insert(mistake.line()));
        mistakes.extend(
            of_values
                .into_iter()
                .filter(|m| !unreadable.contains(&m.line())),
        );
        mistakes.sort_by_key(Mistake::line);
        if mistakes.is_empty() {
            Ok(value)
        } else {
            Err(mistakes)
        }
    }

    fn mistake(&self, at: usize, key: String, message: impl Into<String>) {
        let line = 1 + self.text[..at.min(self.text.len())].matches('\n').count();
        let mistake = Mistake::of_line(self.file, line, key, message);
        self.mistakes.borrow_mut().push(mistake);
    }

    /// The key that a place in text that is no TOML most likely belongs to.
    fn key_near(&self, at: usize) -> String {
        let at = at.min(self.text.len());
        let start = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text[start..].lines().next().unwrap_or_default();
        let bare = |text: &str| {
            let is_key =
                |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '"' | '*');
            Some(text.trim().to_owned()).filter(|key| !key.is_empty() && key.chars().all(is_key))
        };
        let header = |line: &str| {
            let line = line.split('#').next().unwrap_or_default().trim();
            line.starts_with('[')
                .then(|| line.trim_matches(['[', ']']).to_owned())
                .and_then(|name| bare(&name))
        };
        let key = line.split_once('=').and_then(|(key, _)| bare(key));
        let section = self.text[..start].lines().rev().find_map(header);
        match (section, key.or_else(|| header(line))) {
            (Some(section), Some(key)) if header(line).is_none() => format!("{section}.{key}"),
            (_, Some(key)) => key,
            (Some(section), None) => section,
            (None, None) => String::new(),
        }
    }
}

/// One table of the file; an absent one reads like an empty one.
///
/// It learns the keys that exist by being asked for them; [`Section::read`] reports all others.
#[derive(Debug)]
pub(super) struct Section<'t> {
    reader: &'t Reader<'t>,
    path: String,
    at: Range<usize>,
    table: Option<&'t DeTable<'t>>,
    known: Vec<&'static str>,
}

impl<'t> Section<'t> {
    fn new(
        reader: &'t Reader<'t>,
        path: String,
        at: Range<usize>,
        table: Option<&'t DeTable<'t>>,
    ) -> Self {
        Self {
            reader,
            path,
            at,
            table,
            known: Vec::new(),
        }
    }

    /// Lets `read` take the keys it knows, then reports those it never asked for.
    fn read<T>(mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let value = read(&mut self);
        for (key, _) in self.table.into_iter().flatten() {
            let name: &str = key.get_ref();
            if !self.known.contains(&name) {
                let message = match nearest(name, self.known.iter().copied()) {
                    Some(near) => format!("unknown key; did you mean \"{near}\"?"),
                    None => format!("unknown key; there are {}", self.known.join(", ")),
                };
                let path = self.full_key(name);
                self.reader.mistake(key.span().start, path, message);
            }
        }
        value
    }

    fn full_key(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    fn node(&mut self, key: &'static str) -> Option<&'t Node<'t>> {
        self.known.push(key);
        self.table.and_then(|table| table.get(key))
    }

    /// The value of `key`, or none if it is absent or wrong.
    pub(super) fn optional<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&'t Node<'t>) -> Parsed<T>,
    ) -> Option<T> {
        match parse(self.node(key)?) {
            Ok(value) => Some(value),
            Err(faults) => {
                for fault in faults {
                    let path = format!("{}{}", self.full_key(key), fault.within);
                    self.reader.mistake(fault.at, path, fault.message);
                }
                None
            }
        }
    }

    /// The value of `key`, or `default` if it is absent or wrong.
    pub(super) fn value<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&'t Node<'t>) -> Parsed<T>,
        default: T,
    ) -> T {
        self.optional(key, parse).unwrap_or(default)
    }

    /// The value of `key`, which must be there.
    pub(super) fn required<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&'t Node<'t>) -> Parsed<T>,
    ) -> Option<T> {
        let value = self.optional(key, parse);
        if value.is_none() && self.is_sound(key) {
            self.mistake(key, "is missing");
        }
        value
    }

    /// A key that this version can only take with its `default`: ignoring it would not be what was asked for.
    pub(super) fn later<T: PartialEq>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&'t Node<'t>) -> Parsed<T>,
        default: &T,
    ) {
        if self.optional(key, parse).is_some_and(|v| v != *default) {
            self.mistake(key, "not supported yet");
        }
    }

    /// A key that this version cannot take with any value.
    pub(super) fn later_if_given<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&'t Node<'t>) -> Parsed<T>,
    ) -> Option<T> {
        let value = self.optional(key, parse);
        if value.is_some() {
            self.mistake(key, "not supported yet");
        }
        value
    }

    /// The table `key`, read by `read`.
    pub(super) fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Self) -> T) -> T {
        let path = self.full_key(key);
        let (at, table) = match self.node(key) {
            None => (self.at.clone(), None),
            Some(node) => {
                let table = node.get_ref().as_table();
                if table.is_none() {
                    let message = format!("expected a table, found {}", kind(node));
                    self.reader
                        .mistake(node.span().start, path.clone(), message);
                }
                (node.span(), table)
            }
        };
        Section::new(self.reader, path, at, table).read(read)
    }

    /// The tables `[[key]]` in their order, each read by `read`.
    pub(super) fn tables<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        let Some(node) = self.node(key) else {
            return Vec::new();
        };
        let Some(items) = node.get_ref().as_array() else {
            let message = format!("expected tables [[{key}]], found {}", kind(node));
            self.mistake(key, message);
            return Vec::new();
        };
        let read_one = |(index, node): (usize, &'t Node<'t>)| {
            let path = format!("[[{}]] {}", self.full_key(key), index + 1);
            let table = node.get_ref().as_table();
            if table.is_none() {
                let message = format!("expected a table, found {}", kind(node));
                self.reader
                    .mistake(node.span().start, path.clone(), message);
            }
            Section::new(self.reader, path, node.span(), table).read(&mut read)
        };
        items.iter().enumerate().map(read_one).collect()
    }

    /// Every entry of a table whose keys are free, such as host names; makes unknown keys impossible.
    pub(super) fn entries<T>(
        &mut self,
        key: &'static str,
        mut parse: impl FnMut(&str, &'t Node<'t>) -> Parsed<T>,
    ) -> Vec<T> {
        let path = self.full_key(key);
        let Some(node) = self.node(key) else {
            return Vec::new();
        };
        let Some(table) = node.get_ref().as_table() else {
            let message = format!("expected a table, found {}", kind(node));
            self.mistake(key, message);
            return Vec::new();
        };
        let mut values = Vec::new();
        for (name, node) in table {
            match parse(name.get_ref(), node) {
                Ok(value) => values.push(value),
                Err(faults) => {
                    for fault in faults {
                        let path = format!("{path}.\"{}\"{}", name.get_ref(), fault.within);
                        self.reader.mistake(fault.at, path, fault.message);
                    }
                }
            }
        }
        values
    }

    /// Whether `key` is written in this table.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// Whether nothing wrong was found in `key` yet, so that comparing it with others makes sense.
    pub(super) fn is_sound(&self, key: &str) -> bool {
        let path = self.full_key(key);
        let within = |mistake: &Mistake| {
            mistake
                .key()
                .strip_prefix(&path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        !self.reader.mistakes.borrow().iter().any(within)
    }

    /// Reports `key`, at its line or, if it is absent, at its table's.
    pub(super) fn mistake(&self, key: &str, message: impl Into<String>) {
        let at = self
            .table
            .and_then(|table| table.get_key_value(key))
            .map_or(self.at.start, |(key, _)| key.span().start);
        self.reader.mistake(at, self.full_key(key), message);
    }

    /// Reports this table as a whole.
    pub(super) fn mistake_of_table(&self, message: impl Into<String>) {
        self.reader
            .mistake(self.at.start, self.path.clone(), message);
    }
}
