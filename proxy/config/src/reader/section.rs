//! Reads tables key by key and collects every mistake, where a derived `Deserialize` would stop at the first.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use toml::de::DeTable;

use super::keys::{EffectiveKeys, KeySpec};
use super::line_index::LineIndex;
use super::mistake::ConfigMistake;
use super::schema::{SchemaBuilder, TableKind};
use super::to_value::ToValue;
use super::value::{
    ParseResult, ValueNode, checked, kind_name, list, nearest, non_empty_list, one_of, text, word,
};

/// The most mistakes of a file that are listed: the author of an included file chooses how many it has.
const MAX_LISTED: usize = 100;

/// The text of one file.
#[derive(Debug)]
pub(super) struct SourceText<'t> {
    /// The name in mistakes.
    pub(super) file: &'t str,
    text: &'t str,
    lines: LineIndex,
}

/// The root table of one file.
#[derive(Debug)]
struct SourceTable<'t> {
    source: &'t SourceText<'t>,
    table: &'t DeTable<'t>,
}

/// The mistakes found so far.
#[derive(Debug, Default)]
struct Mistakes {
    /// The first ones that were found in each file.
    listed: Vec<ConfigMistake>,
    /// The number found in each file, listed or not.
    counts: HashMap<String, usize>,
    /// The keys of all mistakes.
    keys: BTreeSet<String>,
}

impl Mistakes {
    /// Adds a mistake in `file` and in `key`, which is only described if it is still listed.
    fn add(&mut self, file: &str, key: String, describe: impl FnOnce() -> ConfigMistake) {
        self.keys.insert(key);
        let count = self.counts.entry(file.to_owned()).or_default();
        *count += 1;
        if *count <= MAX_LISTED {
            self.listed.push(describe());
        }
    }

    /// Returns whether there is no mistake in `key`: a mistake in `listen[1]` is one of `listen`, but one in `listen_all` is not.
    fn has_none_in(&self, key: &str) -> bool {
        let has_within = |separator: char| {
            let within = format!("{key}{separator}");
            self.keys.range(within.clone()..).next().is_some_and(|found| found.starts_with(&within))
        };
        !self.keys.contains(key) && !has_within('.') && !has_within('[')
    }
}

/// An included file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludedFile {
    pub name: String,
    /// The number of its `[[crawler]]` tables.
    pub crawlers: usize,
    /// The lines of its `[[rule]]` tables.
    pub rule_lines: Vec<usize>,
}

/// The tables that an included file may have.
const INCLUDED_TABLES: [&str; 2] = ["crawler", "rule"];

/// The texts of a configuration, and the keys and mistakes found in them so far.
#[derive(Debug)]
pub(crate) struct ConfigReader<'t> {
    /// The main file, then those that it includes.
    sources: Vec<SourceText<'t>>,
    keys: RefCell<EffectiveKeys>,
    mistakes: RefCell<Mistakes>,
    /// Present if the keys are read to describe them.
    schema: Option<RefCell<SchemaBuilder>>,
}

impl<'t> ConfigReader<'t> {
    pub(crate) fn new(file: &'t str, text: &'t str) -> Self {
        Self {
            sources: vec![SourceText::new(file, text)],
            keys: RefCell::default(),
            mistakes: RefCell::default(),
            schema: None,
        }
    }

    /// Adds an included file, or the mistake if it cannot be read. Its tables follow those of the files before.
    pub(crate) fn include(&mut self, file: &'t str, text: Result<&'t str, ConfigMistake>) {
        let text = text.unwrap_or_else(|mistake| {
            self.mistakes.get_mut().add(file, String::new(), || mistake);
            ""
        });
        self.sources.push(SourceText::new(file, text));
    }

    /// Returns the JSON Schema of the keys that `read` reads, with the descriptions in the comments of `documented`. `text` has
    /// each table that may occur several times once, since others are not read.
    pub(crate) fn describe<T>(
        text: &'t str,
        documented: &str,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> serde_json::Value {
        let schema = Some(RefCell::new(SchemaBuilder::new(documented)));
        let reader = Self { schema, ..Self::new("", text) };
        let (table, _) = DeTable::parse_recoverable(text);
        let tables = [SourceTable { source: &reader.sources[0], table: table.get_ref() }];
        Section::root(&reader, &tables).read(read);
        reader.schema.map_or_else(serde_json::Value::default, |schema| schema.into_inner().finish())
    }

    /// Parses the texts, passes the root table to `read`, and returns the result together with all keys, and with every mistake in
    /// the order of files and lines. A key with a mistake has its default.
    pub(crate) fn read<T>(
        self,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> (T, EffectiveKeys, Vec<ConfigMistake>) {
        // Recoverable: a line that is not TOML should not hide the mistakes in others.
        let parsed: Vec<_> =
            self.sources.iter().map(|source| DeTable::parse_recoverable(source.text)).collect();
        for (source, (table, errors)) in self.sources.iter().zip(&parsed) {
            self.report_syntax_errors(source, table.get_ref(), errors);
        }
        let invalid = self.mistakes.borrow().listed.len();
        let sources = self.sources.iter().zip(&parsed);
        let tables: Vec<_> = sources
            .map(|(source, (table, _))| SourceTable { source, table: table.get_ref() })
            .collect();
        let value = Section::root(&self, &tables).read(read);
        self.reject_other_tables(&tables[1..]);
        drop(tables);
        let Mistakes { listed: mut mistakes, counts, .. } = self.mistakes.into_inner();
        let files: HashMap<_, _> = self.sources.iter().map(|source| source.file).zip(0..).collect();
        let place = |mistake: &ConfigMistake| {
            (files.get(mistake.file()).copied(), mistake.line().unwrap_or(usize::MAX))
        };
        // Mistakes in the values that the parser recovered from a line that is not valid TOML would mislead.
        let in_values = mistakes.split_off(invalid);
        let mut invalid_lines = HashSet::new();
        mistakes.retain(|mistake| invalid_lines.insert(place(mistake)));
        // So would mistakes in keys below a broken head: they were read into another table.
        for (source, file) in self.sources.iter().zip(0..) {
            let below = source
                .lines_below_invalid_heads(|line| invalid_lines.contains(&(Some(file), line)));
            invalid_lines.extend(below.into_iter().map(|line| (Some(file), line)));
        }
        mistakes.extend(
            in_values.into_iter().filter(|mistake| !invalid_lines.contains(&place(mistake))),
        );
        let not_listed = counts.iter().filter(|(_, count)| **count > MAX_LISTED);
        mistakes.extend(not_listed.map(|(file, _)| {
            let message = format!("and further ones: the first {MAX_LISTED} found are listed");
            ConfigMistake::in_file(file, message)
        }));
        mistakes.sort_by_key(place);
        (value, self.keys.into_inner(), mistakes)
    }

    /// Reports the lines of a text that are not TOML.
    fn report_syntax_errors(
        &self,
        source: &SourceText<'_>,
        table: &DeTable<'_>,
        errors: &[toml::de::Error],
    ) {
        let mut last_line = 0;
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            // If a line is not valid TOML, only its first error helps.
            if source.line(at) == last_line || self.is_full(source) {
                continue;
            }
            last_line = source.line(at);
            let key = source.nearest_key(at);
            let mut message = error.message().to_owned();
            // The parser knows where the first one is, but does not tell.
            if message == "duplicate key"
                && let Some(first) = source.line_of(table, &key)
                && first < source.line(at)
            {
                message += &format!("; the first one is in line {first}");
            }
            self.report(source, at, key, message);
        }
    }

    /// Returns whether as many mistakes of a file were found as are listed, and counts one more.
    fn is_full(&self, source: &SourceText<'_>) -> bool {
        let mut mistakes = self.mistakes.borrow_mut();
        let count = mistakes.counts.entry(source.file.to_owned()).or_default();
        let is_full = *count >= MAX_LISTED;
        *count += usize::from(is_full);
        is_full
    }

    /// Reports the keys of included files that may not be there.
    fn reject_other_tables(&self, included: &[SourceTable<'_>]) {
        for SourceTable { source, table } in included {
            for (key, _) in
                table.iter().filter(|(key, _)| !INCLUDED_TABLES.contains(&&**key.get_ref()))
            {
                let message = "an included file has [[crawler]] and [[rule]] only: move this to the main file";
                self.report(source, key.span().start, key.get_ref().to_string(), message);
            }
        }
    }

    fn report(&self, source: &SourceText<'_>, at: usize, key: String, message: impl Into<String>) {
        let described = key.clone();
        self.mistakes.borrow_mut().add(source.file, key, || {
            ConfigMistake::in_line(source.file, source.line(at), described, message)
        });
    }
}

impl<'t> SourceText<'t> {
    pub(super) fn new(file: &'t str, text: &'t str) -> Self {
        Self { file, text, lines: LineIndex::new(text) }
    }

    /// Returns the line of an offset, counted from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.lines.line(at)
    }

    /// Returns the lines, counted from 1, between a head of a table that is not valid and the next head.
    fn lines_below_invalid_heads(&self, is_invalid: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut below = Vec::new();
        let mut is_below = false;
        for (line, text) in (1..).zip(self.text.lines()) {
            if text.trim_start().starts_with('[') {
                is_below = is_invalid(line);
            } else if is_below {
                below.push(line);
            }
        }
        below
    }

    /// Returns the line of a key that is in tables only, such as `proxy.name`, and not in an array.
    pub(super) fn line_of(&self, mut table: &DeTable<'_>, key: &str) -> Option<usize> {
        let (parents, last) = key.rsplit_once('.').unwrap_or(("", key));
        for name in parents.split('.').filter(|name| !name.is_empty()) {
            table = table.get(name)?.get_ref().as_table()?;
        }
        let (found, _) = table.get_key_value(last)?;
        Some(self.line(found.span().start))
    }

    /// Returns the key that an offset in invalid TOML most likely belongs to.
    fn nearest_key(&self, at: usize) -> String {
        // An error at the end of the file may point past it.
        let before = &self.text[..at.min(self.text.len())];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text[start..].lines().next().unwrap_or_default();
        // The text is not TOML, so this can only be a guess: whatever could be a key or a header is taken for one.
        let bare = |text: &str| {
            let is_key =
                |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '"' | '*');
            Some(text.trim().to_owned()).filter(|key| !key.is_empty() && key.chars().all(is_key))
        };
        let header = |line: &str| {
            let text = line.split('#').next().unwrap_or_default().trim();
            text.starts_with('[')
                .then(|| text.trim_matches(['[', ']']).to_owned())
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
/// Keys become known by being read; [`Section::read`] reports all others as unknown.
#[derive(Debug)]
pub(crate) struct Section<'t> {
    reader: &'t ConfigReader<'t>,
    location: TableLocation,
    table: Option<&'t DeTable<'t>>,
    source: &'t SourceText<'t>,
    /// The files whose tables follow those of this one: of the root table only.
    included: &'t [SourceTable<'t>],
    known_keys: Vec<&'static str>,
}

/// The position of a table.
#[derive(Debug)]
struct TableLocation {
    /// The name in mistakes, such as `[[crawler]] 1.match`.
    path: String,
    /// The name in headers, such as `crawler.match`.
    header: String,
    /// The bytes of the text.
    span: Range<usize>,
    /// The index in [`EffectiveKeys`].
    table_index: usize,
}

impl<'t> Section<'t> {
    /// Creates the root table of the first of `tables`, which includes the others.
    fn root(reader: &'t ConfigReader<'t>, tables: &'t [SourceTable<'t>]) -> Self {
        let location = TableLocation {
            path: String::new(),
            header: String::new(),
            span: 0..0,
            table_index: reader.keys.borrow_mut().begin_table(String::new(), false),
        };
        let (main, included) = tables.split_first().expect("there is a main file");
        Self {
            reader,
            location,
            table: Some(main.table),
            source: main.source,
            included,
            known_keys: Vec::new(),
        }
    }

    /// Creates a table within this one.
    fn child(
        &self,
        location: TableLocation,
        source: &'t SourceText<'t>,
        table: Option<&'t DeTable<'t>>,
    ) -> Self {
        let reader = self.reader;
        Self { reader, location, table, source, included: &[], known_keys: Vec::new() }
    }

    /// Lets `read` take the keys it knows, then reports the others as unknown.
    fn read<T>(mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let value = read(&mut self);
        for (key, _) in self.table.into_iter().flatten() {
            let name: &str = key.get_ref();
            if !self.known_keys.contains(&name) {
                let message = match nearest(name, self.known_keys.iter().copied()) {
                    Some(near) => format!("unknown key; did you mean \"{near}\"?"),
                    None => format!("unknown key; expected one of {}", self.known_keys.join(", ")),
                };
                let path = self.full_key(name);
                self.reader.report(self.source, key.span().start, path, message);
            }
        }
        value
    }

    fn full_key(&self, key: &str) -> String {
        join(&self.location.path, key)
    }

    fn node(&mut self, key: &'static str) -> Option<&'t ValueNode<'t>> {
        self.known_keys.push(key);
        self.table.and_then(|table| table.get(key))
    }

    /// Returns the value of `key`, or none if it is absent or wrong.
    fn parse_key<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&'t ValueNode<'t>) -> ParseResult<T>,
    ) -> Option<T> {
        match parse(self.node(key)?) {
            Ok(value) => Some(value),
            Err(faults) => {
                for fault in faults {
                    let path = format!("{}{}", self.full_key(key), fault.within);
                    self.reader.report(self.source, fault.at, path, fault.message);
                }
                None
            }
        }
    }

    /// Adds a key to the schema, if there is one.
    fn describe(&self, key: &str, value: impl FnOnce() -> serde_json::Value) {
        if let Some(schema) = &self.reader.schema {
            schema.borrow_mut().add_key(&self.location.header, key, value());
        }
    }

    fn record(&self, key: KeySpec, value: toml::Value) {
        let mut keys = self.reader.keys.borrow_mut();
        keys.add(self.location.table_index, key, value);
    }

    /// Returns the value of `key`, or `default` if it is absent or wrong.
    pub(crate) fn key<T: ToValue>(
        &mut self,
        key: impl Into<KeySpec>,
        default: T,
        parse: impl FnOnce(&'t ValueNode<'t>) -> ParseResult<T>,
    ) -> T {
        let key = key.into();
        self.describe(key.name, T::schema);
        let value = self.parse_key(key.name, parse).unwrap_or(default);
        // Defaults, too: the configuration is shown with every key.
        self.record(key, value.to_value());
        value
    }

    /// Returns the meaning of the word that `key` holds, or `default` if it is absent or wrong.
    pub(crate) fn word<T: Copy + PartialEq>(
        &mut self,
        key: impl Into<KeySpec>,
        default: T,
        meanings: &[(&str, T)],
    ) -> T {
        let key = key.into();
        self.describe(key.name, || {
            let words: Vec<_> = meanings.iter().map(|(word, _)| *word).collect();
            serde_json::json!({ "enum": words })
        });
        let value = self.parse_key(key.name, one_of(meanings)).unwrap_or(default);
        let mut words = meanings.iter().filter(|(_, meaning)| *meaning == value);
        self.record(key, words.next().map_or("", |(word, _)| word).into());
        value
    }

    /// Returns the value of `key`, or none if it is absent or wrong.
    pub(crate) fn optional<T: ToValue>(
        &mut self,
        key: impl Into<KeySpec>,
        parse: impl FnOnce(&'t ValueNode<'t>) -> ParseResult<T>,
    ) -> Option<T> {
        let key = key.into();
        self.describe(key.name, T::schema);
        let value = self.parse_key(key.name, parse);
        if let Some(value) = &value {
            self.record(key, value.to_value());
        }
        value
    }

    /// Returns the items of the array `key`, which must not be empty if it is there.
    pub(crate) fn items<T: ToValue>(
        &mut self,
        key: impl Into<KeySpec>,
        item: impl Fn(&'t ValueNode<'t>) -> ParseResult<T>,
    ) -> Vec<T> {
        self.optional(key, non_empty_list(item)).unwrap_or_default()
    }

    /// Returns the value of `key`, and reports it if it is missing.
    pub(crate) fn required<T: ToValue>(
        &mut self,
        key: impl Into<KeySpec>,
        parse: impl FnOnce(&'t ValueNode<'t>) -> ParseResult<T>,
    ) -> Option<T> {
        let key = key.into();
        let value = self.optional(key, parse);
        if let Some(schema) = &self.reader.schema {
            schema.borrow_mut().require(&self.location.header, key.name);
        }
        // A wrong value has been reported already.
        if value.is_none() && self.is_valid(key.name) {
            self.report(key.name, "is missing");
        }
        value
    }

    /// Returns the word that `key` holds, or none if it is absent or wrong.
    pub(crate) fn optional_word<'w>(
        &mut self,
        key: &'static str,
        words: &'w [&'w str],
    ) -> Option<&'w str> {
        let value = self.optional(key, word(words));
        // Afterwards, because an optional key is described as any string.
        self.describe(key, || serde_json::json!({ "enum": words }));
        value
    }

    /// Returns the word that `key` holds, and reports it if it is missing.
    pub(crate) fn required_word<'w>(
        &mut self,
        key: &'static str,
        words: &'w [&'w str],
    ) -> Option<&'w str> {
        let value = self.required(key, word(words));
        self.describe(key, || serde_json::json!({ "enum": words }));
        value
    }

    /// Reads the table `key` with `read`.
    pub(crate) fn section<T>(
        &mut self,
        key: impl Into<KeySpec>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let key = key.into();
        let path = self.full_key(key.name);
        let (at, table) = match self.node(key.name) {
            None => (self.location.span.clone(), None),
            Some(node) => (node.span(), self.as_table(self.source, node, &path)),
        };
        let name = join(&self.location.header, key.name);
        self.describe_table(&name, TableKind::Single);
        let keys = self.begin_table(format!("[{name}]"), key.needs_restart);
        let location = TableLocation { path, header: name, span: at, table_index: keys };
        // An absent table is read as well, for the defaults of its keys.
        self.child(location, self.source, table).read(read)
    }

    /// Checks the items of `key`, which names the files to include, and returns those that were read. `fault` returns why an item
    /// cannot be followed. The key is not recorded: the included tables are shown in its place.
    pub(crate) fn include<'f>(
        &mut self,
        key: &'static str,
        fault: impl Fn(&str) -> Option<&'f str>,
    ) -> Vec<IncludedFile> {
        self.describe(key, Vec::<String>::schema);
        let item =
            |item: &str| fault(item).map_or(Ok(()), |fault| Err(format!("{item:?} {fault}")));
        self.parse_key(key, list(checked(text, item)));
        let lines = |it: &SourceTable<'_>, key| {
            let tables = it.table.get(key).and_then(|node| node.get_ref().as_array());
            let lines = tables.into_iter().flat_map(|tables| tables.iter());
            lines.map(|node| it.source.line(node.span().start)).collect::<Vec<_>>()
        };
        let included = self.included.iter().map(|included| IncludedFile {
            name: included.source.file.to_owned(),
            crawlers: lines(included, INCLUDED_TABLES[0]).len(),
            rule_lines: lines(included, INCLUDED_TABLES[1]),
        });
        included.collect()
    }

    /// Reads the tables `[[key]]` in their order, each with `read`: those of this file, then those of included ones.
    pub(crate) fn tables<T>(
        &mut self,
        key: &'static str,
        mut read: impl FnMut(&mut Self) -> T,
    ) -> Vec<T> {
        let own = self.node(key).map(|node| (self.source, node));
        let included = self.included.iter();
        let included =
            included.filter_map(|included| Some((included.source, included.table.get(key)?)));
        let mut items = Vec::new();
        for (source, node) in own.into_iter().chain(included) {
            match node.get_ref().as_array() {
                Some(nodes) => items.extend(nodes.iter().map(|node| (source, node))),
                None => {
                    let message = format!("expected tables [[{key}]], found {}", kind_name(node));
                    self.reader.report(source, node.span().start, self.full_key(key), message);
                }
            }
        }
        let name = join(&self.location.header, key);
        self.describe_table(&name, TableKind::Repeated);
        let read_one =
            |(index, (source, node)): (usize, (&'t SourceText<'t>, &'t ValueNode<'t>))| {
                let path = format!("[[{}]] {}", self.full_key(key), index + 1);
                let table = self.as_table(source, node, &path);
                let location = TableLocation {
                    path,
                    header: name.clone(),
                    span: node.span(),
                    table_index: self.begin_table(format!("[[{name}]]"), false),
                };
                self.child(location, source, table).read(&mut read)
            };
        items.into_iter().enumerate().map(read_one).collect()
    }

    fn describe_table(&self, name: &str, kind: TableKind) {
        if let Some(schema) = &self.reader.schema {
            schema.borrow_mut().add_table(name, kind);
        }
    }

    fn begin_table(&self, header: String, needs_restart: bool) -> usize {
        let mut keys = self.reader.keys.borrow_mut();
        keys.begin_table(header, needs_restart)
    }

    fn as_table(
        &self,
        source: &'t SourceText<'t>,
        node: &'t ValueNode<'t>,
        path: &str,
    ) -> Option<&'t DeTable<'t>> {
        let table = node.get_ref().as_table();
        if table.is_none() {
            let message = format!("expected a table, found {}", kind_name(node));
            let at = node.span().start;
            self.reader.report(source, at, path.to_owned(), message);
        }
        table
    }

    /// Reads every entry of a table with arbitrary keys, such as host names.
    pub(crate) fn entries<T: ToValue>(
        &mut self,
        key: &'static str,
        mut parse: impl FnMut(&str, &'t ValueNode<'t>) -> ParseResult<T>,
    ) -> Vec<T> {
        let path = self.full_key(key);
        let name = join(&self.location.header, key);
        self.describe_table(&name, TableKind::Entries(T::schema));
        let index = self.begin_table(format!("[{name}]"), false);
        let Some(node) = self.node(key) else {
            return Vec::new();
        };
        let Some(table) = node.get_ref().as_table() else {
            let message = format!("expected a table, found {}", kind_name(node));
            self.reader.report(self.source, node.span().start, path, message);
            return Vec::new();
        };
        let mut values = Vec::new();
        for (name, node) in table {
            match parse(name.get_ref(), node) {
                Ok(value) => {
                    let mut keys = self.reader.keys.borrow_mut();
                    keys.add_entry(index, name.get_ref(), value.to_value());
                    values.push(value);
                }
                Err(faults) => {
                    for fault in faults {
                        let path = format!("{path}.{:?}{}", name.get_ref(), fault.within);
                        self.reader.report(self.source, fault.at, path, fault.message);
                    }
                }
            }
        }
        values
    }

    /// Returns the text of `key` in `section`, which is read later and checked then.
    pub(crate) fn text_ahead(&self, section: &str, key: &str) -> Option<&'t str> {
        let section = self.table?.get(section)?.get_ref().as_table()?;
        section.get(key)?.get_ref().as_str()
    }

    /// Returns whether `key` is present in this table.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.contains_key(key))
    }

    /// Returns whether no mistake was found in `key` so far, so that it makes sense to compare it with other keys.
    pub(crate) fn is_valid(&self, key: &str) -> bool {
        self.reader.mistakes.borrow().has_none_in(&self.full_key(key))
    }

    /// Reports a mistake in `key`, at its line or, if it is absent, at the line of its table.
    pub(crate) fn report(&self, key: &str, message: impl Into<String>) {
        let at = self
            .table
            .and_then(|table| table.get_key_value(key))
            .map_or(self.location.span.start, |(key, _)| key.span().start);
        let key = self.full_key(key);
        let described = key.clone();
        self.reader.mistakes.borrow_mut().add(self.source.file, key, || {
            let line = self.source.line(at);
            ConfigMistake::in_line(self.source.file, line, described, message).of_readable_value()
        });
    }

    /// Reports a mistake in this table as a whole.
    pub(crate) fn report_table(&self, message: impl Into<String>) {
        let path = self.location.path.clone();
        self.reader.report(self.source, self.location.span.start, path, message);
    }
}

fn join(parent: &str, key: &str) -> String {
    match parent {
        "" => key.to_owned(),
        _ => format!("{parent}.{key}"),
    }
}
